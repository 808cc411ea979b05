"""The paper's experiments, each with its settings and its published numbers as data."""

from ._experiment import Experiment as Experiment
from ._experiments import EXPERIMENTS as EXPERIMENTS
from ._outcome import NUMBERS as NUMBERS
from ._outcome import Reproduction as Reproduction
from ._published_sampler import DriftingPseudoMarginal as DriftingPseudoMarginal
from ._reproduce import reproduce as reproduce
