"""Do credible sets hold the truth as often as they claim? Coverage over repeated data sets."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .._checks import check_between
from .._result import AbstractResult
from .._table import Table
from .._types import Key
from ..runs import Run
from ..samplers import AbstractSampler
from ..targets import ScorePosterior
from ._chance import GRID, distribution_on_grid, share_interval, uniform_band
from ._draws import weighted_moments
from ._influence import scalar_draws
from ._predictive import MOST_ROWS, more_rows
from ._repeats import Collected, collected, method_target, notes_of, recipe_of, repeat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (0.5, 0.8, 0.9, 0.95)
ALARM = 0.01
TOGETHER = "all together"


@dataclass(frozen=True, eq=False)
class Coverage(AbstractResult):
    """How often credible sets held the truth, over repeated data sets.

    - `claimed`: `(N, sets)`, the least level of a set that holds the truth, for each data set:
      uniform on [0, 1] where coverage is right. A column for the central interval of each scalar
      parameter, and one for the ellipsoid of all together where there are several.
    - `names`: of the columns. `levels`: nominal coverages; `shares`: `(sets, levels)`, observed.
    - `bias`: mean error of the posterior mean, and `sd_ratio`: posterior sd (root mean square)
      over the sd of posterior means over data sets, by scalar parameter.
    """

    claimed: np.ndarray
    names: tuple[str, ...]
    levels: np.ndarray
    bias: np.ndarray
    sd_ratio: np.ndarray
    notes: tuple[str, ...]

    @property
    def num_data_sets(self) -> int:
        """How many data sets could be used."""
        return len(self.claimed)

    @property
    def shares(self) -> np.ndarray:
        """Observed coverage, `(sets, levels)`."""
        return (self.claimed[:, :, None] <= self.levels).mean(axis=0)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Exact intervals of the true coverages, `(sets, levels)` each."""
        inside = np.sum(self.claimed[:, :, None] <= self.levels, axis=0)
        return share_interval(inside, self.num_data_sets, level=level)

    def curves(self) -> np.ndarray:
        """Observed coverage at the nominal levels 0, 0.01, ..., 1, `(sets, 101)`."""
        return np.stack([distribution_on_grid(values) for values in self.claimed.T])

    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """Limits that a right curve keeps to 95 times in 100, everywhere at once."""
        return uniform_band(self.num_data_sets)

    @property
    def findings(self) -> tuple[str, ...]:
        """Sets whose coverage is off by more than chance explains, in words."""
        # one chance in a hundred of a false alarm over all that is looked at
        low, high = self.interval(1 - ALARM / self.shares.size)
        found = []
        for name, share, ends in zip(
            self.names, self.shares, zip(low, high, strict=True), strict=True
        ):
            off = (self.levels < ends[0]) | (self.levels > ends[1])
            if off.any():
                j = int(np.flatnonzero(off)[-1])
                side = "narrow" if share[j] < self.levels[j] else "wide"
                found.append(
                    f"{name}: sets of {self.levels[j]:.0%} hold the truth in {share[j]:.0%} of the "
                    f"data sets: the posterior is too {side}, or off its place."
                )
        return tuple(found)

    def table(self) -> Table:
        """Observed coverage by set and level, the bias, and the ratio of sds."""
        bias, ratio = (
            [*map(float, x), *([""] * (len(self.names) - len(x)))]
            for x in (self.bias, self.sd_ratio)
        )
        rows = [
            (name, *map(float, share), b, r)
            for name, share, b, r in zip(self.names, self.shares, bias, ratio, strict=True)
        ]
        low, high = share_interval(np.round(self.levels * self.num_data_sets), self.num_data_sets)
        spread = ", ".join(f"{a:.0%}–{b:.0%}" for a, b in zip(low, high, strict=True))
        notes = [
            *(f"! {f}" for f in self.findings), *self.notes, f"by chance alone: {spread}",
            "sd ratio: posterior sd over the sd of posterior means; below 1 is too narrow",
            *more_rows(len(rows)),
        ]  # fmt: skip
        heads = ("set", *(f"{level:.0%}" for level in self.levels), "bias", "sd ratio")
        title = f"Coverage of credible sets, {self.num_data_sets:,} data sets"
        return Table(heads, rows[:MOST_ROWS], title, notes)

    def plot(self) -> "Figure":
        """Observed against nominal coverage, in the band that chance allows 95 % of the time."""
        from .._figure import COLOURS, INK, axis_labels, legend, panels

        figure, (ax,) = panels(["coverage of credible sets"], columns=1, size=(4.6, 4.2))
        low, high = self.band()
        ax.fill_between(GRID, low, high, color=INK, alpha=0.18, linewidth=0, label="by chance")
        ax.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1)
        for j, (name, curve) in enumerate(zip(self.names, self.curves(), strict=True)):
            ax.plot(
                GRID, curve, color=COLOURS[j % len(COLOURS)],
                linestyle="-" if j < len(COLOURS) else ":", linewidth=1.6,
                label=name.replace("$", r"\$") if j < 12 else None,
            )  # fmt: skip
        ax.set_aspect("equal")
        axis_labels(ax, "nominal", "observed")
        legend(figure, ax)
        return figure


