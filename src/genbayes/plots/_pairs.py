"""Pairs of parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .._figure import COLOURS, INK, blank, legend_of, plain, quieten
from ._density import bin_edges, contour_levels, effective, plane
from ._save import stamp
from ._series import Runs, Series, as_series, true_values

MOST_PARAMETERS = 8
MOST_POINTS = 600
SHARES = (0.5, 0.9)


def pairs(
    runs: Runs,
    *,
    truth: Mapping[str, Any] | None = None,
    parameters: Sequence[str] | None = None,
) -> Figure:
    """Each parameter against each other, with the marginals on the diagonal.

    Lines enclose 50 % and 90 % of the draws, by weight, as a smoothed histogram has them: a mode
    narrower than a fortieth of the panel may be lost. Points are some draws of a single posterior.

    **Arguments:** `runs`, `truth` and `parameters` as for `marginals`; at most 8 are shown.

    **Returns:** a `matplotlib.figure.Figure`.

    ```python
    >>> import genbayes as gb, numpy as np, xarray as xr
    >>> draws = np.random.default_rng(0).normal(size=(2, 100))
    >>> run = xr.Dataset({"A": (("chain", "draw"), draws), "B": (("chain", "draw"), draws**2)})
    >>> len(gb.plots.pairs(run).axes)
    3

    ```
    """
    series, true = as_series(runs, parameters), true_values(truth)
    names = list(series[0].draws)[:MOST_PARAMETERS]
    series = [one for one in series if set(names) <= set(one.draws)]
    size = 2.0 if len(names) > 2 else 2.6
    figure = blank((size * len(names) + 0.4, size * len(names) + 0.4))
    for row, below in enumerate(names):
        for column, across in enumerate(names[: row + 1]):
            number = row * len(names) + column + 1
            ax = figure.add_subplot(len(names), len(names), number)
            quieten(ax)
            if row == column:
                _diagonal(ax, across, series, true)
            else:
                _pair(ax, across, below, series, true)
            _labels(ax, row, column, names)
    _notes(figure, series, len(series[0].draws))
    return stamp(figure, "Pairs of parameters", series)


def _diagonal(ax: Axes, name: str, series: list[Series], true: Mapping[str, float]) -> None:
    draws = [one.draws[name].ravel() for one in series]
    fewest = min(effective(s.weights, x.size) for s, x in zip(series, draws, strict=True))
    edges = bin_edges(np.concatenate(draws), fewest)
    for j, (one, x) in enumerate(zip(series, draws, strict=True)):
        density, _ = np.histogram(x, edges, density=True, weights=one.flat_weights())
        ax.stairs(density, edges, color=COLOURS[j % len(COLOURS)], linewidth=1.4)
    if name in true:
        ax.axvline(true[name], color=INK, linestyle="--", linewidth=1.2)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_ylim(bottom=0)


def _pair(
    ax: Axes, across: str, below: str, series: list[Series], true: Mapping[str, float]
) -> None:
    for j, one in enumerate(series):
        x, y = one.draws[across].ravel(), one.draws[below].ravel()
        colour, weights = COLOURS[j % len(COLOURS)], one.flat_weights()
        finite = np.isfinite(x) & np.isfinite(y)
        x, y, weights = x[finite], y[finite], None if weights is None else weights[finite]
        if not x.size:
            continue
        if len(series) == 1:
            some = _some(x.size, weights)
            ax.scatter(x[some], y[some], s=3, color=colour, alpha=0.3, linewidth=0, rasterized=True)
        if np.ptp(x) > 0 and np.ptp(y) > 0:
            density = plane(x, y, weights)
            levels = contour_levels(density[2], SHARES)
            if levels[0] < levels[1]:
                ax.contour(*density, levels=levels, colors=[colour], linewidths=(1.0, 1.6))
    if across in true and below in true:
        ax.axvline(true[across], color=INK, linestyle="--", linewidth=1)
        ax.axhline(true[below], color=INK, linestyle="--", linewidth=1)


def _some(number: int, weights: np.ndarray | None) -> np.ndarray:
    """Draws to show: evenly spaced, along the cumulated weights where there are any."""
    most = min(MOST_POINTS, number)
    if weights is None:
        return np.linspace(0, number - 1, most).astype(int)
    steps = (np.arange(most) + 0.5) / most * weights.sum()
    return np.minimum(np.searchsorted(np.cumsum(weights), steps), number - 1)


def _labels(ax: Axes, row: int, column: int, names: list[str]) -> None:
    if row == len(names) - 1:
        ax.set_xlabel(plain(names[column]), color=INK, fontsize=11)
    else:
        ax.set_xticklabels([])
    if column == 0 and row > 0:
        ax.set_ylabel(plain(names[row]), color=INK, fontsize=11)
    elif column > 0:
        ax.set_yticklabels([])


def _notes(figure: Figure, series: list[Series], number: int) -> None:
    if len(series) > 1:
        lines = [Line2D([], [], color=COLOURS[j % len(COLOURS)]) for j in range(len(series))]
        legend_of(figure, lines, [one.label for one in series])
    if number > MOST_PARAMETERS:
        text = f"the first {MOST_PARAMETERS} of {number} coordinates"
        figure.text(0.98, 0.98, text, color=INK, fontsize=9, ha="right", va="top")
