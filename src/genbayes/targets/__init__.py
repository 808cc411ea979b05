"""Targets: what samplers walk on."""

from ._posterior import FrozenTarget as FrozenTarget
from ._posterior import ScorePosterior as ScorePosterior
from ._posterior import TargetNoise as TargetNoise
