"""Simulation-based calibration: is the posterior of simulated data right on average?"""

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_count
from .._result import AbstractResult
from .._table import Table
from .._types import Key
from ..runs import Run
from ..samplers import AbstractSampler
from ..targets import ScorePosterior
from ._chance import GRID, distribution_on_grid, uniform_band
from ._coverage import scalar_names
from ._draws import need_simulator
from ._predictive import MOST_ROWS, more_rows
from ._repeats import collected, method_target, notes_of, recipe_of, repeat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALARM = 0.01


@dataclass(frozen=True, eq=False)
class SBC(AbstractResult):
    """Where the true parameters lie among posterior draws of data simulated from them.

    - `pit`: `(N, p)`, uniform on [0, 1] for each scalar parameter where all is right.
    - `p_values`: `(p, 3)`, of three tests: `"uniform"` (Kolmogorov-Smirnov), `"shift"` and
      `"spread"` (the mean and the sum of squares of normal scores).
    - `num_ranks`: draws that the truth was ranked among; `ess`: their median effective number.
    """

    pit: np.ndarray
    names: tuple[str, ...]
    p_values: np.ndarray
    num_ranks: int
    ess: float
    notes: tuple[str, ...]

    @property
    def scores(self) -> np.ndarray:
        """Normal scores of the PIT values, `(N, p)`: standard normal where all is right."""
        from scipy.special import ndtri

        return ndtri(self.pit)

    @property
    def findings(self) -> tuple[str, ...]:
        """What is off by more than chance explains, in words."""
        found = []
        for name, p, z in zip(self.names, self.p_values, self.scores.T, strict=True):
            if p.min() > ALARM / self.p_values.size:
                continue
            worst = int(p.argmin())
            spread = "narrow" if z.std() > 1 else "wide"
            side = "high" if z.mean() < 0 else "low"
            words = ("of the wrong shape", f"too {side}", f"too {spread}")[worst]
            found.append(f"{name}: posteriors are {words} (p = {p[worst]:.2g}).")
        return tuple(found)

    def table(self) -> Table:
        """By parameter: mean (0) and sd (1) of normal scores, and the tests."""
        rows = [
            (name, float(z.mean()), float(z.std()), *map(float, p))
            for name, z, p in zip(self.names, self.scores.T, self.p_values, strict=True)
        ]
        notes = [
            *([f"! {f}" for f in self.findings] or ["Nothing that the tests could see."]),
            *self.notes,
            "mean below 0: posteriors too high; sd above 1: posteriors too narrow",
            *more_rows(len(rows)),
        ]
        if self.ess < 0.7 * self.num_ranks:
            notes.append(
                f"! The {self.num_ranks} draws are worth {self.ess:.0f}: correlated draws push "
                "ranks to both ends. Draw more, or rank among fewer (num_ranks)."
            )
        heads = ("parameter", "mean", "sd", "p (uniform)", "p (shift)", "p (spread)")
        title = f"Simulation-based calibration, {len(self.pit):,} data sets"
        return Table(heads, rows[:MOST_ROWS], title, notes)

    def plot(self) -> "Figure":
        """The distribution function of the ranks less that of uniform ones, and chance's band."""
        from .._figure import COLOURS, INK, axis_labels, panels

        figure, axes = panels(self.names, columns=4, size=(2.7, 2.2))
        low, high = uniform_band(len(self.pit))
        for ax, values in zip(axes, self.pit.T, strict=False):
            ax.fill_between(GRID, low - GRID, high - GRID, color=INK, alpha=0.18, linewidth=0)
            ax.axhline(0.0, color=INK, linestyle="--", linewidth=1)
            ax.plot(GRID, distribution_on_grid(values) - GRID, color=COLOURS[0], linewidth=1.6)
            axis_labels(ax, "rank of the truth", "excess share")
        return figure


