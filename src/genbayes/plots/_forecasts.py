"""Forecasts of the posterior beside the observations."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .._checks import check_between
from .._figure import COLOURS, INK, axis_labels, legend, panels, plain
from ..diagnostics import Predictive
from ..diagnostics import predictive as draw_predictive
from ..runs import Run
from ._density import bin_edges
from ._findings import labelled, stamped
from ._series import group

MOST_OBSERVATIONS = 20  # lines of one panel


def predictive(
    runs: Any, *, level: float = 0.9, num_draws: int = 200, x_label: str = "time step"
) -> Figure:
    """Bands of the posterior predictive distribution over time, with the observations.

    **Arguments:**

    - `runs`: a `Run`, what `gb.diagnostics.predictive` gave, an ArviZ object with the groups
        `posterior_predictive` and `observed_data`, a list of these, or a mapping from label to one.
    - `level`: of the central interval that is shaded. `num_draws`: simulations of each run.
    - `x_label`: what the first axis of an observation is.

    **Returns:** a `matplotlib.figure.Figure` with a panel for each series of an observation
    `(T, K)`, or one with densities where observations are numbers. The first 20 observations of
    each series are drawn.

    ```python
    >>> import genbayes as gb
    >>> task = gb.tasks.moving_average(length=20)
    >>> target = gb.ScorePosterior(task.problem(), gb.EnergyScore(), num_simulations=20)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.1), num_samples=20, progress=False)
    >>> len(gb.plots.predictive(run, num_draws=20).axes)
    1

    ```
    """
    check_between("level", level, 0, 1)
    things = _labelled(runs)
    found = {label: _forecast(label, x, num_draws) for label, x in things.items()}
    y = next(iter(found.values())).observations
    event = y.shape[1:]
    for label, one in found.items():
        if one.observations.shape[1:] != event:
            raise ValueError(
                f"Forecasts over each other are of one kind of observation: {label!r} has the "
                f"event shape {one.observations.shape[1:]}, the first has {event}."
            )
    series = int(np.prod(event[1:], dtype=int))
    names = [f"[:, {j}]" for j in range(series)] if series > 1 else ["posterior predictive"]
    figure, axes = panels(names, columns=2, size=(4.4, 2.4))
    for j, ax in enumerate(axes):
        for number, (label, one) in enumerate(found.items()):
            colour = COLOURS[number % len(COLOURS)]
            if event:
                _bands(ax, one, level, j, colour, label)
            else:
                _density(ax, one, colour, label)
        _observed(ax, y, j)
        axis_labels(ax, x_label if event else "y", "y" if event else "density")
        if event:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(figure, axes[0])
    return stamped(figure, "Posterior predictive", things)


def _labelled(runs: Any) -> dict[str, Any]:
    kinds = (Run, Predictive, xr.DataTree)
    if group(runs, "posterior_predictive") is not None:
        runs = [runs]
    found = list(runs.values()) if isinstance(runs, Mapping) else runs
    if isinstance(found, (list, tuple)):
        others = {type(x) for x in found if group(x, "posterior_predictive") is not None}
        kinds = (*kinds, *others)
    return labelled(
        runs, kinds,
        "a Run, a result of genbayes.diagnostics.predictive or an ArviZ object with the groups "
        "posterior_predictive and observed_data",
    )  # fmt: skip


def _forecast(label: str, x: Any, num_draws: int) -> Predictive:
    if isinstance(x, Predictive):
        return x
    if isinstance(x, Run):
        return draw_predictive(x, num_draws=num_draws)
    drawn, observed = group(x, "posterior_predictive"), group(x, "observed_data")
    names = [] if drawn is None or observed is None else [n for n in drawn if n in observed]
    if drawn is None or observed is None or not names:
        raise ValueError(
            f"{label!r} needs the groups posterior_predictive and observed_data, with a variable "
            "of one name in both."
        )
    y = np.asarray(observed[names[0]].values, float)
    simulated = drawn[names[0]].transpose("chain", "draw", ...).values
    simulated = np.asarray(simulated, float).reshape(-1, *y.shape)
    return Predictive(simulated, y, int((~np.isfinite(simulated)).sum()))


def _bands(ax: Axes, one: Predictive, level: float, j: int, colour: str, label: str) -> None:
    steps = np.arange(one.observations.shape[1])
    low, high = (end.reshape(len(steps), -1)[:, j] for end in one.interval(level))
    middle = one.median().reshape(len(steps), -1)[:, j]
    name = plain(f"{label}, {level:.0%}")
    ax.fill_between(steps, low, high, color=colour, alpha=0.22, linewidth=0, label=name)
    ax.plot(steps, middle, color=colour, linewidth=1.5)


def _density(ax: Axes, one: Predictive, colour: str, label: str) -> None:
    low, high = one.interval(0.998)
    x = one.simulations[np.isfinite(one.simulations)]
    x = x[(x >= low) & (x <= high)]
    heights, edges = np.histogram(x, bin_edges(x, x.size), density=True)
    ax.stairs(heights, edges, color=colour, fill=True, alpha=0.2)
    ax.stairs(heights, edges, color=colour, linewidth=1.5, label=plain(label))


def _observed(ax: Axes, y: np.ndarray, j: int) -> None:
    if y.ndim == 1:
        low, high = ax.get_xlim()
        inside = y[(y >= low) & (y <= high)]
        ax.plot(inside, np.zeros_like(inside), "|", color=INK, markersize=14, label="observed")
        ax.set_yticks([])
        return
    for number, row in enumerate(y.reshape(len(y), y.shape[1], -1)[:MOST_OBSERVATIONS, :, j]):
        label = None if number else "observed"
        ax.plot(row, color=INK, linewidth=0.8, marker=".", markersize=4, label=label)
