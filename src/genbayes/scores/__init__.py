"""Scoring rules estimated from simulator draws."""

from ._base import AbstractScore as AbstractScore
from ._base import AbstractSummedScore as AbstractSummedScore
from ._base import Prepared as Prepared
from ._base import WeightedSum as WeightedSum
from ._copula import GaussianCopulaScore as GaussianCopulaScore
from ._copula import SemiparametricSyntheticLikelihood as SemiparametricSyntheticLikelihood
from ._energy import EnergyScore as EnergyScore
from ._energy import energy_distance as energy_distance
from ._energy import mean_distance as mean_distance
from ._kernel import KernelScore as KernelScore
from ._kernel import mmd as mmd
from ._log import LogScore as LogScore
from ._normal import DawidSebastiani as DawidSebastiani
from ._normal import SyntheticLikelihood as SyntheticLikelihood
from ._ratio import RatioEstimation as RatioEstimation
from ._variogram import VariogramScore as VariogramScore
