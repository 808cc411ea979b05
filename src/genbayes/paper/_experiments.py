"""All experiments, in the order of the paper."""

from . import bsl_sticky, effect_of_m, pm_concentration, robust_normal
from ._experiment import Experiment

MODULES = (robust_normal, pm_concentration, bsl_sticky, effect_of_m)
EXPERIMENTS: dict[str, Experiment] = {m.EXPERIMENT.name: m.EXPERIMENT for m in MODULES}
