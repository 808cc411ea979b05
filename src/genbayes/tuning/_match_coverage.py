"""Weight by coverage: credible sets that hold the minimiser as often as they claim."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from .._checks import check_between, check_count
from .._table import Table
from .._types import Key
from ..problem import Problem
from ..scores import AbstractScore
from ._cloud import LEAST_SHARE, REACH, Cloud, cloud_around, effective, shares_of
from ._match_information import check_bootstrap
from ._prior_draws import as_key, check_problem, rng_of
from ._risk import Fit, fit
from ._weight import AbstractWeight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID = 25  # weights that are looked at
REPEATS = 200  # of the interval
CENTRED = 1.5  # a root further than this factor from the cloud's weight calls for a cloud there
MOST_CLOUDS = 3


@dataclass(frozen=True, eq=False)
class CoverageWeight(AbstractWeight):
    """The weight whose credible sets have their nominal coverage over bootstrap data sets.

    - `weights`: those that were looked at, `(G,)`; `claimed`: `(G, B)`, the least level of a
        credible set of each bootstrap posterior that holds the minimiser of the observations.
    - `nominal`: the coverage that was asked for. `reliability`: mean effective share of the points.
    """

    weights: np.ndarray
    claimed: np.ndarray
    nominal: float
    reliability: float

    @property
    def rule(self) -> str:
        """What the weight matches, in a few words."""
        return f"coverage of {self.nominal:.0%} credible sets"

    @property
    def interval_of(self) -> str:
        """Which error the interval is for."""
        return "the Monte Carlo error (over bootstrap data sets)"

    @property
    def findings(self) -> tuple[str, ...]:
        """What there is to worry about, in words."""
        found = []
        if self.reliability < LEAST_SHARE:
            found.append(
                f"The effective share of the points is {self.reliability:.1%}: reweighting is not "
                "to be trusted here. Raise num_draws."
            )
        return tuple(found)

    def coverage(self, level: float | None = None) -> np.ndarray:
        """The share of the bootstrap data sets whose set holds the minimiser, by weight `(G,)`."""
        return np.mean(self.claimed <= (self.nominal if level is None else level), axis=1)

    def table(self) -> Table:
        """The weight with its interval, and coverage at it at other levels."""
        near = int(np.argmin(np.abs(np.log(self.weights / self.value))))
        others = (0.5, 0.8, 0.9, 0.95)
        found = [float(self.coverage(level)[near]) for level in others]
        row: tuple[Any, ...] = (self.value, *self.interval, *found)
        heads = ("weight", "from", "to", *(f"covers at {level:.0%}" for level in others))
        return Table(heads, [row], f"Weight by {self.rule}", self.notes())

    def plot(self) -> "Figure":
        """Coverage against weight."""
        from .._figure import COLOURS, INK, axis_labels, panels

        figure, (ax,) = panels([f"coverage of {self.nominal:.0%} sets"], 1, (5.0, 3.2))
        ax.plot(self.weights, self.coverage(), ".-", color=COLOURS[0])
        ax.axhline(self.nominal, color=INK, linestyle="--", linewidth=1)
        ax.axvspan(*self.interval, color=COLOURS[1], alpha=0.25, linewidth=0)
        ax.axvline(self.value, color=COLOURS[1])
        ax.set_xscale("log")
        ax.set_ylim(0, 1.02)
        axis_labels(ax, "weight", "bootstrap coverage")
        return figure


def match_coverage(
    problem: Problem,
    score: AbstractScore,
    *,
    nominal: float = 0.9,
    num_bootstrap: int = 400,
    num_draws: int = 1500,
    num_simulations: int = 500,
    level: float = 0.95,
    seed: int | Key = 0,
) -> CoverageWeight:
    r"""The weight whose credible sets hold the minimiser as often as they claim.

    $$\frac 1B \sum_b 1\bigl\{ \hat u \in C_{w, \alpha}(y^{(b)}) \bigr\} = 1 - \alpha,
      \qquad \hat u = \arg\min_u \sum_i S(P_u, y_i)$$

    with $y^{(b)}$ the observations drawn with replacement and $C_{w,\alpha}(y^{(b)})$ the set of
    highest density, of all parameters together, of the posterior at weight $w$ given $y^{(b)}$.

    This is general posterior calibration, but no posterior is sampled: the scores of all
    observations at a cloud of points around $\hat u$ are computed once, and each posterior, for
    every $w$ and $b$, is a set of importance weights on them.

    **Arguments:**

    - `nominal`: $1 - \alpha$.
    - `num_bootstrap`: data sets, $B$. `num_draws`: points of the cloud.
    - `num_simulations`: held fixed (a Sobol set where the noise is known) through all of it.
    - `level`: of the interval, by resampling the $y^{(b)}$.
    - `seed`: a whole number or a key.

    Coverage is over the bootstrap, so it is as good as the observations are many, and over sets of
    all parameters together: single parameters may be covered less or more. It needs gradients, and
    few parameters (up to about six): the result says what share of the points is effective.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -2.0 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=40)
    >>> found = gb.tuning.match_coverage(problem, score, num_bootstrap=100, num_draws=500)
    >>> bool(0.1 < found.value < 0.6)  # the score says that the variance is a quarter of what it is
    True

    ```

    Reference: Syring and Martin (2019), Calibrating general posterior credible regions, Biometrika
    106.
    """
    begun = time.perf_counter()
    check_problem(problem)
    check_bootstrap(num_bootstrap, level)
    check_between("nominal", nominal, 0, 1)
    check_count("num_draws", num_draws, 100)
    key = as_key(seed)
    found = fit(key, problem, score, num_simulations)
    return coverage_of(found, nominal, num_bootstrap, num_draws, level, rng_of(key), begun)


def coverage_of(
    fit: Fit, nominal: float, num_bootstrap: int, num_draws: int, level: float,
    rng: np.random.Generator, begun: float,
) -> CoverageWeight:  # fmt: skip
    """The same from a fit."""
    counts = rng.multinomial(fit.size, np.full(fit.size, 1 / fit.size), num_bootstrap)
    look = _look(fit, fit.guess, counts, nominal, num_draws, rng)
    calls = fit.calls + look.cloud.calls
    for _ in range(MOST_CLOUDS - 1):
        if look.centred:
            break
        look = _look(fit, look.better, counts, nominal, num_draws, rng)
        calls += look.cloud.calls
    weights, value = look.weights, look.value
    inside = look.claimed <= nominal
    if value is None:
        raise ValueError(
            f"No weight between {weights[0]:.3g} and {weights[-1]:.3g} gives sets of {nominal:.0%} "
            "that coverage: the prior may rule, or the observations be too few."
        )
    roots = [
        _root(weights, inside[:, rng.integers(0, num_bootstrap, num_bootstrap)], nominal)
        for _ in range(REPEATS)
    ]
    low, high = np.quantile([r for r in roots if r is not None], [(1 - level) / 2, (1 + level) / 2])
    return CoverageWeight(
        value, (float(low), float(high)), level, calls, time.perf_counter() - begun, weights,
        look.claimed, nominal, _claimed(look.cloud, counts, value)[1],
    )  # fmt: skip


class _Look(NamedTuple):
    """What one cloud shows: `claimed` `(G, B)` at the weights around its own, and the root."""

    cloud: Cloud
    weights: np.ndarray
    claimed: np.ndarray
    value: float | None
    nominal: float

    @property
    def centred(self) -> bool:
        """Whether the root is so near the cloud's weight that no other cloud is needed."""
        return self.value is not None and abs(np.log(self.value / self.cloud.weight)) < np.log(
            CENTRED
        )

    @property
    def better(self) -> float:
        """Where the next cloud should be."""
        if self.value is not None:
            return self.value
        too_wide = np.mean(self.claimed <= self.nominal) > self.nominal
        return self.cloud.weight * (REACH if too_wide else 1 / REACH)


def _look(
    fit: Fit, around: float, counts: np.ndarray, nominal: float, num_draws: int,
    rng: np.random.Generator,
) -> _Look:  # fmt: skip
    cloud = cloud_around(fit, around, num_draws, rng)
    weights = np.geomspace(around / REACH, around * REACH, GRID)
    claimed = np.stack([_claimed(cloud, counts, w)[0] for w in weights])
    return _Look(cloud, weights, claimed, _root(weights, claimed <= nominal, nominal), nominal)


def _claimed(cloud: Cloud, counts: np.ndarray, weight: float) -> tuple[np.ndarray, float]:
    """For each bootstrap data set, the posterior mass that is denser than the minimiser."""
    density = cloud.prior - weight * counts @ cloud.scores.T
    centre = cloud.centre_prior - weight * counts @ cloud.centre_scores
    share = shares_of(density + (cloud.log_ratio - cloud.prior))
    return np.sum(share * (density > centre[:, None]), axis=1), effective(share)


def _root(weights: np.ndarray, inside: np.ndarray, nominal: float) -> float | None:
    """Where coverage, made to fall with the weight, is nominal; nothing where it never is."""
    covered = np.asarray(isotonic_regression(inside.mean(axis=1), increasing=False).x)
    if not covered[-1] < nominal < covered[0]:
        return None
    above = int(np.flatnonzero(covered >= nominal)[-1])
    a, b = covered[above], covered[above + 1]
    x, y = np.log(weights[above]), np.log(weights[above + 1])
    return float(np.exp(x + (a - nominal) / (a - b) * (y - x)))
