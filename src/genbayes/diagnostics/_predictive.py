"""Draws of the posterior predictive distribution."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_between, check_count
from .._result import AbstractResult
from .._table import Table
from .._types import Array, Theta
from ..runs import Run
from ..targets import ScorePosterior
from ._draws import keys_of, need_simulator, over_draws, pick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 24
LEVEL = 0.9


@dataclass(frozen=True)
class Predictive(AbstractResult):
    """Draws of the posterior predictive distribution beside the observations.

    - `simulations`: `(num_draws, num_simulations, *event)`; `observations`: `(n, *event)`.
    - `failed`: how many simulations are not finite; means and quantiles leave them out.
    """

    simulations: np.ndarray
    observations: np.ndarray
    failed: int

    def interval(self, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central predictive interval of each coordinate, `(*event)` each."""
        check_between("level", level, 0, 1)
        x = self._pooled()
        low, high = np.nanquantile(x, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def median(self) -> np.ndarray:
        """The predictive median of each coordinate, `(*event)`."""
        return np.nanmedian(self._pooled(), axis=0)

    def _pooled(self) -> np.ndarray:
        x = self.simulations.reshape(-1, *self.simulations.shape[2:])
        return np.where(np.isfinite(x), x, np.nan)

    def table(self) -> Table:
        """Mean, sd and 90 % interval of each coordinate, and what was observed."""
        x, (low, high) = self._pooled(), self.interval()
        columns = (
            np.nanmean(x, axis=0), np.nanstd(x, axis=0), low, high, self.observations.mean(axis=0),
            ((self.observations >= low) & (self.observations <= high)).mean(axis=0),
        )  # fmt: skip
        names = coordinate_labels(self.observations.shape[1:])
        rows = list(zip(names, *(np.ravel(c).tolist() for c in columns), strict=True))
        notes = more_rows(len(rows))
        if self.failed:
            notes.append(f"! {self.failed:,} simulations were not finite and are left out.")
        heads = ("coordinate", "mean", "sd", "5%", "95%", "observed mean", "observed inside")
        return Table(heads, rows[:MOST_ROWS], "Posterior predictive", notes)

    def plot(self) -> "Figure":
        """Intervals along the first axis of an observation, or a histogram of scalars."""
        from .._figure import legend, panels

        event = self.observations.shape[1:]
        series = int(np.prod(event[1:], dtype=int))
        names = [f"[:, {j}]" for j in range(series)] if series > 1 else ["posterior predictive"]
        figure, axes = panels(names, columns=2 if event else 1, size=(4.2, 2.4))
        if not event:
            self._histogram(axes[0])
        for j, ax in enumerate(axes if event else []):
            self._bands(ax, j)
        legend(figure, axes[0])
        return figure

    def _histogram(self, ax: "Axes") -> None:
        from .._figure import COLOURS

        low, high = self.interval(0.998)
        inside = self._pooled()
        inside = inside[(inside >= low) & (inside <= high)]
        ax.hist(inside, bins=40, density=True, color=COLOURS[0], alpha=0.4, label="predictive")
        y = np.ravel(self.observations)
        y = y[(y >= low) & (y <= high)]
        ax.plot(y, np.zeros_like(y), "|", color=COLOURS[1], markersize=14, label="observed")
        ax.set_yticks([])

    def _bands(self, ax: "Axes", j: int) -> None:
        from .._figure import COLOURS

        steps = np.arange(self.observations.shape[1])
        for level, shade in ((0.9, 0.18), (0.5, 0.3)):
            low, high = (end.reshape(len(steps), -1)[:, j] for end in self.interval(level))
            ax.fill_between(
                steps, low, high, color=COLOURS[0], alpha=shade, linewidth=0, label=f"{level:.0%}"
            )
        y = self.observations.reshape(len(self.observations), len(steps), -1)[:20, :, j]
        for number, row in enumerate(y):
            label = None if number else "observed"
            ax.plot(steps, row, color=COLOURS[1], linewidth=0.8, marker=".", label=label)


def predictive(
    run: Run,
    *,
    num_draws: int = 200,
    num_simulations: int = 1,
    target: ScorePosterior | None = None,
    seed: int = 0,
) -> Predictive:
    r"""Draws of the posterior predictive distribution.

    $$p(y_{\mathrm{new}} \mid y) = \int p(y_{\mathrm{new}} \mid \theta)\, \pi(\theta \mid y)
      \,d\theta$$

    **Arguments:**

    - `run`: a `Run`. `num_draws`: draws of it to simulate at, spread evenly over its chains (and
        resampled by their weights where they have any).
    - `num_simulations`: simulations at each of them.
    - `target`: the target of a run that was read from disk. `seed`: of the simulations.

    It shows where the fitted model puts its mass. It cannot tell a wrong simulator from a wide
    posterior: for that see `misfit`, `pit` and `predictive_scores`.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> gb.diagnostics.predictive(run, num_draws=100, num_simulations=2).simulations.shape
    (100, 2)

    ```

    Reference: Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness,
    Statistica Sinica 6.
    """
    check_count("num_simulations", num_simulations)
    picked = pick(run, num_draws, seed)
    target = run.need_target(target)
    need_simulator(target, "The posterior predictive distribution")
    x = over_draws(_raw, target, picked.theta, keys_of(seed, picked.size), num_simulations)
    bad = ~np.isfinite(x.reshape(picked.size, num_simulations, -1)).all(axis=2)
    return Predictive(x, np.asarray(target.problem.observations), int(bad.sum()))


def _raw(theta: Theta, draws: Array | None) -> Array:
    del theta
    assert draws is not None
    return draws


def coordinate_labels(event: tuple[int, ...]) -> list[str]:
    """A label for each coordinate of an observation: `y`, or `y[3,1]`."""
    return [f"y[{','.join(map(str, index))}]" if index else "y" for index in np.ndindex(*event)]


def more_rows(total: int) -> list[str]:
    """A note where a table shows only its first rows."""
    return [f"The first {MOST_ROWS} of {total:,} rows."] if total > MOST_ROWS else []
