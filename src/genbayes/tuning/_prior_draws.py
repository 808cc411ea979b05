"""What the heuristics over the prior share: draws of it, each with a key of its own."""

from typing import Any

import jax
import numpy as np

from .._types import Array, Key
from ..problem import Problem


def as_key(seed: int | Key) -> Key:
    """The key that a seed stands for."""
    return jax.random.key(seed) if isinstance(seed, (int, np.integer)) else seed


def rng_of(key: Key) -> np.random.Generator:
    """A NumPy generator that belongs to a key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def check_problem(problem: Any) -> None:
    """Refuse what is no problem."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a genbayes.Problem, got {type(problem).__name__}.")


def prior_draws(key: Key, problem: Problem, num: int) -> tuple[dict[str, np.ndarray], Array]:
    """Draws of the prior by name `(num, *shape)`, and a key for the simulations at each."""
    key_theta, key_simulations = jax.random.split(key)
    theta = problem.prior.sample(key_theta, num)
    keys = jax.random.split(key_simulations, num)
    return {name: np.asarray(value) for name, value in theta.items()}, keys
