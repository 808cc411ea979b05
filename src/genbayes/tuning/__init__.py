"""Tuning: what to decide before a run."""

from ._bandwidth import median_bandwidth as median_bandwidth
from ._match_weight import match_weight as match_weight
from ._optimise import Optimise as Optimise
from ._step_size import Bandit as Bandit
from ._step_size import StepSize as StepSize
from ._step_size import step_size as step_size