def sbc(
    run: Run | ScorePosterior,
    *,
    num_data_sets: int = 200,
    num_ranks: int = 100,
    executor: Executor | None = None,
    target: ScorePosterior | None = None,
    sampler: AbstractSampler | None = None,
    num_samples: int = 1000,
    num_warmup: int | None = None,
    seed: int | Key = 0,
) -> SBC:
    r"""Simulation-based calibration of a target whose likelihood is known.

    $$\theta \sim \pi, \quad y \sim P_\theta, \quad \theta_1, \dots, \theta_L \sim \pi(\cdot \mid y)
      \quad\Longrightarrow\quad \#\{\theta_l < \theta\} \text{ is uniform on } 0, \dots, L$$

    where prior, simulator, likelihood and sampler agree. Ranks are turned into numbers on [0, 1] by
    a uniform draw within each.

    **Arguments:**

    - `run`: a `Run` of a target with an exact score (`LogScore`), whose target and sampler are used
        anew for each data set; or such a target, drawn from with `NUTS`.
    - `num_data_sets`: how many. `num_ranks`: $L$, draws that the truth is ranked among, evenly
        spaced so that they are nearly independent.
    - `executor`: any `concurrent.futures.Executor`; it does not change a draw.
    - `target`, `sampler`: of a run that was read from disk. `num_samples`, `num_warmup`: of each
        fit. `seed`: data set $k$ depends on it and on $k$ alone.

    **What it can detect:** a likelihood or a Jacobian with a mistake, a sampler that is biased or
    does not get through, a prior that is not the one simulated from. **What it cannot:** anything
    about the data at hand, since all data are simulated; mistakes that keep the average right (a
    posterior that ignores the data and equals the prior passes); a region of the prior that has
    little mass. A generalised posterior of a score other than the exact one is no conditional
    distribution, and would fail though nothing is wrong: it is refused (see `coverage`).

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, score)
    >>> found = gb.diagnostics.sbc(
    ...     target, sampler=gb.SGLD(0.01), num_data_sets=4, num_ranks=10, num_samples=100)
    >>> found.pit.shape
    (4, 1)

    ```

    Reference: Talts et al. (2018), Validating Bayesian inference algorithms with simulation-based
    calibration; Cook, Gelman and Rubin (2006), JCGS 15; Säilynoja, Bürkner and Vehtari (2022),
    Statistics and Computing 32, for the band of the picture.
    """
    check_count("num_ranks", num_ranks, 2)
    check_count("num_samples", num_samples, num_ranks, "The ranks are among these draws.")
    exact = method_target(run, target)
    if not exact.is_exact:
        raise ValueError(
            "Simulation-based calibration is about posteriors with a known likelihood (LogScore): "
            f"that of {type(exact.score).__name__} is not the conditional distribution of the "
            "parameters, and fails though nothing is wrong. Look at genbayes.diagnostics.coverage."
        )
    need_simulator(exact, "Simulation-based calibration")
    recipe = recipe_of(
        run, target=target, sampler=sampler, truth=None, source=None, num_observations=None,
        num_ranks=num_ranks, settings={"num_samples": num_samples, "num_warmup": num_warmup},
    )  # fmt: skip
    found = collected(repeat(recipe, num_data_sets, executor, seed))
    shapes = exact.problem.prior.shapes
    names = scalar_names({name: np.zeros(shape) for name, shape in shapes.items()})
    ess = min(float(np.median(found.ess)), float(num_ranks))
    return SBC(found.pit, names, _p_values(found.pit), num_ranks, ess, tuple(notes_of(found)))


def _p_values(pit: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri
    from scipy.stats import chi2, kstest, norm

    n, rows = len(pit), []
    for values in pit.T:
        z = ndtri(values)
        below, above = chi2.cdf(np.sum(z**2), n), chi2.sf(np.sum(z**2), n)
        shift = 2 * norm.sf(abs(z.sum()) / np.sqrt(n))
        rows.append((kstest(values, "uniform").pvalue, shift, 2 * min(below, above)))
    return np.array(rows)
