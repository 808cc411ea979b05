"""A normal mean with a known answer, drawn from exactly: what calibration is tried on."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import genbayes as gb
from genbayes.samplers import AbstractSampler

TRUTH = 1.0
WIDE = 100.0  # of the prior: as good as flat


def shift(theta: Any, z: Any) -> Any:
    return theta["mean"] + z


def log_normal(theta: Any, y: Any) -> Any:
    return -0.5 * jnp.sum((y - theta["mean"]) ** 2)


def log_narrow(theta: Any, y: Any) -> Any:
    """A likelihood with a mistake: a variance of 1/3 in place of 1."""
    return -1.5 * jnp.sum((y - theta["mean"]) ** 2)


def spread_out(key: Any, num: int) -> Any:
    """Data of sd 2, where the model says 1."""
    return TRUTH + 2 * jax.random.normal(key, (num,))


def normal_target(
    observations: Any = None, *, weight: float = 1.0, log_prob: Any = log_normal, prior_sd=WIDE
) -> gb.ScorePosterior:
    y = jnp.linspace(0.0, 2.0, 25) if observations is None else observations
    prior = gb.Prior(mean=dist.Normal(0.0, prior_sd))
    problem = gb.Problem(prior, gb.Simulator(shift, noise=dist.Normal(0.0, 1.0)), y)
    return gb.ScorePosterior(problem, gb.LogScore(log_prob), weight=weight)


class State(NamedTuple):
    u: Any


class Info(NamedTuple):
    precision: Any


class Conjugate(AbstractSampler):
    """Independent draws of the posterior: normal, as scores and prior are quadratic."""

    needs_gradient: ClassVar[bool] = True

    def init(self, key, target, u):
        del key, target
        return State(u)

    def step(self, key, target, state):
        zero, noise = jnp.zeros_like(state.u), target.draw_noise(key)
        at_zero, at_one = target.grad(zero, noise), target.grad(zero + 1, noise)
        precision = at_zero - at_one
        draw = at_zero / precision + jax.random.normal(key, (1,)) / jnp.sqrt(precision)
        return State(draw), Info(precision[0])
