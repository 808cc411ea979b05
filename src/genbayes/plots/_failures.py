"""Where in the parameter space the simulator failed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._figure import COLOURS, INK, blank, legend, plain, quieten
from ..runs import Run
from ._save import stamp
from ._series import Series, as_series, coordinates

MOST_PARAMETERS = 5
MOST_POINTS = 500


def failures(run: Run, *, parameters: Sequence[str] | None = None) -> Figure:
    """The parameters at which simulations failed, over the draws of the run.

    Failures in a corner say where the prior lets the simulator down; failures among the draws
    call for a mended simulator, because the posterior there is not what the model says.

    **Arguments:** `run`, whose `failures` hold the parameters `theta` of each; `parameters`, those
    to show, at most 5.

    **Returns:** a `matplotlib.figure.Figure`: pairs of parameters, or a line for a single one.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem()
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=10)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=10, progress=False)
    >>> try:
    ...     gb.plots.failures(run)
    ... except ValueError as error:
    ...     print(error)
    No simulation of this run failed: there is nothing to draw.

    ```
    """
    (one,) = as_series(run, parameters)
    failed = getattr(run, "failures", ())
    if not failed:
        raise ValueError("No simulation of this run failed: there is nothing to draw.")
    names = list(one.draws)[:MOST_PARAMETERS]
    where = failed_at(failed, names)
    if len(names) == 1:
        figure = blank((5.2, 2.2))
        ax = figure.add_subplot()
        _line(ax, one, names[0], where)
        legend(figure, ax)
        return stamp(figure, "Simulator failures", [one])
    size, last = 2.3, len(names) - 1
    figure = blank((size * last + 0.4, size * last + 0.4))
    axes = [
        _pair(
            figure.add_subplot(last, last, row * last + column + 1), one, where, names, row, column
        )
        for row in range(last)
        for column in range(row + 1)
    ]
    legend(figure, axes[0])
    return stamp(figure, "Simulator failures", [one])


def failed_at(failed: Sequence[Any], names: Sequence[str]) -> dict[str, np.ndarray]:
    """The coordinates of all failures, by label."""
    each = [
        {k: x[0, 0] for k, x in coordinates(
            {name: np.asarray(v, float)[None, None] for name, v in failure.theta.items()}
        ).items()}
        for failure in failed
    ]  # fmt: skip
    return {name: np.array([one.get(name, np.nan) for one in each]) for name in names}


def _line(ax: Axes, one: Series, name: str, where: dict[str, np.ndarray]) -> None:
    quieten(ax)
    ax.hist(one.draws[name].ravel(), 40, color=COLOURS[0], alpha=0.4, label="draws")
    ax.plot(where[name], np.zeros(where[name].size), "x", color=COLOURS[1], ms=6, clip_on=False,
            label="failed")  # fmt: skip
    ax.set_yticks([])
    ax.set_xlabel(plain(name), color=INK, fontsize=11)


def _pair(
    ax: Axes, one: Series, where: dict[str, np.ndarray], names: list[str], row: int, column: int
) -> Axes:
    across, below = names[column], names[row + 1]
    quieten(ax)
    x, y = one.draws[across].ravel(), one.draws[below].ravel()
    some = np.linspace(0, x.size - 1, min(MOST_POINTS, x.size)).astype(int)
    ax.scatter(x[some], y[some], s=3, color=COLOURS[0], alpha=0.4, linewidth=0, label="draws")
    ax.scatter(where[across], where[below], s=22, color=COLOURS[1], marker="x", linewidth=1.2,
               label="failed")  # fmt: skip
    if row == len(names) - 2:
        ax.set_xlabel(plain(across), color=INK, fontsize=11)
    if column == 0:
        ax.set_ylabel(plain(below), color=INK, fontsize=11)
    return ax
