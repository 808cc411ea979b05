"""Targets: what samplers walk on."""

from ._over_draws import over_draws as over_draws
from ._posterior import ScorePosterior as ScorePosterior
from ._posterior import TargetNoise as TargetNoise
from ._sobol import noise_distribution as noise_distribution
from ._sobol import noise_size as noise_size
from ._sobol import scrambled_sobol as scrambled_sobol
from ._sobol import sobol_noise as sobol_noise
from ._sobol import suits_sobol as suits_sobol
from ._sobol import why_no_sobol as why_no_sobol
from ._sobol import with_all_pairs as with_all_pairs
