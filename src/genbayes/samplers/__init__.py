"""Samplers: one step each."""

from ._adsgld import AdSGLD as AdSGLD
from ._base import AbstractSampler as AbstractSampler
from ._base import AbstractWarmup as AbstractWarmup
from ._base import longest_stay as longest_stay
from ._choose import choose_sampler as choose_sampler
from ._frozen_nuts import NUTS as NUTS
from ._frozen_nuts import FrozenNUTS as FrozenNUTS
from ._frozen_nuts import freezing_error as freezing_error
from ._pm_nuts import PseudoMarginalNUTS as PseudoMarginalNUTS
from ._population import AbstractABC as AbstractABC
from ._pseudo_marginal import PseudoMarginal as PseudoMarginal
from ._rejection_abc import RejectionABC as RejectionABC
from ._sghmc import SGHMC as SGHMC
from ._sgld import PSGLD as PSGLD
from ._sgld import SGLD as SGLD
from ._smc_abc import SMCABC as SMCABC
from ._stochastic_gradient import AbstractStochasticGradient as AbstractStochasticGradient
from ._tuner import Tuned as Tuned
from ._tuner import settings_to_tune as settings_to_tune
