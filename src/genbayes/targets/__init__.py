"""Targets: what samplers walk on."""

from ._frozen import noise_distribution as noise_distribution
from ._frozen import noise_size as noise_size
from ._frozen import scrambled_sobol as scrambled_sobol
from ._frozen import sobol_noise as sobol_noise
from ._frozen import why_no_sobol as why_no_sobol
from ._posterior import ScorePosterior as ScorePosterior
from ._posterior import TargetNoise as TargetNoise
