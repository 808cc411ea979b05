"""Kernelised Stein discrepancy of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._checks import check_choice, check_count
from .._result import AbstractResult
from .._table import Table
from .._types import Key
from ..runs import Run
from ..targets import ScorePosterior
from ._discrepancy import Form, Kernel, Statistic, check_kernel, combined, squared_path
from ._gradients import fresh_gradients, met_gradients

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DRAWS = 30_000
Draws = int | slice | Sequence[int] | np.ndarray | None


@dataclass(frozen=True, eq=False)
class KSD(AbstractResult):
    """Kernelised Stein discrepancy of a run: `value`, over the whole of the draws asked for.

    `sizes` and `path` are the discrepancy over the first so many draws; `by_coordinate` holds the
    squared discrepancy of each coordinate at the last size.
    """

    value: float
    sizes: np.ndarray
    path: np.ndarray
    by_coordinate: np.ndarray
    names: tuple[str, ...]
    settings: dict[str, Any]
    num_draws: int
    excluded: int

    def table(self) -> Table:
        """One row for each size, or by coordinate where there is one size alone."""
        notes = [_what(self.settings, self.num_draws)]
        if self.excluded:
            notes.append(
                f"! {self.excluded:,} draws were left out: the gradient there was not finite."
            )
        title = "Kernelised Stein discrepancy"
        if len(self.sizes) > 1:
            rows = [(int(n), float(v)) for n, v in zip(self.sizes, self.path, strict=True)]
            return Table(("draws", "KSD"), rows, title, notes)
        total = "all" if not self.settings["per_dimension"] else "all, by dimension"
        rows = [(total, self.value)]
        if len(self.names) > 1:
            each = np.sqrt(np.maximum(self.by_coordinate, 0))
            rows += [(name, float(v)) for name, v in zip(self.names, each, strict=True)]
        return Table(("coordinate", "KSD"), rows, title, notes)

    def plot(self) -> "Figure":
        """Discrepancy against the number of draws, or a bar for each coordinate."""
        from .._figure import COLOURS, INK, panels

        figure, (ax,) = panels(["Kernelised Stein discrepancy"], 1, (6.0, 3.6))
        if len(self.sizes) > 1:
            ax.plot(self.sizes, self.path, color=COLOURS[0], marker="o", markersize=3)
            positive = self.path[self.path > 0]
            if positive.size:
                ax.set_yscale("log")
                rate = self.path[0] * np.sqrt(self.sizes[0] / self.sizes)
                ax.plot(self.sizes, rate, color=INK, lw=1, ls="--", label="root-N rate")
            ax.set_xlabel("draws", color=INK)
        else:
            each = np.sqrt(np.maximum(self.by_coordinate, 0))
            ax.bar(range(len(each)), each, color=COLOURS[0])
            if len(each) <= 12:
                ax.set_xticks(range(len(each)), self.names)
        ax.set_ylabel("KSD", color=INK)
        return figure


def _what(settings: dict[str, Any], num_draws: int) -> str:
    gradients = settings["gradients"]
    if gradients == "fresh":
        gradients = f"fresh gradients from {settings['num_simulations']:,} simulations each"
    else:
        gradients = "the sampler's own gradients" if gradients == "met" else "exact gradients"
    by = ", divided by dimension" if settings["per_dimension"] else ""
    return (
        f"{settings['statistic']}-statistic over {num_draws:,} draws, {settings['form']} form{by}, "
        f"c = {settings['c']:g}, beta = {settings['beta']:g}; {gradients}."
    )


def ksd(
    run: Run,
    *,
    target: ScorePosterior | None = None,
    draws: Draws = None,
    gradients: Literal["fresh", "met"] = "fresh",
    num_simulations: int = 500,
    form: Form = "vector",
    statistic: Statistic = "V",
    c: float = 1.0,
    beta: float = -0.5,
    scale: Literal["sd"] | np.ndarray | None = None,
    per_dimension: bool = False,
    seed: int | Key = 0,
) -> KSD:
    r"""How far the draws are from the target, seen through its gradients.

    $$\mathrm{KSD}^2 = \frac{1}{N^2} \sum_{a, b} k^0(u_a, u_b)$$

    over all pairs (`statistic="V"`), or over pairs of different draws (`"U"`), with the Stein
    kernel $k^0$ of an inverse multiquadric $(c^2 + \lVert u - v\rVert^2)^\beta$ in unconstrained
    coordinates. It is zero only if the draws have the distribution of the target.

    **Main arguments:**

    - `run`; `target`, if the run does not hold it.
    - `draws`: which draws of each chain: `None` for all, or 30 000 evenly spaced where there are
        more; a number, for so many evenly spaced; a slice such as `slice(0, 30_000)`; or indices.
    - `gradients`: `"fresh"`, new estimates from `num_simulations` draws of the simulator each; or
        `"met"`, those that the sampler walked by, which `sample(..., keep_gradients=True)` keeps
        in `info["gradient"]`: they cost nothing, are as noisy as `m` of the target and the noise
        of the sampler make them, and are clipped where the sampler clips.
    - `statistic`: estimated gradients bias the V-statistic upward, by their variance over $N$,
        which the U-statistic is free of; the U-statistic may be negative, and is then given as 0.
        A gradient that was met also moved the next draws, so that noise is shared between
        neighbours: of order $1/N$ as well, in both forms, and less the more the run is thinned.

    **Other arguments:**

    - `form`: `"vector"` (the root of the sum over coordinates) or `"coordinates"` (sum of roots).
    - `c` above 0 and `beta` between -1 and 0: the kernel.
    - `scale`: lengths, `(p,)`, that coordinates are divided by, or `"sd"` for those of the draws.
    - `per_dimension`: divide by the number of coordinates.

    **What it can detect:** a step size that is too large, a chain that has not arrived, draws too
    wide or too narrow, which R-hat and the effective sample size do not see. **What it cannot:** a
    mode far away that no draw visited (there are no gradients from there); errors much smaller than
    its own value for exact draws, which falls as the root of $N$; differences on scales much
    smaller than `c`. Values compare samples of one target, not of two. Draws that are weighted are
    weighted here as well. The target is that of `num_simulations`
    $\to\infty$: for the pseudo-marginal target at small $m$, even an exact chain keeps a distance.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, score)
    >>> run = gb.sample(target, gb.SGLD(0.02), num_samples=200, progress=False)
    >>> result = gb.diagnostics.ksd(run)
    >>> bool(result.value > 0)
    True

    ```

    ??? cite "Reference"
        Gorham and Mackey (2017), *Measuring sample quality with kernels*.
    """
    return ksd_path(
        run, target=target, sizes=(), draws=draws, gradients=gradients,
        num_simulations=num_simulations, form=form, statistic=statistic, c=c, beta=beta,
        scale=scale, per_dimension=per_dimension, seed=seed,
    )  # fmt: skip


def ksd_path(
    run: Run,
    *,
    sizes: int | Sequence[int] | np.ndarray = 30,
    target: ScorePosterior | None = None,
    draws: Draws = None,
    gradients: Literal["fresh", "met"] = "fresh",
    num_simulations: int = 500,
    form: Form = "vector",
    statistic: Statistic = "V",
    c: float = 1.0,
    beta: float = -0.5,
    scale: Literal["sd"] | np.ndarray | None = None,
    per_dimension: bool = False,
    seed: int | Key = 0,
) -> KSD:
    r"""The discrepancy over the first draws of a run, for several numbers of them.

    **Arguments:** `sizes`, numbers of draws (of all chains together, taken in turns), or how many
    evenly spaced ones; all others as for `ksd`. All sizes come from one pass over the pairs.

    A curve that falls as the root of $N$ belongs to a sample from the target; one that levels off
    has reached the bias of the sampler (or, with `statistic="V"` and noisy gradients, nothing yet:
    that part of the noise falls as $1/N$).

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, score)
    >>> run = gb.sample(target, gb.SGLD(0.02), num_samples=200, progress=False)
    >>> gb.diagnostics.ksd_path(run, sizes=[50, 100, 200]).sizes.tolist()
    [50, 100, 200]

    ```
    """
    check_kernel(form, statistic, c, beta)
    check_choice("gradients", gradients, ("fresh", "met"))
    chosen = _chosen(run, draws)
    u, weights = _in_turns(np.asarray(run.unconstrained)[:, chosen]), _weights(run, chosen)
    exact = False
    if gradients == "met":
        s = _in_turns(met_gradients(run)[:, chosen])
    else:
        target = run.need_target(target)
        exact = target.is_exact
        s = fresh_gradients(target, u, num_simulations=num_simulations, seed=seed)
    fine = np.asarray(np.isfinite(s).all(axis=1) & np.isfinite(u).all(axis=1))
    u, s = u[fine], s[fine]
    _check_enough(len(u), statistic)
    lengths = _lengths(u, scale)
    counted = np.cumsum(fine)[_sizes(sizes, fine.size) - 1]
    squared = squared_path(
        u / lengths, s * lengths, np.maximum(counted, 1), Kernel(c, beta), statistic,
        None if weights is None else weights[fine],
    )  # fmt: skip
    path = combined(squared, form) / (u.shape[1] if per_dimension else 1)
    settings = {
        "form": form, "statistic": statistic, "c": c, "beta": beta, "scale": scale,
        "gradients": "exact" if exact else gradients, "num_simulations": num_simulations,
        "per_dimension": per_dimension,
    }  # fmt: skip
    return KSD(
        float(path[-1]), counted, path, squared[-1], _names(run, u.shape[1]), settings,
        len(u), int(np.sum(~fine)),
    )  # fmt: skip


def _chosen(run: Run, draws: Draws) -> np.ndarray:
    number = run.unconstrained.shape[1]
    if not number:
        raise ValueError("The run has no draws: resume it, or draw anew.")
    if draws is None:
        draws = min(number, max(1, MOST_DRAWS // run.unconstrained.shape[0]))
    if isinstance(draws, slice):
        chosen = np.arange(number)[draws]
    elif isinstance(draws, (int, np.integer)):
        check_count("draws", draws)
        chosen = np.unique(np.linspace(0, number - 1, min(int(draws), number)).astype(int))
    else:
        chosen = np.arange(number)[np.asarray(draws)]
    if not chosen.size:
        raise ValueError(f"draws={draws!r} leaves none of the {number:,} draws of each chain.")
    return chosen


def _in_turns(x: np.ndarray) -> np.ndarray:
    """`(chain, draw, p)` as `(N, p)`: the first draws of all chains come first."""
    return np.swapaxes(x, 0, 1).reshape(-1, x.shape[-1])


def _weights(run: Run, chosen: np.ndarray) -> np.ndarray | None:
    weights = run.weights
    if weights is None:
        return None
    flat = weights[:, chosen].T.ravel()
    return flat * (flat.size / flat.sum())


def _sizes(sizes: int | Sequence[int] | np.ndarray, number: int) -> np.ndarray:
    if isinstance(sizes, (int, np.integer)):
        check_count("sizes", sizes)
        return np.unique(np.linspace(number / int(sizes), number, int(sizes)).astype(int).clip(1))
    found = np.asarray(sizes if len(sizes) else [number])
    if found.ndim != 1 or found.min() < 1 or found.max() > number or np.any(np.diff(found) <= 0):
        raise ValueError(
            f"sizes must be increasing numbers of draws between 1 and {number:,}, got {sizes}."
        )
    return found.astype(int)


def _lengths(u: np.ndarray, scale: Any) -> np.ndarray:
    if scale is None:
        return np.ones(u.shape[1])
    if isinstance(scale, str):
        check_choice("scale", scale, ("sd",))
        return np.maximum(u.std(axis=0), np.finfo(np.float32).tiny)
    lengths = np.asarray(scale, float)
    if lengths.shape != (u.shape[1],) or not np.all((lengths > 0) & np.isfinite(lengths)):
        raise ValueError(
            f'scale must be "sd" or {u.shape[1]} lengths above 0, one for each coordinate, got '
            f"{scale!r}."
        )
    return lengths


def _check_enough(number: int, statistic: Statistic) -> None:
    least = 2 if statistic == "U" else 1
    if number < least:
        raise ValueError(
            f"Expected at least {least} draws with a finite gradient, got {number}. Look at the "
            "simulator's draws along the run."
        )


def _names(run: Run, size: int) -> tuple[str, ...]:
    if run.target is not None:
        return run.target.problem.prior.coordinate_names
    return tuple(f"u[{j}]" for j in range(size))
