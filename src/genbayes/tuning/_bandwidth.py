"""Bandwidth of a kernel: the median distance between two simulations at one parameter."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_between, check_count
from .._result import AbstractResult
from .._table import Table
from .._types import Array, Key, Scalar, Simulations, Theta
from ..problem import AbstractSimulator, Problem
from ..scores import EnergyScore
from ..targets import ScorePosterior, over_draws
from ._median import median_interval
from ._prior_draws import as_key, check_problem, prior_draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SIMULATIONS = 46_000  # so many squared still fit into 32 bits
_PAIRS = 2**18  # distances of one simulated set that are looked at side by side
_UNROLLED = 16


@dataclass(frozen=True, eq=False)
class Bandwidth(AbstractResult):
    """A bandwidth and the medians that it is the median of.

    - `value`: the bandwidth; `interval`, `level`: its Monte Carlo interval, free of assumptions.
    - `medians`: the median distance at each prior draw, but for those left out.
    - `failed_simulations`: how many were not finite and left out; `failed_draws`: prior draws
        that had fewer than two finite simulations, or whose median distance overflowed.
    """

    value: float
    interval: tuple[float, float]
    level: float
    medians: np.ndarray
    failed_simulations: int
    failed_draws: int
    num_simulations: int
    simulator_calls: int
    seconds: float

    @property
    def findings(self) -> tuple[str, ...]:
        """What there is to worry about, in words."""
        found = []
        if self.failed_simulations:
            share = self.failed_simulations / self.simulator_calls
            found.append(f"{share:.2%} of the simulations were not finite and are left out.")
        if self.failed_draws:
            found.append(f"{self.failed_draws:,} prior draws gave no distance and are left out.")
        return tuple(found)

    def table(self) -> Table:
        """The bandwidth with its interval, and how the medians spread over the prior."""
        low, high = np.quantile(self.medians, [0.05, 0.95])
        rows: list[tuple[Any, ...]] = [(self.value, *self.interval, float(low), float(high))]
        heads = ("bandwidth", "from", "to", "5 % of draws", "95 % of draws")
        notes = [
            *(f"! {f}" for f in self.findings),
            f"median over {len(self.medians):,} prior draws of the median distance between "
            f"{self.num_simulations:,} simulations; from, to: {self.level:.0%} interval of the "
            f"Monte Carlo error; {self.seconds:.1f} s",
        ]
        return Table(heads, rows, "Bandwidth", notes)

    def plot(self) -> "Figure":
        """The median distances over the prior, and their median."""
        from .._figure import COLOURS, axis_labels, panels

        figure, (ax,) = panels(["median distance at each prior draw"], 1, (5.0, 3.0))
        positive = self.medians[self.medians > 0]
        bins = np.geomspace(positive.min(), positive.max() * (1 + 1e-6), 41) if positive.size else 1
        ax.hist(positive, bins=bins, color=COLOURS[0], alpha=0.6)  # pyright: ignore
        ax.axvspan(*self.interval, color=COLOURS[1], alpha=0.25, linewidth=0)
        ax.axvline(self.value, color=COLOURS[1])
        ax.set_xscale("log")
        axis_labels(ax, "distance", "prior draws")
        return figure


def median_bandwidth(
    problem: Problem,
    *,
    num_draws: int = 1000,
    num_simulations: int = 500,
    level: float = 0.95,
    seed: int | Key = 0,
) -> Bandwidth:
    r"""The median heuristic over the prior: a bandwidth that does not look at the data.

    $$\gamma = \operatorname{median}_{j}\ \operatorname{median}_{k < l}\
      \lVert x_{jk} - x_{jl} \rVert_2,\qquad \theta_j \sim \pi,\quad x_{jk} \sim P_{\theta_j}$$

    **Arguments:**

    - `problem`: a `Problem` with a simulator. Distances are between what a score sees, that is
        after the simulator's `summary`.
    - `num_draws`: of the prior, $j$. `num_simulations`: at each of them, $k$; as many as the score
        is to be estimated from.
    - `level`: of the interval, which is that of the median over prior draws.
    - `seed`: a whole number or a key.

    Simulations that are not finite are left out and counted. It is a scale for typical
    parameters, not for the true one: with a vague prior it can be far too long for the data.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(num_observations=10)
    >>> found = gb.tuning.median_bandwidth(problem, num_draws=100, num_simulations=100)
    >>> score = gb.KernelScore(gb.kernels.Gaussian(found.value))
    >>> abs(found.value - 0.954) < 0.05  # half of all N(0, 2) lie within 0.954
    True

    ```

    Reference: Park, Jitkrittum and Sejdinovic (2016), K2-ABC, AISTATS; Pacchiardi, Khoo and Dutta,
    Generalized Bayesian Likelihood-Free Inference, appendix on the bandwidth.
    """
    begun = time.perf_counter()
    check_problem(problem)
    check_count("num_draws", num_draws, 2)
    check_count("num_simulations", num_simulations, 2)
    check_between("level", level, 0, 1)
    if num_simulations > MOST_SIMULATIONS:
        raise ValueError(
            f"num_simulations must be at most {MOST_SIMULATIONS:,}, got {num_simulations:,}: a "
            "median over pairs needs no more; raise num_draws instead."
        )
    if problem.simulator is None:
        raise ValueError("A bandwidth is found from draws, and the problem has no simulator.")
    target = ScorePosterior(problem, EnergyScore(), num_simulations=num_simulations)
    theta, keys = prior_draws(as_key(seed), problem, num_draws)
    found = over_draws(
        _MedianDistance(problem.simulator), target, theta, keys, num_simulations, batch_size=1
    )
    medians, finite = found.T.astype(float)
    fine = np.isfinite(medians)
    if fine.sum() < 2:
        raise ValueError(
            f"{int((~fine).sum()):,} of {num_draws:,} prior draws gave no finite distance: the "
            "simulator fails nearly everywhere under this prior. Tighten the prior."
        )
    calls = num_draws * num_simulations
    return Bandwidth(
        float(np.median(medians[fine])), median_interval(medians[fine], level), level,
        medians[fine], calls - int(finite.sum()), int((~fine).sum()), num_simulations, calls,
        time.perf_counter() - begun,
    )  # fmt: skip


class _MedianDistance(eqx.Module):
    """The median distance between simulations, and how many of them were finite."""

    simulator: AbstractSimulator

    def __call__(self, theta: Theta, draws: Array | None) -> Array:
        del theta
        assert draws is not None
        return jnp.stack(median_distance(self.simulator.features(draws)))


def median_distance(x: Simulations) -> tuple[Scalar, Scalar]:
    r"""Median of $\lVert x_j - x_k\rVert$ over $j < k$ of the finite rows, and their number.

    By bisection on the bits of the answer, counting distances block by block: no array of all
    pairs is sorted or kept.
    """
    fine = jnp.all(jnp.isfinite(x), axis=1)
    points = jnp.where(fine[:, None], x, jnp.nan).T  # whatever is compared with nan is false
    rows = max(1, _PAIRS // x.shape[0])

    def over_rows(function: Callable[[Array], Array]) -> Array:
        return jax.lax.map(lambda row: function(_squared(row, points)), points.T, batch_size=rows)

    def count(limit: Scalar) -> Array:
        # a row's number is exact as a float, and adding floats up is twice as fast
        by_row = over_rows(lambda s: jnp.sum((s <= limit).astype(x.dtype)))
        return jnp.sum(by_row.astype(jnp.int32))

    number = jnp.sum(fine, dtype=jnp.int32)
    pairs = number * (number - 1) // 2
    lower, upper = (pairs + 1) // 2, pairs // 2 + 1
    first = _smallest(x.dtype, lambda limit: count(limit) >= number + 2 * lower)
    beyond = jnp.min(over_rows(lambda s: jnp.min(jnp.where(s > first, s, jnp.inf))))
    second = jnp.where(count(first) >= number + 2 * upper, first, beyond)
    median = 0.5 * (jnp.sqrt(first) + jnp.sqrt(second))
    return jnp.where(number > 1, median, jnp.nan), number.astype(x.dtype)


def _squared(row: Array, points: Array) -> Array:
    """Squared distances of one point to all, which are held coordinate by coordinate `(d, m)`."""
    if points.shape[0] > _UNROLLED:
        return jnp.sum((points - row[:, None]) ** 2, axis=0)
    squares = [(points[c] - row[c]) ** 2 for c in range(points.shape[0])]
    return sum(squares[1:], squares[0])


def _smallest(dtype: Any, enough: Callable[[Scalar], Array]) -> Scalar:
    """The smallest non-negative number that is enough; they are ordered as their bits are."""
    whole = jnp.int64 if dtype == jnp.float64 else jnp.int32

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = low + (high - low) // 2
        fits = enough(jax.lax.bitcast_convert_type(middle, dtype))
        return jnp.where(fits, low, middle + 1), jnp.where(fits, middle, high)

    ends = (jnp.zeros((), whole), jax.lax.bitcast_convert_type(jnp.asarray(jnp.inf, dtype), whole))
    low, _ = jax.lax.fori_loop(0, jnp.finfo(dtype).bits - 1, halve, ends)
    return jax.lax.bitcast_convert_type(low, dtype)
