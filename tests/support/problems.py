"""Small problems with exact answers, and a plain score that compiles fast."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import genbayes as gb
from genbayes.scores import AbstractSummedScore

# ten draws of N(1, 1), rounded: the tests of one parameter share them
OBSERVATIONS = np.array([0.3, 2.1, 0.9, 1.4, -0.6, 1.8, 0.2, 1.1, 2.7, 0.5])


class PlainEnergy(AbstractSummedScore):
    """The energy score of scalar draws, written as its formula reads."""

    strictly_proper: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    min_simulations: ClassVar[int] = 2
    needs_simulations: ClassVar[bool] = True

    def _estimates(self, simulations, observations, theta):
        del theta
        x, y, m = simulations[:, 0], observations[:, 0], simulations.shape[0]
        spread = jnp.sum(jnp.abs(x[:, None] - x[None, :])) / (m * (m - 1))
        return 2 * jnp.mean(jnp.abs(x[:, None] - y[None, :]), axis=0) - spread


class NormalLogScore(AbstractSummedScore):
    """The negative log-likelihood of N(mean, scale^2): a score that needs no simulations."""

    strictly_proper: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    min_simulations: ClassVar[int] = 0
    needs_simulations: ClassVar[bool] = False

    def _estimates(self, simulations, observations, theta):
        del simulations
        return -dist.Normal(theta["mean"], theta["scale"]).log_prob(observations[:, 0])


def location_problem(y: np.ndarray = OBSERVATIONS) -> gb.Problem:
    """N(mean, 1) with mean ~ N(0, 1)."""
    return gb.tasks.normal_location().problem(y)


def scaled(theta, z):
    return theta["mean"] + theta["scale"] * z


def location_scale_problem(y: np.ndarray = OBSERVATIONS) -> gb.Problem:
    """N(mean, scale^2) with mean ~ N(0, 2^2) and scale ~ HalfNormal(2)."""
    prior = gb.Prior(mean=dist.Normal(0.0, 2.0), scale=dist.HalfNormal(2.0))
    return gb.Problem(prior, gb.Simulator(scaled, noise=dist.Normal(0.0, 1.0)), y)


COVARIANCE = np.array([[1.0, 0.6], [0.6, 2.0]])


def every_kind_of_prior() -> gb.Prior:
    """Unbounded, half-bounded, bounded, a simplex, and a correlated vector."""
    return gb.Prior(
        free=dist.Normal(1.0, 2.0),
        positive=dist.Gamma(3.0, 2.0),
        bounded=dist.Uniform(-1.0, 3.0),
        shares=dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])),
        vector=dist.MultivariateNormal(jnp.array([0.5, -1.0]), jnp.asarray(COVARIANCE)),
    )


def mixed(theta, z):
    """Reads every parameter of `every_kind_of_prior`."""
    shift = theta["free"] + theta["bounded"] + theta["shares"][0] + theta["vector"][1]
    return shift + theta["positive"] * z


def every_kind_problem(y: np.ndarray = OBSERVATIONS) -> gb.Problem:
    """A simulator that reads parameters of every kind."""
    return gb.Problem(every_kind_of_prior(), gb.Simulator(mixed, noise=dist.Normal(0.0, 1.0)), y)
