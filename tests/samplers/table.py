"""The one table of samplers: a new method is a line here, and obeys every law of the contract."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpyro.distributions as dist
from tests.support.problems import OBSERVATIONS, PlainEnergy

import genbayes as gb


class Row(NamedTuple):
    """A constructor of one number, its usual value, and what suits a prior of seven coordinates."""

    make: Callable[[float], Any]
    setting: float
    for_prior: float
    prior_draws: int = 10_000  # none: it has a bias at every step size
    slow: bool = False  # takes long to compile: the fast tier checks its shapes alone


SAMPLERS = {
    "pseudo-marginal": Row(lambda x: gb.PseudoMarginal(x), 0.8, 0.8, 20_000),
    "correlated": Row(lambda x: gb.PseudoMarginal(x, groups=2), 0.8, 0.8, 20_000),
    "adaptive": Row(lambda x: gb.PseudoMarginal(x, adapt=True), 0.8, 0.8, 20_000),
    "badodab": Row(lambda x: gb.AdSGLD(x, diffusion=1.0), 0.1, 0.2),
    "euler": Row(lambda x: gb.AdSGLD(x, diffusion=1.0, integrator="euler"), 0.1, 0.04, 20_000),
    "automatic diffusion": Row(lambda x: gb.AdSGLD(x), 0.1, 0.2),
    "sgld": Row(lambda x: gb.SGLD(x), 0.05, 0.05, 40_000),
    "psgld": Row(lambda x: gb.PSGLD(x), 0.05, 0.05, 0, slow=True),
    "sghmc": Row(lambda x: gb.SGHMC(x, friction=1.0), 0.1, 0.1, 20_000, slow=True),
    "frozen nuts": Row(lambda x: gb.FrozenNUTS(target_acceptance=x), 0.8, 0.8, 1000, slow=True),
    "joint nuts": Row(
        lambda x: gb.PseudoMarginalNUTS(target_acceptance=x), 0.8, 0.8, 1000, slow=True
    ),
    "alternating nuts": Row(
        lambda x: gb.PseudoMarginalNUTS(noise="groups", groups=2, target_acceptance=x),
        0.8,
        0.8,
        1000,
        slow=True,
    ),
}

# whose draws are the particles of a population, and whose steps are its generations
POPULATIONS = {
    "smc-abc": Row(
        lambda x: gb.SMCABC(num_particles=40, num_generations=8, num_simulations=2, alpha=x),
        0.9,
        0.9,
    ),
    "rejection-abc": Row(
        lambda x: gb.RejectionABC(num_particles=40, num_generations=8, tolerance=x), 0.01, 0.01
    ),
}

TRACES = [0]


def traced(theta, z):
    """A location model that counts how often it is traced, that is, compiled."""
    TRACES[0] += 1
    return theta["mean"] + z


PRIOR = gb.Prior(mean=dist.Normal(0.0, 1.0))
SIMULATOR = gb.Simulator(traced, noise=dist.Normal(0.0, 1.0))


def small_target(**options: Any) -> gb.ScorePosterior:
    """A target that compiles fast; every law uses the same program."""
    problem = gb.Problem(PRIOR, SIMULATOR, OBSERVATIONS)
    return gb.ScorePosterior(problem, PlainEnergy(), **{"num_simulations": 8} | options)
