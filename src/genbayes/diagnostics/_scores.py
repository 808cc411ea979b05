"""How well the posterior predictive forecasts, by time step or coordinate; over data sets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_between, check_choice, check_count
from .._result import AbstractResult
from .._table import Table
from .._types import Array, Theta
from ..runs import Run
from ..scores import AbstractScore, EnergyScore
from ..targets import ScorePosterior
from ._draws import keys_of, need_simulator, over_draws, pick
from ._predictive import MOST_ROWS, more_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Grouping = int | Literal["coordinate"] | Callable[[Array], Array] | None


@dataclass(frozen=True)
class PredictiveScores(AbstractResult):
    """Scores of the predictive distribution, lower being better.

    - `values`: `(groups,)`, the mean over posterior draws. `by_draw`: `(draws, groups)`.
    - `left_out`: draws whose simulations were not finite.
    """

    values: np.ndarray
    by_draw: np.ndarray
    left_out: int
    score: str

    def table(self) -> Table:
        """By group: the score, and its sd over posterior draws."""
        pairs = zip(self.values, self.by_draw.std(axis=0), strict=True)
        rows = [(j, float(v), float(s)) for j, (v, s) in enumerate(pairs)]
        notes = [f"all groups: {float(self.values.sum()):.4g}", *more_rows(len(rows))]
        if self.left_out:
            notes.append(f"! {self.left_out:,} draws gave simulations that are not finite.")
        return Table(("group", "score", "sd over draws"), rows[:MOST_ROWS], self.score, notes)

    def plot(self) -> "Figure":
        """The score by group, with the middle 90 % of posterior draws."""
        from .._figure import COLOURS, axis_labels, band, panels

        figure, (ax,) = panels([self.score], columns=1, size=(5.0, 2.8))
        band(ax, np.arange(len(self.values)), self.values, self.interval(), COLOURS[0])
        axis_labels(ax, "group", "score")
        return figure

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the middle `level` of posterior draws, `(groups,)` each."""
        check_between("level", level, 0, 1)
        low, high = np.quantile(self.by_draw, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high


@dataclass(frozen=True)
class ScoresOverDataSets(AbstractResult):
    """Scores over repeated data sets: mean and Student interval, by method and group.

    - `mean`, `low`, `high`: label to `(groups,)`.
    """

    mean: dict[str, np.ndarray]
    low: dict[str, np.ndarray]
    high: dict[str, np.ndarray]
    num_data_sets: dict[str, int]
    level: float

    def table(self) -> Table:
        """By method and group: mean and interval."""
        rows = [
            (label, j, *(float(part[label][j]) for part in (self.mean, self.low, self.high)))
            for label in self.mean
            for j in range(len(self.mean[label]))
        ]
        sizes = ", ".join(f"{label}: {n}" for label, n in self.num_data_sets.items())
        notes = [f"data sets: {sizes}; {self.level:.0%} interval of a fitted t distribution"]
        heads = ("method", "group", "mean", "low", "high")
        return Table(heads, rows, "Scores over data sets", notes)

    def plot(self) -> "Figure":
        """The mean by group with its interval, a colour for each method."""
        from .._figure import COLOURS, axis_labels, band, legend, panels

        figure, (ax,) = panels(["score over data sets"], columns=1, size=(5.4, 3.0))
        for j, (label, mean) in enumerate(self.mean.items()):
            ends = self.low[label], self.high[label]
            band(ax, np.arange(len(mean)), mean, ends, COLOURS[j % len(COLOURS)], label)
        axis_labels(ax, "group", f"mean, {self.level:.0%} interval")
        legend(figure, ax)
        return figure


def predictive_scores(
    run: Run,
    score: AbstractScore | None = None,
    *,
    by: Grouping = None,
    reduce: Literal["sum", "mean"] = "sum",
    mixture: bool = False,
    num_draws: int = 200,
    num_simulations: int | None = None,
    observations: object = None,
    target: ScorePosterior | None = None,
    seed: int = 0,
) -> PredictiveScores:
    r"""Scores of the posterior predictive against observations, by time step or coordinate.

    $$\frac 1S \sum_s \sum_i \hat S\bigl(P_{\theta_s}, y_i\bigr)
      \qquad \text{or, with } \texttt{mixture},
      \qquad \sum_i \hat S\Bigl(\tfrac 1S \textstyle\sum_s P_{\theta_s},\, y_i\Bigr)$$

    **Main arguments:**

    - `run`: a `Run`. `score`: the energy score unless another is given.
    - `by`: what is scored by itself. `None`: an observation as a whole. A whole number: each index
        along that axis of an observation (`by=0` for time steps of a series `(T, K)`).
        `"coordinate"`: each number. A function from one draw `(*event)` to `(groups, d)`: each row.

    **Other arguments:**

    - `reduce`: `"sum"` or `"mean"` over the observations.
    - `mixture`: score the predictive distribution itself, each simulation at a posterior draw of
        its own, instead of the mean over draws of the score of $P_\theta$. The mean punishes a
        wide posterior more.
    - `num_draws`: $S$ (with `mixture`, as many as there are simulations). `num_simulations`: at
        each draw; by default as many as the target takes.
    - `observations`: `(n, *event)` held out from the fit; by default those that were fitted.
    - `target`: the target of a run that was read from disk. `seed`: of the simulations.

    It compares posteriors on one data set: scores of one score and one set of observations only. On
    the data that were fitted it favours what follows them closely.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> gb.diagnostics.predictive_scores(run, num_draws=20).values.shape
    (1,)

    ```

    Reference: Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and
    estimation, JASA 102.
    """
    check_choice("reduce", reduce, ("sum", "mean"))
    target = run.need_target(target) if isinstance(run, Run) else target  # pick refuses the rest
    size = _size(target, num_simulations)
    picked = pick(run, size if mixture else num_draws, seed)
    assert target is not None
    need_simulator(target, "A predictive score")
    score = EnergyScore() if score is None else score
    _check_score(score)
    grouped = _Grouped(by)
    y = target.problem.observations if observations is None else np.asarray(observations, float)
    groups = grouped.all(_checked(y, target))
    keys = keys_of(seed, size if mixture else picked.size)
    if mixture:
        theta = {name: np.resize(x, (size, *x.shape[1:])) for name, x in picked.theta.items()}
        x = over_draws(_first, target, theta, keys, 1)
        by_draw = np.asarray(_scored(score, grouped.all(jnp.asarray(x)), groups))[None]
    else:
        by_draw = over_draws(_ByDraw(score, grouped, groups), target, picked.theta, keys, size)
    if reduce == "mean":
        by_draw = by_draw / groups.shape[0]
    fine = np.isfinite(by_draw).all(axis=1)
    if not fine.any():
        raise ValueError("No draw gave finite simulations: look at the run's warnings.")
    by_draw = by_draw[fine]
    return PredictiveScores(
        by_draw.mean(axis=0), by_draw, int((~fine).sum()), f"{type(score).__name__} of forecasts"
    )


def over_data_sets(
    results: Sequence[PredictiveScores] | Mapping[str, Sequence[PredictiveScores]],
    *,
    level: float = 0.95,
) -> ScoresOverDataSets:
    r"""Scores over repeated data sets: the mean, and the interval of a fitted t distribution.

    $$\bar s \pm t_{N-1,\,(1 + c)/2}\; \widehat{\mathrm{sd}}(s_1, \dots, s_N) / \sqrt N$$

    **Arguments:** `results`, one `PredictiveScores` for each of $N \ge 2$ data sets, or a mapping
    from label to those, to compare methods; `level`, $c$.

    The interval is for the mean over data sets. With few of them it leans on their scores being
    near normal; it says nothing of draws within one data set.

    ```python
    >>> import genbayes as gb, numpy as np
    >>> from genbayes.diagnostics import over_data_sets, student_interval
    >>> mean, low, high = student_interval(np.array([[1.0], [2.0], [3.0]]))
    >>> [round(float(x[0]), 3) for x in (mean, low, high)]
    [2.0, -0.484, 4.484]

    ```
    """
    by_label = dict(results) if isinstance(results, Mapping) else {"scores": results}
    parts = {
        label: student_interval(np.stack([r.values for r in several]), level=level)
        for label, several in by_label.items()
    }
    mean, low, high = ({label: p[k] for label, p in parts.items()} for k in range(3))
    return ScoresOverDataSets(mean, low, high, {k: len(v) for k, v in by_label.items()}, level)


def student_interval(
    values: np.ndarray, *, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and Student interval over the rows of `(N, groups)`: mean, low, high.

    **Arguments:** `values`; `level`, of the interval, with N - 1 degrees of freedom.

    ```python
    >>> mean, low, high = student_interval(np.array([[1.0], [2.0], [3.0]]))
    >>> float(mean[0]), round(float(high[0] - low[0]), 3)
    (2.0, 4.968)

    ```
    """
    from scipy.stats import t

    check_between("level", level, 0, 1)
    values = np.asarray(values, float)
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(
            "An interval over data sets needs an array (data sets, groups) with at least two data "
            f"sets, got shape {values.shape}."
        )
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    half = float(t.ppf((1 + level) / 2, len(values) - 1)) * error
    return mean, mean - half, mean + half


class _Grouped(eqx.Module):
    """One draw `(*event)` as rows `(groups, d)`."""

    by: Grouping = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        if self.by is None:
            return x.reshape(1, -1)
        if self.by == "coordinate":
            return x.reshape(-1, 1)
        if callable(self.by):
            return self.by(x)
        return jnp.moveaxis(x, self.by, 0).reshape(x.shape[self.by], -1)

    def all(self, x: Array) -> Array:
        """All draws: `(num, groups, d)`, or a refusal that says why not."""
        event = x.shape[1:]
        whole = isinstance(self.by, (int, np.integer)) and not isinstance(self.by, bool)
        if not (whole or self.by in (None, "coordinate") or callable(self.by)):
            raise TypeError(
                'by must be None, an axis of an observation, "coordinate", or a function from one '
                f"draw to (groups, d), got {self.by!r}."
            )
        if whole and not -len(event) <= self.by < len(event):  # pyright: ignore
            raise ValueError(
                f"by={self.by} is no axis of an observation: its event shape is {event}."
            )
        shape = jax.eval_shape(self, jax.ShapeDtypeStruct(event, x.dtype)).shape
        if len(shape) != 2:
            raise ValueError(
                f"by must turn one draw of shape {event} into (groups, d), got shape {shape}."
            )
        return jax.vmap(self)(x)


def _scored(score: AbstractScore, x: Array, y: Array) -> Array:
    """Total scores by group, of draws `(m, groups, d)` and observations `(n, groups, d)`."""
    groups = (jnp.moveaxis(x, 1, 0), jnp.moveaxis(y, 1, 0))
    return jax.lax.map(lambda pair: jnp.sum(score(pair[0], pair[1])), groups)


class _ByDraw(eqx.Module):
    """The scores of one posterior draw, by group."""

    score: AbstractScore
    grouped: _Grouped
    observations: Array

    def __call__(self, theta: Theta, draws: Array | None) -> Array:
        del theta
        assert draws is not None
        return _scored(self.score, jax.vmap(self.grouped)(draws), self.observations)


def _first(theta: Theta, draws: Array | None) -> Array:
    del theta
    assert draws is not None
    return draws[0]


def _size(target: ScorePosterior | None, num_simulations: int | None) -> int:
    if num_simulations is not None:
        check_count("num_simulations", num_simulations, 2)
        return num_simulations
    return 2 if target is None else max(2, target.num_simulations)


def _check_score(score: object) -> None:
    if not isinstance(score, AbstractScore):
        raise TypeError(
            f"score must be a scoring rule such as EnergyScore(), got {type(score).__name__}."
        )
    if not score.needs_simulations:
        raise ValueError(
            f"{type(score).__name__} is no score of simulations: forecasts are scored by one such "
            "as EnergyScore()."
        )


def _checked(y: Array | np.ndarray, target: ScorePosterior) -> Array:
    fitted = target.problem.observations
    if y.ndim != fitted.ndim or y.shape[1:] != fitted.shape[1:]:
        raise ValueError(
            f"observations must have shape (n, *event) with the event shape {fitted.shape[1:]} of "
            f"those that were fitted, got shape {y.shape}."
        )
    return jnp.asarray(y, float)
