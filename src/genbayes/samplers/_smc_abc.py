"""Adaptive sequential Monte Carlo for approximate Bayesian computation."""

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_between, check_nonnegative, check_positive
from .._types import Array, Bool, Float, Key, Scalar
from ..targets import ScorePosterior
from ._distances import Distance, Summary, distances
from ._population import (
    AbstractABC,
    Generation,
    PopulationState,
    check_settings,
    effective,
    from_prior,
    normalised,
)

HARDLY = 0.02  # share of accepted moves below which the population hardly moves


class SMCABC(AbstractABC):
    r"""Sequential Monte Carlo ABC, with tolerances and moves that adapt.

    $$\pi_\epsilon(\theta, x^{1..M} \mid y) \propto \pi(\theta) \prod_k f_\theta(x^k)\;
      \frac 1M \sum_k 1\{\rho(x^k, y) \le \epsilon\}$$

    Each of `num_particles` parameters has $M$ simulated data sets. The first generation is the
    prior. Each later one lowers $\epsilon$ until the effective sample size has fallen to the share
    `alpha` of what it was, resamples where it is low, and moves every particle that has weight by
    one Metropolis step: a normal proposal in unconstrained space and $M$ fresh data sets, accepted
    by the ratio of prior densities and of data sets within the tolerance.

    Of the target the problem alone is used: its score and weight are not. A run keeps all
    generations; its draws are the particles of the last, which are **weighted**.

    **Main arguments:**

    - `num_particles`; `num_generations`, the prior being the first; `num_simulations`, $M$.
    - `distance`: $\rho$. `"energy"`, the energy distance; `"euclidean"`, the mean Euclidean
        distance over all pairs of a simulated and an observed row; a kernel, for its maximum mean
        discrepancy; or a function `distance(x, y)` of data sets `(size, d)` and `(n, d)`.
    - `summary`: a function of a data set `(n, d)`; summaries are then compared in its place.

    **Other arguments:**

    - `data_size`: draws that make a simulated data set; as many as there are observations.
    - `alpha`: between 0 and 1; more is slower and steadier.
    - `proposal_scale`: the covariance of a move is that of the weighted particles times this.
    - `resample_below`: resample where the effective sample size is under that share of them all.
    - `tolerance`, `min_acceptance`: end where the tolerance, or the share of accepted moves, has
        fallen to that.

    ??? cite "References"
        Del Moral, Doucet and Jasra (2012), *An adaptive sequential Monte Carlo method for
        approximate Bayesian computation*.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore())
    >>> sampler = gb.SMCABC(num_particles=200, num_generations=5, num_simulations=2)
    >>> run = gb.sample(target, sampler, progress=False)
    >>> run.draws["mean"].shape, run.weights.shape
    ((1, 200), (1, 200))

    ```
    """

    num_particles: int = 1000
    num_generations: int = 25
    num_simulations: int = 10
    distance: Distance = "energy"
    summary: Summary | None = None
    data_size: int | None = None
    alpha: float = 0.95
    proposal_scale: float = 2.0
    resample_below: float = 0.5
    tolerance: float = 0.0
    min_acceptance: float = 0.0

    def __init__(
        self,
        *,
        num_particles: int = 1000,
        num_generations: int = 25,
        num_simulations: int = 10,
        distance: Distance = "energy",
        summary: Summary | None = None,
        data_size: int | None = None,
        alpha: float = 0.95,
        proposal_scale: float = 2.0,
        resample_below: float = 0.5,
        tolerance: float = 0.0,
        min_acceptance: float = 0.0,
    ):
        self.num_particles = num_particles
        self.num_generations = num_generations
        self.num_simulations = num_simulations
        self.distance = distance
        self.summary = summary
        self.data_size = data_size
        self.alpha = alpha
        self.proposal_scale = proposal_scale
        self.resample_below = resample_below
        self.tolerance = tolerance
        self.min_acceptance = min_acceptance
        check_settings(self)
        check_between("alpha", alpha, 0, 1)
        check_positive("proposal_scale", proposal_scale)
        check_nonnegative("resample_below", resample_below, "It is a share: 0.5 is usual.")
        check_nonnegative("min_acceptance", min_acceptance, "It is a share.")

    def settled(self, state: PopulationState) -> Bool[Array, "..."]:
        few = state.acceptance_rate < self.min_acceptance
        return (state.tolerance <= self.tolerance) | few

    def next_generation(
        self, key: Key, target: ScorePosterior, state: PopulationState
    ) -> Generation:
        key_resample, key_prior, key_move, key_data, key_accept = jax.random.split(key, 5)
        first = state.generation == 0
        chosen = _selected(self, key_resample, state)
        # one simulation serves both the first generation and the others
        drawn = from_prior(key_prior, target, self.num_particles)
        u = jnp.where(first, drawn, _moved(self, key_move, chosen))
        inside = jnp.all(jnp.isfinite(u), axis=1)
        wanted = (first | (chosen.weight > 0)) & inside
        distance, calls = distances(self, key_data, target, u, wanted)
        found = _Proposal(u, jnp.where(wanted[:, None], distance, jnp.inf))
        begun = _begun(chosen, found)
        moved, accepted = _decided(key_accept, target, chosen, found)
        after = jax.tree.map(lambda a, b: jnp.where(first, a, b), begun, moved)
        return Generation(after, accepted | first, calls)

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        found = []
        rate = float(np.min(np.asarray(info["acceptance_rate"])[:, -1]))
        if rate < max(HARDLY, float(self.min_acceptance)):
            found.append(
                f"In the last generation {rate:.1%} of the moves were accepted: particles hardly "
                "move, and copies of a few may carry the posterior. Take more data sets of a "
                "particle (num_simulations), or end at a larger tolerance."
            )
        distinct = min(len(np.unique(chain[-1], axis=0)) for chain in np.asarray(u))
        if distinct < self.num_particles / 4:
            found.append(
                f"Only {distinct:,} of {self.num_particles:,} particles are distinct. Take more "
                "particles, or a larger alpha."
            )
        return found