def coverage(
    run: Run | ScorePosterior,
    truth: Mapping[str, Any] | None = None,
    *,
    num_data_sets: int = 100,
    levels: Sequence[float] = LEVELS,
    source: Callable[[Key, int], Any] | None = None,
    num_observations: int | None = None,
    correct: Callable[[Run], Run] | None = None,
    executor: Executor | None = None,
    target: ScorePosterior | None = None,
    sampler: AbstractSampler | None = None,
    num_samples: int = 1000,
    num_warmup: int | None = None,
    start: Any = None,
    seed: int | Key = 0,
) -> Coverage:
    r"""How often credible sets hold a known truth, over simulated data sets.

    $$\widehat{\mathrm{coverage}}(c) = \frac 1N \sum_{k=1}^N
      1\bigl\{ \theta_0 \in C_c(y^{(k)}) \bigr\}, \qquad y^{(k)} \sim P_{\theta_0}$$

    for central intervals of each scalar parameter, and for ellipsoids about the posterior mean (in
    unconstrained space, of the draws' own covariance) of all parameters together.

    **Main arguments:**

    - `run`: a `Run`, whose target, sampler and warm-up are used anew for each data set; or a
        `ScorePosterior`.
    - `truth`: $\theta_0$, a mapping from parameter name to value. By default the posterior mean of
        the run: the coverage that the method has near the fit, if the simulator is right.
    - `num_data_sets`: $N$. Shares are known to about $\sqrt{c (1 - c) / N}$.
    - `executor`: any `concurrent.futures.Executor`, also of Dask or MPI. It does not change a draw.
        JAX uses several cores by itself, so threads gain little where one fit keeps them busy.

    **Other arguments:**

    - `levels`: nominal coverages $c$ of the table.
    - `source`: `source(key, n)` gives the data `(n, *event)` in place of the simulator at the
        truth. `truth` is then the parameter that the posterior is to find: where no parameter is
        right, the one with the least expected score.
    - `num_observations`: of each data set; by default as many as there are.
    - `correct`: what is done to each run before its draws are read, such as
        `gb.diagnostics.corrected`.
    - `target`, `sampler`: of a run that was read from disk, or in place of the run's own.
    - `num_samples`, `num_warmup`, `start`: of each fit, as for `gb.sample`.
    - `seed`: data set $k$ depends on it and on $k$ alone.

    **What it can detect:** a weight that makes the posterior too narrow or too wide, bias, a
    sampler that does not get through. **What it cannot:** tell these apart (`sandwich` says what
    the width should be, `ksd` and R-hat look at the sampler); say anything of another truth or
    another number of observations; see deviations below about $1 / \sqrt N$. A generalised
    posterior is not promised to cover at all.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> found = gb.diagnostics.coverage(run, {"mean": 1.0}, num_data_sets=5, num_samples=200)
    >>> found.shares.shape
    (1, 4)

    ```

    Reference: Syring and Martin (2019), Calibrating general posterior credible regions,
    Biometrika 106.
    """
    for level in levels:
        check_between("level", level, 0, 1)
    truth = _truth(run, truth, target)
    recipe = recipe_of(
        run, target=target, sampler=sampler, truth=truth, source=source,
        num_observations=num_observations, correct=correct,
        settings={"num_samples": num_samples, "num_warmup": num_warmup, "start": start},
    )  # fmt: skip
    recipe.target.problem.prior.check_inside({k: jnp.asarray(v) for k, v in truth.items()})
    found = collected(repeat(recipe, num_data_sets, executor, seed))
    return _result(found, scalar_names(truth), np.asarray(levels, float))


def _result(found: Collected, names: tuple[str, ...], levels: np.ndarray) -> Coverage:
    claimed = np.abs(2 * found.pit - 1)
    if len(names) > 1:
        claimed = np.concatenate([claimed, found.joint[:, None]], axis=1)
        names = (*names, TOGETHER)
    spread = found.mean.std(axis=0, ddof=1)
    return Coverage(
        claimed, names, levels, (found.mean - found.truth).mean(axis=0),
        np.sqrt((found.sd**2).mean(axis=0)) / spread, tuple(notes_of(found)),
    )  # fmt: skip


def _truth(
    run: Any, truth: Mapping[str, Any] | None, target: ScorePosterior | None
) -> dict[str, np.ndarray]:
    if truth is not None:
        return {name: np.asarray(value, float) for name, value in truth.items()}
    if not isinstance(run, Run):
        raise ValueError(
            "Give the truth, a mapping from parameter name to value. For a Run it is its posterior "
            "mean."
        )
    prior = method_target(run, target).problem.prior
    mean = jnp.asarray(weighted_moments(run)[0], float)
    return {name: np.asarray(x, float) for name, x in prior.constrain(mean).items()}


def scalar_names(theta: Mapping[str, Any]) -> tuple[str, ...]:
    """Labels of the scalar parameters of one point."""
    return scalar_draws({name: np.asarray(x, float)[None] for name, x in theta.items()})[0]
