"""A target that is exactly its prior: normal, with the gradient of a normal and no simulator."""

import numpy as np
import numpyro.distributions as dist

import genbayes as gb

PRIOR = gb.Prior(a=dist.Normal(0.0, 1.0), b=dist.Normal(0.0, 2.0))
SDS = np.array([1.0, 2.0])


def flat(theta, y):
    return 0.0 * (theta["a"] + theta["b"]) + 0.0 * y[0]


def prior_target() -> gb.ScorePosterior:
    """Standard deviations 1 and 2, independent."""
    return gb.ScorePosterior(gb.Problem(PRIOR, None, np.zeros(3)), gb.LogScore(flat))
