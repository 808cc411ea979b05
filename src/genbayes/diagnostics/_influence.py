"""The posterior influence function: what a little contamination at z would do."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from .._convergence import ess_mean
from .._result import AbstractResult
from .._table import Table
from .._types import Array, Theta
from ..runs import Run
from ..scores import Prepared
from ..targets import ScorePosterior
from ._bounds import relative_bound
from ._draws import (
    Picked,
    Scores,
    as_points,
    default_size,
    keys_of,
    over_draws,
    pick,
    scored_draws,
    scoring,
)
from ._predictive import MOST_ROWS, more_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PosteriorInfluence(AbstractResult):
    r"""How fast the posterior moves when a share $\epsilon$ of the data is put at $z$.

    - `z`: `(Z, *event)`. `names`: of the scalar parameters, in the order of the columns below.
    - `mean`, `mean_error`: $d\,E[\theta] / d\epsilon$, `(Z, p)`, and its Monte Carlo error.
    - `sd`: $d\,\mathrm{sd}[\theta] / d\epsilon$, `(Z, p)`.
    - `size`: $\int |\mathrm{PIF}|\,d\theta$, `(Z,)`: twice the rate of total variation.
    - `relative`: $\mathrm{PIF} / \pi$ at each posterior draw, `(Z, S)`; `theta`: those draws.
    - `bound`: of $|\mathrm{PIF} / \pi|$, by the theorem, where it applies.
    """

    z: np.ndarray
    names: tuple[str, ...]
    mean: np.ndarray
    mean_error: np.ndarray
    sd: np.ndarray
    size: np.ndarray
    relative: np.ndarray
    theta: np.ndarray
    posterior_sd: np.ndarray
    bound: float | None
    left_out: int

    def density(self, name: str, grid: np.ndarray) -> np.ndarray:
        r"""The influence on a parameter's marginal density, `(Z, grid)`.

        It is exact for the kernel density estimate of the posterior draws (Scott's bandwidth):
        $\frac 1S \sum_s K_h(t - \theta_s)\, \mathrm{PIF}(z, \theta_s) / \pi(\theta_s)$.
        """
        if name not in self.names:
            raise ValueError(f"name must be one of {list(self.names)}, got {name!r}.")
        x = self.theta[:, self.names.index(name)]
        width = x.std() * len(x) ** -0.2
        scaled = (np.asarray(grid, float)[None, :] - x[:, None]) / width
        kernel = np.exp(-0.5 * scaled**2) / (width * np.sqrt(2 * np.pi))
        return self.relative @ kernel / len(x)

    def table(self) -> Table:
        """By point: the size, and the shift of each mean in posterior sds."""
        shifts = self.mean / self.posterior_sd
        rows = [
            (point_label(z), float(a), *map(float, row))
            for z, a, row in zip(self.z, self.size, shifts, strict=True)
        ]
        notes = ["rates per unit of contamination: one observation of n moves it by 1/n of that"]
        if self.bound is not None:
            notes.append(f"|PIF / posterior| is at most {self.bound:.4g} (bounded kernel)")
        else:
            notes.append("no bound is known: the score is not one of a bounded kernel")
        notes += left_out_note(self.left_out) + more_rows(len(rows))
        heads = ("z", "size", *(f"mean of {n} (sds)" for n in self.names))
        return Table(heads, rows[:MOST_ROWS], "Posterior influence", notes)

    def plot(self) -> "Figure":
        """The influence on each mean, in posterior sds, along the points."""
        from .._figure import COLOURS, INK, panels

        names = [*(f"mean of {n}, in sds" for n in self.names), "size of the influence"]
        figure, axes = panels(names, columns=3, size=(3.2, 2.4))
        at = np.ravel(self.z) if self.z.ndim == 1 else np.arange(len(self.z))
        order = np.argsort(at)
        columns = [*(self.mean / self.posterior_sd).T, self.size]
        for ax, values in zip(axes, columns, strict=False):
            ax.axhline(0.0, color=INK, linewidth=0.8)
            ax.plot(at[order], values[order], color=COLOURS[0])
            ax.set_xlabel("z" if self.z.ndim == 1 else "point", color=INK)
        return figure


def posterior_influence(
    run: Run,
    z: Any,
    *,
    num_draws: int | None = None,
    num_simulations: int | None = None,
    target: ScorePosterior | None = None,
    seed: int = 0,
) -> PosteriorInfluence:
    r"""The posterior influence function, by its exact expression, along contamination points.

    With $P_\epsilon = (1 - \epsilon) \hat P_n + \epsilon\,\delta_z$ in place of the data,

    $$\mathrm{PIF}(z, \theta) = \frac{d}{d\epsilon}\, \pi(\theta \mid P_\epsilon)\Big|_0
      = w n\, \pi(\theta \mid y) \bigl\{ E_\pi[D(z, \theta')] - D(z, \theta) \bigr\}, \qquad
      D(z, \theta) = S(P_\theta, z) - \frac 1n \sum_i S(P_\theta, y_i),$$

    and so the posterior mean of $f$ moves at the rate $-wn\,\mathrm{Cov}_\pi(f, D(z, \cdot))$.

    **Arguments:**

    - `run`: a `Run`. `z`: points `(Z, *event)`, of the shape of an observation.
    - `num_draws`, `num_simulations`: 1000 posterior draws with the target's number of simulations,
        at most 100; 100 and at most 50 where simulations are not compiled.
    - `target`: the target of a run that was read from disk. `seed`: of the simulations.

    It shows whether one wild observation can carry the posterior away: a curve that levels off is
    robust, one that grows without end is not. It is a derivative: it says nothing of large shares
    of contamination, nor of what the observations at hand do (`observation_influence`). The mean
    rates are unbiased; `size` is a little too large, by the noise of the scores.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> gb.diagnostics.posterior_influence(run, [-20.0, 0.0, 20.0]).mean.shape
    (3, 1)

    ```

    Reference: Ghosh and Basu (2016), Robust Bayes estimation using the density power divergence,
    Annals of the Institute of Statistical Mathematics 68, equation (17).
    """
    target = run.need_target(target) if isinstance(run, Run) else target
    size = num_draws if num_draws is not None or target is None else default_size(target, 1000, 100)
    picked = pick(run, size, seed)
    assert target is not None
    points, seen = as_points(target, z, "z")
    function = _Derivative(Scores(target, seen), target.prepared)
    num = scored_draws(target, num_simulations, default_size(target, 100, 50))
    keys = keys_of(seed, picked.size)
    derivative = over_draws(function, target, picked.theta, keys, num, even=True).astype(float)
    fine = np.asarray(np.isfinite(derivative).all(axis=1))
    if fine.sum() < 2:
        raise ValueError("Hardly any draw gave finite scores: look at the run's warnings.")
    rate = float(target.weight) * target.problem.num_observations
    return _result(target, points, picked, derivative[fine], fine, rate)


class _Derivative(eqx.Module):
    """D(z, theta), the same simulations for both of its terms."""

    scores: Scores
    prepared: Prepared

    def __call__(self, theta: Theta, draws: Array | None) -> Array:
        at_points = self.scores(theta, draws)
        target = self.scores.target
        simulator, n = target.problem.simulator, self.prepared.values.shape[0]
        features = None
        if draws is not None and simulator is not None:
            features = simulator.features(draws)
        total = scoring(target).total(features, self.prepared, theta)  # pyright: ignore
        return at_points - total / n


def _result(
    target: ScorePosterior, points: np.ndarray, picked: Picked, d: np.ndarray, fine: np.ndarray,
    rate: float,
) -> PosteriorInfluence:  # fmt: skip
    names, x = scalar_draws(picked.theta)
    x = x[fine]
    off = x - x.mean(axis=0)
    centred = (d - d.mean(axis=0)).T  # (Z, S)
    products = centred[:, :, None] * off[None]
    mean = -rate * products.mean(axis=1)
    spread = off.std(axis=0)
    squares = off**2 - spread**2
    slope = -rate * (centred @ squares) / len(x) / (2 * spread)
    error = rate * np.array([[_error(c) for c in row.T] for row in products])
    return PosteriorInfluence(
        points, names, mean, error, slope, rate * np.abs(centred).mean(axis=1), -rate * centred,
        x, spread, relative_bound(target), int((~fine).sum()),
    )  # fmt: skip


def _error(series: np.ndarray) -> float:
    """Monte Carlo error of a mean of draws in their order."""
    ess = ess_mean(series[None])
    return float(series.std() / np.sqrt(ess)) if np.isfinite(ess) else float("nan")


def scalar_draws(theta: dict[str, np.ndarray]) -> tuple[tuple[str, ...], np.ndarray]:
    """Scalar parameters by name, and their draws `(S, p)`."""
    names: list[str] = []
    columns = []
    for name, x in theta.items():
        for index in np.ndindex(*x.shape[1:]):
            names.append(f"{name}[{','.join(map(str, index))}]" if index else name)
            columns.append(np.asarray(x[(slice(None), *index)], float))
    return tuple(names), np.stack(columns, axis=1)


def point_label(z: np.ndarray) -> str:
    """A point in a few characters."""
    flat = [f"{v:.4g}" for v in np.ravel(z)[:3]]
    return ", ".join(flat) + (", ..." if np.size(z) > 3 else "")


def left_out_note(count: int) -> list[str]:
    """A note where draws had to be left out."""
    return [f"! {count:,} draws gave scores that are not finite."] if count else []
