"""Samplers: one step each."""

from ._adsgld import AdSGLD as AdSGLD
from ._base import AbstractSampler as AbstractSampler
from ._base import AbstractWarmup as AbstractWarmup
from ._pseudo_marginal import PseudoMarginal as PseudoMarginal
