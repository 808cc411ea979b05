"""Weight by a reference score: the median ratio of score differences over the prior."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._checks import check_between, check_count
from .._table import Table
from .._types import Array, Key, Theta
from ..problem import AbstractSimulator, Problem
from ..scores import AbstractScore, Prepared
from ..targets import ScorePosterior, over_draws
from ._prior_draws import as_key, check_problem, prior_draws, rng_of
from ._weight import AbstractWeight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGREEMENT = 0.75  # of the pairs; with fewer, the two scores rank parameters too differently
MOST_DRAWS = 10_000  # whose pairs still fit into memory


@dataclass(frozen=True, eq=False)
class MatchedWeight(AbstractWeight):
    """The weight that gives a score the scale of a reference, with the scores that it is from.

    - `scores`, `reference_scores`: of the observations, at each prior draw that gave both.
    - `agreement`: the share of pairs of prior draws that both scores put in the same order.
    - `failed_draws`: prior draws left out because a score was not finite.
    - `failed_ratios`: pairs left out because their ratio was not.
    - `rows`: the observations that were used.
    """

    scores: np.ndarray
    reference_scores: np.ndarray
    agreement: float
    failed_draws: int
    failed_ratios: int
    rows: np.ndarray

    @property
    def rule(self) -> str:
        """What the weight matches, in a few words."""
        return "score differences of the reference"

    @property
    def interval_of(self) -> str:
        """Which error the interval is for."""
        return "the Monte Carlo error (bootstrap over prior draws)"

    @property
    def findings(self) -> tuple[str, ...]:
        """What there is to worry about, in words."""
        found = []
        if self.agreement < AGREEMENT:
            found.append(
                f"The two scores put only {self.agreement:.0%} of the pairs in the same order: no "
                "weight gives them the same shape."
            )
        if self.failed_draws:
            found.append(f"{self.failed_draws:,} prior draws gave scores that are not finite.")
        if self.failed_ratios:
            found.append(f"{self.failed_ratios:,} ratios were not finite and are left out.")
        return tuple(found)

    def ratios(self) -> np.ndarray:
        """The ratios of score differences over all pairs of prior draws, but for those left out."""
        ratios, _, _ = _ratios(self.scores, self.reference_scores)
        return ratios[np.isfinite(ratios)]

    def table(self) -> Table:
        """The weight with its interval, and how the ratios spread."""
        low, high = np.quantile(self.ratios(), [0.05, 0.95])
        row: tuple[Any, ...] = (
            self.value, *self.interval, float(low), float(high), f"{self.agreement:.0%}"
        )  # fmt: skip
        heads = ("weight", "from", "to", "5 % of ratios", "95 % of ratios", "same order")
        return Table(heads, [row], "Weight by a reference score", self.notes())

    def plot(self) -> "Figure":
        """Reference against score over the prior, and the ratios of their differences."""
        from .._figure import COLOURS, axis_labels, panels

        figure, (left, right) = panels(["scores at prior draws", "ratios of pairs"], 2, (4.2, 3.0))
        x, y = self.scores, self.reference_scores
        left.plot(x, y, ".", color=COLOURS[0], markersize=3, alpha=0.5)
        middle = np.array([np.quantile(x, 0.02), np.quantile(x, 0.98)])
        line = np.median(y - self.value * x) + self.value * middle
        left.plot(middle, line, color=COLOURS[1])
        axis_labels(left, "score", "reference")
        ratios = self.ratios()
        ends = np.quantile(ratios, [0.05, 0.95])
        right.hist(ratios, bins=np.linspace(*ends, 61), color=COLOURS[0], alpha=0.6)  # pyright: ignore
        right.axvspan(*self.interval, color=COLOURS[1], alpha=0.25, linewidth=0)
        right.axvline(self.value, color=COLOURS[1])
        axis_labels(right, "ratio (middle 90 %)", "pairs")
        return figure


def match_weight(
    problem: Problem,
    score: AbstractScore,
    *,
    reference: AbstractScore,
    rows: Sequence[int] | None = None,
    num_draws: int = 1000,
    num_simulations: int = 500,
    num_bootstrap: int = 200,
    level: float = 0.95,
    seed: int | Key = 0,
) -> MatchedWeight:
    r"""The weight with which a score tells parameters of the prior apart as a reference does.

    $$w = \operatorname{median}_{j < k}
      \frac{S'(P_{\theta_j}, y) - S'(P_{\theta_k}, y)}{S(P_{\theta_j}, y) - S(P_{\theta_k}, y)},
      \qquad \theta_j \sim \pi$$

    With it the median log Bayes factor between two prior draws is that of the reference. It is
    the Theil–Sen slope of the reference on the score over the prior.

    **Arguments:**

    - `score`: the rule $S$ that the weight is for. `reference`: the rule $S'$, weighted or not:
        `0.35 * EnergyScore()` stands for a reference posterior with weight 0.35. A `LogScore`
        matches standard Bayes.
    - `rows`: which observations the scores are summed over; all of them where absent, `[0]` for the
        first alone, as in the published code. The weight depends on them.
    - `num_draws`: of the prior; all pairs of them are used. `num_simulations`: at each of them, for
        both scores alike.
    - `num_bootstrap`, `level`: of the interval, which resamples the prior draws: Monte Carlo error,
        not that of the data.
    - `seed`: a whole number or a key.

    It needs neither gradients nor posteriors, and works for black boxes. It matches scales over the
    *prior*: near the truth, where the posterior lies, the ratio may be another one, and with a
    reference of the wrong scale the weight is of the wrong scale too.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(num_observations=10)
    >>> score = gb.KernelScore(gb.kernels.Gaussian(1.0))
    >>> found = gb.tuning.match_weight(
    ...     problem, score, reference=gb.EnergyScore(), num_draws=100, num_simulations=50
    ... )
    >>> found.agreement > 0.9  # the two rank parameters alike
    True

    ```

    Reference: Bissiri, Holmes and Walker (2016), A general framework for updating belief
    distributions, JRSS B 78; Pacchiardi, Khoo and Dutta, Generalized Bayesian Likelihood-Free
    Inference.
    """
    begun = time.perf_counter()
    check_count("num_bootstrap", num_bootstrap, 20)
    check_between("level", level, 0, 1)
    _check_draws(num_draws)
    target, picked = _checked(problem, score, reference, rows, num_simulations)
    key = as_key(seed)
    function = _Both.of(problem, score, reference, picked)
    theta, keys = prior_draws(key, problem, num_draws)
    calls = target.simulations_per_estimate
    totals = over_draws(function, target, theta, keys, calls).astype(float)
    fine = np.isfinite(totals).all(axis=1)
    if fine.sum() < 10:
        raise ValueError(
            f"Only {int(fine.sum())} of {num_draws:,} prior draws gave finite scores: the "
            "simulator fails nearly everywhere under this prior. Tighten the prior."
        )
    x, y = totals[fine].T
    ratios, i, j = _ratios(x, y)
    known = np.isfinite(ratios)
    value, interval = _median(
        ratios[known], i[known], j[known], len(x), num_bootstrap, level, rng_of(key)
    )
    return MatchedWeight(
        value, interval, level, num_draws * calls, time.perf_counter() - begun, x, y,
        float(np.mean(ratios[known] > 0)), int((~fine).sum()), int((~known).sum()), picked,
    )  # fmt: skip


class _Both(eqx.Module):
    """The sums of two scores over some observations, from the same simulations."""

    simulator: AbstractSimulator | None
    scores: tuple[AbstractScore, AbstractScore]
    prepared: tuple[Prepared, Prepared]

    @staticmethod
    def of(
        problem: Problem, score: AbstractScore, reference: AbstractScore, rows: np.ndarray
    ) -> "_Both":
        """The sums over the rows."""
        points = problem.features()[rows]
        prepared = (score.prepare(points), reference.prepare(points))
        return _Both(problem.simulator, (score, reference), prepared)

    def __call__(self, theta: Theta, draws: Array | None) -> Array:
        features: Any = None
        if draws is not None:
            assert self.simulator is not None
            features = self.simulator.features(draws)
        pairs = zip(self.scores, self.prepared, strict=True)
        return jnp.stack([score.total(features, rows, theta) for score, rows in pairs])


def _check_draws(num_draws: int) -> None:
    check_count("num_draws", num_draws, 10)
    if num_draws > MOST_DRAWS:
        raise ValueError(
            f"num_draws must be at most {MOST_DRAWS:,}, whose pairs fit into memory; "
            f"got {num_draws:,}."
        )


def _checked(
    problem: Any, score: Any, reference: Any, rows: Any, num_simulations: int
) -> tuple[ScorePosterior, np.ndarray]:
    check_problem(problem)
    for name, given in (("score", score), ("reference", reference)):
        if not isinstance(given, AbstractScore):
            raise TypeError(
                f"{name} must be a scoring rule such as EnergyScore(), got {type(given).__name__}."
            )
    both = score + reference  # simulates if one of them does, and as often as both need
    target = ScorePosterior(problem, both, num_simulations=num_simulations)
    n = problem.num_observations
    if rows is None:
        return target, np.arange(n)
    picked = np.asarray(rows)
    whole = picked.ndim == 1 and picked.size > 0 and np.issubdtype(picked.dtype, np.integer)
    if (
        not whole
        or picked.min() < 0
        or picked.max() >= n
        or len(set(picked.tolist())) < len(picked)
    ):
        raise ValueError(
            f"rows must name at least one of the {n} observations, by numbers from 0 to {n - 1} "
            f"and none twice, such as [0]; got {rows!r}."
        )
    return target, picked


def _ratios(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratios of differences of `y` to those of `x` over all pairs, and who the pairs are."""
    i, j = (index.astype(np.int32) for index in np.triu_indices(len(x), 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (y[i] - y[j]) / (x[i] - x[j]), i, j


def _median(
    ratios: np.ndarray, i: np.ndarray, j: np.ndarray, size: int, repeats: int, level: float,
    rng: np.random.Generator,
) -> tuple[float, tuple[float, float]]:  # fmt: skip
    """The median of the ratios, and its interval when the points that make pairs are resampled."""
    if not ratios.size:
        raise ValueError(
            "No pair of prior draws has a finite ratio: the score is the same at all of them. Look "
            "at the bandwidth of its kernel and the scale of its observations."
        )
    value = float(np.median(ratios))
    if value <= 0:
        raise ValueError(
            f"The median ratio is {value:.3g}: score and reference put most pairs of prior draws "
            "in opposite orders, so no weight matches them. Choose another reference."
        )
    order = np.argsort(ratios)
    ratios, i, j = ratios[order], i[order], j[order]
    medians = []
    for counts in rng.multinomial(size, np.full(size, 1 / size), repeats):
        heights = np.cumsum(counts[i] * counts[j])
        medians.append(ratios[np.searchsorted(heights, 0.5 * heights[-1])])
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return value, (float(low), float(high))
