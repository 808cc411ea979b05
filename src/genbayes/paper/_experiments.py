"""All experiments, in the order of the paper."""

from . import (
    bsl_sticky,
    concentration_multi,
    concentration_multi_misspecified,
    concentration_uni,
    effect_of_m,
    lorenz_abc,
    lorenz_neural,
    pm_concentration,
    pm_vs_sg,
    robust_normal,
    tuning,
)
from ._experiment import Experiment

MODULES = (
    pm_vs_sg,
    concentration_uni,
    robust_normal,
    concentration_multi,
    concentration_multi_misspecified,
    lorenz_abc,
    lorenz_neural,
    pm_concentration,
    bsl_sticky,
    effect_of_m,
    tuning,
)
EXPERIMENTS: dict[str, Experiment] = {m.EXPERIMENT.name: m.EXPERIMENT for m in MODULES}
