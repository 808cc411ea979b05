"""Tuning: what to decide before a run."""

from ._optimise import Optimise as Optimise
from ._step_size import Bandit as Bandit
from ._step_size import step_size as step_size
