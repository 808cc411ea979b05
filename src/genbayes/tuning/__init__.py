"""Tuning: what to decide before a run."""

from ._optimise import Optimise as Optimise
