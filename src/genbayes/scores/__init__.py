"""Scoring rules estimated from simulator draws."""

from ._base import AbstractScore as AbstractScore
from ._base import Prepared as Prepared
from ._energy import EnergyScore as EnergyScore
