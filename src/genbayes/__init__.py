"""Generalised Bayesian inference on simulator models, by scoring rules.

Names are imported when they are first used, so that the command starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import diagnostics as diagnostics
    from . import kernels as kernels
    from . import plots as plots
    from . import problem as problem
    from . import reports as reports
    from . import runs as runs
    from . import samplers as samplers
    from . import scores as scores
    from . import targets as targets
    from . import tasks as tasks
    from . import tuning as tuning
    from .problem import BlackBox as BlackBox
    from .problem import Command as Command
    from .problem import Prior as Prior
    from .problem import Problem as Problem
    from .problem import Simulator as Simulator
    from .problem import TorchSimulator as TorchSimulator
    from .problem import check as check
    from .reports import report as report
    from .runs import Run as Run
    from .runs import load as load
    from .runs import map_runs as map_runs
    from .runs import resume as resume
    from .runs import sample as sample
    from .samplers import NUTS as NUTS
    from .samplers import PSGLD as PSGLD
    from .samplers import SGHMC as SGHMC
    from .samplers import SGLD as SGLD
    from .samplers import SMCABC as SMCABC
    from .samplers import AdSGLD as AdSGLD
    from .samplers import FrozenNUTS as FrozenNUTS
    from .samplers import PseudoMarginal as PseudoMarginal
    from .samplers import PseudoMarginalNUTS as PseudoMarginalNUTS
    from .samplers import RejectionABC as RejectionABC
    from .scores import DawidSebastiani as DawidSebastiani
    from .scores import EnergyScore as EnergyScore
    from .scores import GaussianCopulaScore as GaussianCopulaScore
    from .scores import KernelScore as KernelScore
    from .scores import LogScore as LogScore
    from .scores import RatioEstimation as RatioEstimation
    from .scores import SemiparametricSyntheticLikelihood as SemiparametricSyntheticLikelihood
    from .scores import SyntheticLikelihood as SyntheticLikelihood
    from .scores import VariogramScore as VariogramScore
    from .targets import ScorePosterior as ScorePosterior

# stage -> the names of it that users meet as genbayes.NAME
_STAGES = {
    "problem": ("BlackBox", "Command", "Prior", "Problem", "Simulator", "TorchSimulator", "check"),
    "scores": (
        "DawidSebastiani",
        "EnergyScore",
        "GaussianCopulaScore",
        "KernelScore",
        "LogScore",
        "RatioEstimation",
        "SemiparametricSyntheticLikelihood",
        "SyntheticLikelihood",
        "VariogramScore",
    ),
    "targets": ("ScorePosterior",),
    "samplers": (
        "NUTS",
        "PSGLD",
        "SGHMC",
        "SGLD",
        "SMCABC",
        "AdSGLD",
        "FrozenNUTS",
        "PseudoMarginal",
        "PseudoMarginalNUTS",
        "RejectionABC",
    ),
    "runs": ("Run", "load", "map_runs", "resume", "sample"),
    "diagnostics": (),
    "plots": (),
    "reports": ("report",),
    "tasks": (),
    "tuning": (),
    "kernels": (),
}
_HOME = {name: stage for stage, names in _STAGES.items() for name in names}

__all__ = ["__version__", *_STAGES, *_HOME]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _STAGES:
        return import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"genbayes has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
