"""Samplers whose draws are the particles of a population, and whose steps are its generations."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_count, check_nonnegative
from .._types import Array, Bool, Float, Int, Key, Scalar, Unconstrained
from ..problem import Prior
from ..targets import ScorePosterior
from ._base import AbstractSampler
from ._distances import Distance, Summary, check_comparison, check_fits


class PopulationState(NamedTuple):
    """Particles, their weights (which sum to one), and how far their data sets are from y."""

    u: Float[Array, "N p"]
    weight: Float[Array, " N"]
    distance: Float[Array, "N M"]
    tolerance: Scalar
    acceptance_rate: Scalar
    generation: Int[Array, ""]


class PopulationInfo(NamedTuple):
    r"""What is kept of a generation: the first three for each particle, the others for all.

    `distance` is that of a particle's nearest data set, `ess` is $1 / \sum W^2$.
    """

    log_weight: Float[Array, " N"]
    distance: Float[Array, " N"]
    accepted: Bool[Array, " N"]
    tolerance: Scalar
    ess: Scalar
    acceptance_rate: Scalar
    simulator_calls: Int[Array, ""]


class Generation(NamedTuple):
    """A population, which of its particles are new, and the draws that it took."""

    state: PopulationState
    accepted: Bool[Array, " N"]
    simulator_calls: Int[Array, ""]


class AbstractABC(AbstractSampler):
    """Approximate Bayesian computation with a population: one step is one generation.

    `init` and `step` are those of all samplers, only that `u` is `(num_particles, p)`. A run
    keeps every generation, and its draws are the particles of the last.
    """

    num_particles: eqx.AbstractVar[int]
    num_generations: eqx.AbstractVar[int]
    num_simulations: eqx.AbstractVar[int]
    distance: eqx.AbstractVar[Distance]
    summary: eqx.AbstractVar[Summary | None]
    data_size: eqx.AbstractVar[int | None]
    tolerance: eqx.AbstractVar[float]
    needs_gradient: ClassVar[bool] = False

    @abstractmethod
    def next_generation(
        self, key: Key, target: ScorePosterior, state: PopulationState
    ) -> Generation:
        """The population after one more generation."""

    @abstractmethod
    def settled(self, state: PopulationState) -> Bool[Array, "..."]:
        """Whether the population has come to where it was to end."""

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> PopulationState:
        """A population that the first step will draw from the prior; `u` gives the precision."""
        del key
        size, dtype = self.num_particles, u.dtype
        return PopulationState(
            u=jnp.zeros((size, target.size), dtype),
            weight=jnp.full(size, 1 / size, dtype),
            distance=jnp.full((size, self.num_simulations), jnp.inf, dtype),
            tolerance=jnp.asarray(jnp.inf, dtype),
            acceptance_rate=jnp.ones((), dtype),
            generation=jnp.zeros((), jnp.int32),
        )

    def step(
        self, key: Key, target: ScorePosterior, state: PopulationState
    ) -> tuple[PopulationState, PopulationInfo]:
        """One generation; a population that is settled stays as it is."""
        done = (state.generation > 0) & self.settled(state)
        new = self.next_generation(key, target, state)
        after = jax.tree.map(lambda a, b: jnp.where(done, a, b), state, new.state)
        return after, PopulationInfo(
            log_weight=jnp.log(after.weight),
            distance=jnp.min(after.distance, axis=1),
            accepted=new.accepted & ~done,
            tolerance=after.tolerance,
            ess=effective(after.weight),
            acceptance_rate=after.acceptance_rate,
            simulator_calls=new.simulator_calls,
        )

    def check(self, target: ScorePosterior) -> None:
        if target.problem.simulator is None:
            raise ValueError(
                f"{type(self).__name__} compares simulations with the data, and the problem has "
                "no simulator. Give it one, or use NUTS() with a known likelihood (LogScore)."
            )
        check_fits(self, target)

    def remarks(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del u
        tolerance = np.asarray(info["tolerance"])
        reached = " and ".join(f"{x:.4g}" for x in tolerance[:, -1])
        return [f"Tolerance {reached} after {tolerance.shape[1]:,} generations."]


def check_settings(sampler: AbstractABC) -> None:
    """Refuse settings that make no sense, for all of the family."""
    check_count("num_particles", sampler.num_particles, 2)
    check_count("num_generations", sampler.num_generations)
    check_nonnegative("tolerance", sampler.tolerance, "0 goes on to the last generation.")
    check_comparison(sampler)


def effective(weight: Float[Array, " N"]) -> Scalar:
    r"""$(\sum W)^2 / \sum W^2$, and 0 where there is no weight at all."""
    squares = jnp.sum(weight**2)
    some = squares > 0
    return jnp.where(some, jnp.sum(weight) ** 2 / jnp.where(some, squares, 1), 0)


def normalised(weight: Float[Array, " N"]) -> Float[Array, " N"]:
    """Weights that sum to one, or to nothing where there is none."""
    total = jnp.sum(weight)
    return weight / jnp.where(total > 0, total, 1)


def from_prior(key: Key, target: ScorePosterior, num: int) -> Float[Array, "N p"]:
    """Prior draws in unconstrained coordinates."""
    return _drawn(target.problem.prior, jax.random.split(key, num))


@eqx.filter_jit
def _drawn(prior: Prior, keys: Array) -> Float[Array, "N p"]:
    return jax.vmap(lambda key: prior.unconstrain(prior.sample(key)))(keys)
