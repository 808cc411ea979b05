"""A task: a problem with a name, a known truth and a generator of data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from .._types import Array, Key
from ..problem import Prior, Problem, Simulator


@dataclass(frozen=True)
class Task:
    """A named problem.

    - `prior`, `simulator`: as they go into a `Problem`.
    - `truth`: the parameters that `generate` uses.
    - `source`: where the data come from, if not from the simulator at the truth.
    - `num_observations`: how many `problem` generates, unless told otherwise.
    """

    name: str
    prior: Prior
    simulator: Simulator
    truth: Mapping[str, Array]
    source: Callable[[Key, int], Array] | None = None
    num_observations: int = 10

    def generate(self, seed: int | Key, num_observations: int) -> Array:
        """Observations `(n, *event)`, the same ones for the same seed."""
        key = jax.random.key(seed) if isinstance(seed, int) else seed
        if self.source is not None:
            return self.source(key, num_observations)
        theta = {name: jnp.asarray(value, float) for name, value in self.truth.items()}
        return self.simulator.simulate(key, theta, num_observations)

    def problem(
        self,
        observations: Array | None = None,
        *,
        seed: int | Key = 0,
        num_observations: int | None = None,
    ) -> Problem:
        """The problem with given observations, or with generated ones."""
        if observations is None:
            num = self.num_observations if num_observations is None else num_observations
            observations = self.generate(seed, num)
        return Problem(self.prior, self.simulator, observations)
