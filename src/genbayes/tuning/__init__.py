"""Tuning: what to decide before a run."""

from ._bandwidth import median_bandwidth as median_bandwidth
from ._compare_weights import compare_weights as compare_weights
from ._match_coverage import match_coverage as match_coverage
from ._match_information import match_information as match_information
from ._match_minimisers import match_minimisers as match_minimisers
from ._match_variance import match_variance as match_variance
from ._match_weight import match_weight as match_weight
from ._optimise import Optimise as Optimise
from ._step_size import Bandit as Bandit
from ._step_size import StepSize as StepSize
from ._step_size import step_size as step_size
