"""What `sample` refuses before the first step."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import kind
from ..samplers import AbstractSampler, AbstractStochasticGradient
from ..targets import ScorePosterior
from ._plan import Plan


def check_target(target: Any) -> None:
    """Refuse what is no target."""
    if not isinstance(target, ScorePosterior):
        raise TypeError(f"target must be a ScorePosterior, got {type(target).__name__}.")


def check_pair(target: Any, sampler: Any) -> None:
    """Refuse what is no target, no sampler, or a pair that does not fit."""
    check_target(target)
    if not isinstance(sampler, AbstractSampler):
        raise TypeError(f"sampler must be a sampler such as FrozenNUTS(), got {kind(sampler)}.")
    sampler.check(target)


def check_seed(seed: Any) -> None:
    """Refuse what is no seed."""
    whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if whole or (isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key)):
        return
    raise TypeError(f"seed must be a whole number or a key from jax.random.key, got {seed!r}.")


def check_halving(sampler: AbstractSampler) -> None:
    """Refuse to halve a step size that is not there."""
    if not isinstance(sampler, AbstractStochasticGradient):
        raise ValueError(
            'on_divergence="halve" halves the step size of a stochastic-gradient sampler, and '
            f'{type(sampler).__name__} has none. Use on_divergence="refuse".'
        )


def check_keeping(sampler: AbstractSampler) -> None:
    """Refuse to keep gradients where no draw has one of its own."""
    if not isinstance(sampler, AbstractStochasticGradient):
        raise ValueError(
            "keep_gradients=True keeps the estimate that a stochastic-gradient sampler (AdSGLD, "
            f"SGLD, PSGLD, SGHMC) meets at each draw, and {type(sampler).__name__} meets none. "
            "Leave it out: gb.diagnostics.ksd takes fresh gradients."
        )


def check_devices(target: ScorePosterior, plan: Plan) -> None:
    """Refuse several devices for draws that call back: their callbacks can wait for each other."""
    simulator = target.problem.simulator
    if plan.chain_method == "parallel" and simulator is not None and simulator.calls_back:
        raise ValueError(
            f"{type(simulator).__name__} calls Python from compiled code, which can hang where "
            'several devices do so at once, got chain_method="parallel". Use "vectorized".'
        )
