"""Where observations fall in the predictive distribution: PIT values and interval coverage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_between
from .._result import AbstractResult
from .._table import Table
from ..runs import Run
from ..targets import ScorePosterior
from ._predictive import MOST_ROWS, coordinate_labels, more_rows, predictive

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class PIT(AbstractResult):
    """Probability integral transforms of the observations, one for each coordinate.

    - `values`: `(n, d)`, uniform on [0, 1] where the predictive distribution is right.
    - `p_values`: `(d,)`, of a Kolmogorov-Smirnov test of that, for independent observations.
    """

    values: np.ndarray
    p_values: np.ndarray
    names: tuple[str, ...]

    def table(self) -> Table:
        """By coordinate: the mean (1/2 if right), the sd (0.289), and the test."""
        rows = [
            (name, float(v.mean()), float(v.std()), float(p))
            for name, v, p in zip(self.names, self.values.T, self.p_values, strict=True)
        ]
        notes = [
            "mean away from 0.5: shifted; sd below 0.289: predictive too wide; above: too narrow.",
            *more_rows(len(rows)),
        ]
        heads = ("coordinate", "mean", "sd", "p (uniform)")
        return Table(heads, rows[:MOST_ROWS], "Probability integral transform", notes)

    def plot(self) -> "Figure":
        """Histograms; flat is right, a hump is too wide, a bowl too narrow, a slope is a shift."""
        from .._figure import COLOURS, INK, panels

        figure, axes = panels(self.names, columns=4, size=(2.4, 2.0))
        bins = int(np.clip(len(self.values) // 10, 4, 20))
        for ax, v in zip(axes, self.values.T, strict=False):
            ax.hist(v, bins=bins, range=(0, 1), density=True, color=COLOURS[0], alpha=0.5)
            ax.axhline(1.0, color=INK, linestyle="--", linewidth=1)
        return figure


@dataclass(frozen=True)
class PredictiveCoverage(AbstractResult):
    """How many observed coordinates lie in central predictive intervals.

    - `levels`: nominal; `shares`: `(d, number of levels)` of the observations inside.
    """

    levels: np.ndarray
    shares: np.ndarray
    names: tuple[str, ...]
    num_observations: int

    def table(self) -> Table:
        """The share inside, by coordinate and nominal level, and over all coordinates."""
        names, shares = ("all", *self.names), [self.shares.mean(axis=0), *self.shares]
        rows = [(name, *map(float, row)) for name, row in zip(names, shares, strict=True)]
        heads = ("coordinate", *(f"{level:.0%}" for level in self.levels))
        title = f"Coverage of predictive intervals, {self.num_observations:,} observations"
        return Table(heads, rows[:MOST_ROWS], title, more_rows(len(rows)))

    def plot(self) -> "Figure":
        """Observed against nominal coverage; above the diagonal the predictive is too wide."""
        from .._figure import COLOURS, INK, panels

        figure, (ax,) = panels(["coverage of predictive intervals"], columns=1, size=(3.6, 3.2))
        ax.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1)
        for row in self.shares:
            ax.plot(self.levels, row, color=COLOURS[0], alpha=min(1.0, 4 / len(self.shares)))
        ax.plot(self.levels, self.shares.mean(axis=0), color=COLOURS[1], marker="o", markersize=4)
        ax.set_xlabel("nominal", color=INK)
        ax.set_ylabel("observed", color=INK)
        return figure


def pit(
    run: Run,
    *,
    num_draws: int = 400,
    observations: object = None,
    target: ScorePosterior | None = None,
    seed: int = 0,
) -> PIT:
    r"""Probability integral transform of each observation under the posterior predictive.

    $$\mathrm{PIT}_i = \bigl(\#\{x_s < y_i\} + U\,(1 + \#\{x_s = y_i\})\bigr) / (S + 1)$$

    with one simulation $x_s$ at each of $S$ posterior draws and $U$ uniform: exactly uniform where
    $y_i$ and the simulations are exchangeable, for discrete data too.

    **Arguments:**

    - `run`: a `Run`. `num_draws`: $S$. `seed`: of the simulations and of $U$.
    - `observations`: `(n, *event)` held out from the fit; by default those that were fitted.
    - `target`: the target of a run that was read from disk.

    It detects a wrong location, spread or shape of each coordinate by itself, and nothing of their
    dependence. On the data that were fitted it is conservative: values crowd towards 1/2, and a fit
    can hide a misfit. The test of uniformity takes observations as independent.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> gb.diagnostics.pit(run).values.shape
    (20, 1)

    ```

    Reference: Gneiting, Balabdaoui and Raftery (2007), Probabilistic forecasts, calibration and
    sharpness, JRSS B 69; Czado, Gneiting and Held (2009), Biometrics 65, for discrete data.
    """
    from scipy.stats import kstest

    found = predictive(run, num_draws=num_draws, target=target, seed=seed)
    x = found.simulations[:, 0].reshape(len(found.simulations), -1)
    x = x[np.isfinite(x).all(axis=1)]
    y, event = _observed(observations, found.observations)
    below = np.stack([(x < row).sum(axis=0) for row in y])
    ties = np.stack([(x == row).sum(axis=0) for row in y])
    lift = np.random.default_rng(seed).random(y.shape) * (1 + ties)
    values = (below + lift) / (len(x) + 1)
    p_values = np.array([kstest(v, "uniform").pvalue for v in values.T])
    return PIT(values, p_values, tuple(coordinate_labels(event)))


def predictive_coverage(
    run: Run,
    *,
    levels: Sequence[float] = LEVELS,
    num_draws: int = 400,
    observations: object = None,
    target: ScorePosterior | None = None,
    seed: int = 0,
) -> PredictiveCoverage:
    r"""The share of observations inside central intervals of the posterior predictive.

    An observation is inside the interval of level $c$ where $|2\,\mathrm{PIT} - 1| \le c$.

    **Arguments:** `levels`, nominal coverages; the others as for `pit`, whose limits are also those
    of this.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> gb.diagnostics.predictive_coverage(run, levels=(0.5, 0.9)).shares.shape
    (1, 2)

    ```
    """
    for level in levels:
        check_between("level", level, 0, 1)
    found = pit(run, num_draws=num_draws, observations=observations, target=target, seed=seed)
    inside = np.abs(2 * found.values - 1)[:, :, None] <= np.asarray(levels)
    return PredictiveCoverage(
        np.asarray(levels), inside.mean(axis=0), found.names, len(found.values)
    )


def _observed(given: object, fitted: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Observations by coordinate `(n, d)`, and their event shape."""
    y = fitted if given is None else np.asarray(given, float)
    if y.shape[1:] != fitted.shape[1:] or y.ndim != fitted.ndim:
        raise ValueError(
            f"observations must have shape (n, *event) with the event shape {fitted.shape[1:]} of "
            f"those that were fitted, got shape {y.shape}."
        )
    return y.reshape(len(y), -1), fitted.shape[1:]
