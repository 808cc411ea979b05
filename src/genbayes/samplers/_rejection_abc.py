"""Rejection: the nearest of many prior draws."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, Key
from ..targets import ScorePosterior
from ._distances import Distance, Summary, distances
from ._population import (
    AbstractABC,
    Generation,
    PopulationState,
    check_settings,
    from_prior,
    normalised,
)


class RejectionABC(AbstractABC):
    r"""Rejection ABC: of all parameters drawn from the prior, keep those whose data come nearest.

    $$\pi_\epsilon(\theta \mid y) \propto \pi(\theta)\, P_\theta\{\rho(x, y) \le \epsilon\}$$

    Each generation draws `num_particles` from the prior, with one data set each, and keeps the
    nearest `num_particles` of all so far: after `num_generations` the share kept is one in so many,
    and $\epsilon$ is the largest distance among them. Of the target the problem alone is used.

    **Arguments:** `num_particles`, how many are kept; `num_generations`; `distance`, `summary` and
    `data_size` as for `SMCABC`; `tolerance`, end where $\epsilon$ has fallen to that.

    ??? cite "References"
        Pritchard, Seielstad, Perez-Lezaun and Feldman (1999), *Population growth of human Y
        chromosomes: a study of Y chromosome microsatellites*.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore())
    >>> run = gb.sample(target, gb.RejectionABC(num_particles=100), progress=False)
    >>> run.cost.simulator_calls == 25 * 100 * 20
    True

    ```
    """

    num_particles: int = 1000
    num_generations: int = 25
    distance: Distance = "energy"
    summary: Summary | None = None
    data_size: int | None = None
    tolerance: float = 0.0

    def __init__(
        self,
        *,
        num_particles: int = 1000,
        num_generations: int = 25,
        distance: Distance = "energy",
        summary: Summary | None = None,
        data_size: int | None = None,
        tolerance: float = 0.0,
    ):
        self.num_particles = num_particles
        self.num_generations = num_generations
        self.distance = distance
        self.summary = summary
        self.data_size = data_size
        self.tolerance = tolerance
        check_settings(self)

    @property
    def num_simulations(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One data set of each particle."""
        return 1

    def settled(self, state: PopulationState) -> Bool[Array, "..."]:
        return state.tolerance <= self.tolerance

    def next_generation(
        self, key: Key, target: ScorePosterior, state: PopulationState
    ) -> Generation:
        key_prior, key_data = jax.random.split(key)
        size = self.num_particles
        u = from_prior(key_prior, target, size)
        inside = jnp.all(jnp.isfinite(u), axis=1)
        distance, calls = distances(self, key_data, target, u, inside)
        distance = jnp.where(inside[:, None], distance, jnp.inf)
        all_u = jnp.concatenate([jnp.where(inside[:, None], u, 0), state.u])
        all_distances = jnp.concatenate([distance, state.distance])
        rows = jnp.argsort(all_distances[:, 0])[:size]
        kept = all_distances[rows]
        after = PopulationState(
            u=all_u[rows],
            weight=normalised(jnp.isfinite(kept[:, 0]).astype(u.dtype)),
            distance=kept,
            tolerance=jnp.max(kept),
            acceptance_rate=jnp.mean(rows < size, dtype=u.dtype),
            generation=state.generation + 1,
        )
        return Generation(after, rows < size, calls)

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del u
        if np.all(np.isfinite(np.asarray(info["tolerance"])[:, -1])):
            return []
        return [
            "Fewer simulations were finite than there are particles, so that nothing was rejected. "
            "Draw more generations, or look at simulator draws under prior draws (genbayes.check)."
        ]