class _Proposal(NamedTuple):
    """Where particles might go, and how far their data sets are there."""

    u: Float[Array, "N p"]
    distance: Float[Array, "N M"]


def hits(distance: Float[Array, "N M"], tolerance: Scalar) -> Float[Array, " N"]:
    """How many data sets of each particle are within the tolerance."""
    return jnp.sum((distance <= tolerance) & jnp.isfinite(distance), axis=1, dtype=distance.dtype)


def _begun(state: PopulationState, found: _Proposal) -> PopulationState:
    """The first generation: prior draws, weighted by their share of finite simulations."""
    weight = normalised(hits(found.distance, state.tolerance))
    u = jnp.where(jnp.isfinite(found.u), found.u, 0)
    return state._replace(
        u=u, distance=found.distance, weight=weight, generation=state.generation + 1
    )


def lowered(alpha: float | Array, least: float | Array, state: PopulationState) -> Scalar:
    """The least tolerance, of the distances there are, that leaves a share of the effective size.

    The effective size falls as the tolerance does, in steps at the distances themselves, which are
    sorted and bisected.
    """
    wanted = alpha * effective(state.weight)
    ordered = jnp.sort(jnp.ravel(state.distance))

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        enough = effective(_reweighted(state, ordered[middle])) >= wanted
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    last = jnp.asarray(ordered.size - 1)
    rounds = ordered.size.bit_length()
    _, place = jax.lax.fori_loop(0, rounds, halve, (jnp.zeros_like(last), last))
    return jnp.minimum(state.tolerance, jnp.maximum(ordered[place], least))


def _reweighted(state: PopulationState, tolerance: Scalar) -> Float[Array, " N"]:
    before = hits(state.distance, state.tolerance)
    now = hits(state.distance, jnp.minimum(tolerance, state.tolerance))
    return state.weight * now / jnp.where(before > 0, before, 1)


@eqx.filter_jit
def _selected(sampler: SMCABC, key: Key, state: PopulationState) -> PopulationState:
    """A lower tolerance, the weights that it leaves, and fresh copies where they are uneven."""
    tolerance = lowered(sampler.alpha, sampler.tolerance, state)
    weight = normalised(_reweighted(state, tolerance))
    size = sampler.num_particles
    uneven = effective(weight) < sampler.resample_below * size
    rows = jnp.where(uneven, systematic(key, weight), jnp.arange(size))
    return state._replace(
        u=state.u[rows],
        distance=state.distance[rows],
        weight=jnp.where(uneven, jnp.full_like(weight, 1 / size), weight),
        tolerance=tolerance,
    )


def systematic(key: Key, weight: Float[Array, " N"]) -> Array:
    """Rows to keep, each about as often as it weighs: one uniform number sets all places."""
    size = weight.shape[0]
    heights = jnp.cumsum(weight)
    places = (
        jnp.arange(size, dtype=weight.dtype) + jax.random.uniform(key, (), weight.dtype)
    ) / size
    rows = jnp.searchsorted(heights, places * heights[-1], side="right")
    # rounding must not carry the last place beyond the last row that has weight
    return jnp.minimum(rows, size - 1 - jnp.argmax(weight[::-1] > 0))


@eqx.filter_jit
def _moved(sampler: SMCABC, key: Key, state: PopulationState) -> Float[Array, "N p"]:
    """Proposals from normals around the particles, as wide as the population."""
    size, dtype = state.u.shape[1], state.u.dtype
    apart = state.u - (state.weight @ state.u)[None]
    covariance = sampler.proposal_scale * (apart * state.weight[:, None]).T @ apart
    # the slightest spread in every direction, so that a population in a plane has a root
    slight = 10 * jnp.finfo(dtype).eps * jnp.trace(covariance) / size + jnp.finfo(dtype).tiny
    root = jnp.linalg.cholesky(covariance + slight * jnp.eye(size, dtype=dtype))
    return state.u + jax.random.normal(key, state.u.shape, dtype) @ root.T


@eqx.filter_jit
def _decided(
    key: Key, target: ScorePosterior, state: PopulationState, found: _Proposal
) -> tuple[PopulationState, Bool[Array, " N"]]:
    """One Metropolis step of every particle that has weight."""
    prior = jax.vmap(target.problem.prior.log_prob_unconstrained)
    now, then = hits(state.distance, state.tolerance), hits(found.distance, state.tolerance)
    ratio = prior(found.u) - prior(state.u) + jnp.log(then) - jnp.log(now)
    uniform = jax.random.uniform(key, ratio.shape, ratio.dtype)
    alive = state.weight > 0
    # nothing within the tolerance makes the ratio minus infinity, or no number: never accepted
    accepted = alive & (then > 0) & (jnp.log(uniform) < ratio)
    num_alive = jnp.sum(alive, dtype=ratio.dtype)
    rate = jnp.sum(accepted, dtype=ratio.dtype) / jnp.where(num_alive > 0, num_alive, 1)
    after = state._replace(
        u=jnp.where(accepted[:, None], found.u, state.u),
        distance=jnp.where(accepted[:, None], found.distance, state.distance),
        acceptance_rate=rate,
        generation=state.generation + 1,
    )
    return after, accepted
