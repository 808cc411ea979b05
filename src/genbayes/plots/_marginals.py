"""Marginal posteriors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._figure import COLOURS, INK, legend, panels
from ._series import Runs, Series, as_series, true_values

MOST_BINS = 60


def marginals(runs: Runs, *, truth: Mapping[str, Any] | None = None) -> Figure:
    """The marginal posterior of each parameter, as a histogram of all draws.

    **Arguments:**

    - `runs`: a `Run`, a list of runs to lay over each other, or a mapping from label to run.
    - `truth`: true parameters by name, marked by a vertical line.

    **Returns:** a `matplotlib.figure.Figure`; `figure.savefig("marginals.png")` writes it.

    ```python
    >>> import genbayes as gb
    >>> task = gb.tasks.normal_location()
    >>> target = gb.ScorePosterior(task.problem(), gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> len(gb.plots.marginals(run, truth=task.truth).axes)
    1

    ```
    """
    series, true = as_series(runs), true_values(truth)
    names = list(series[0].draws)
    figure, axes = panels(names, columns=4, size=(2.6, 2.3))
    for ax, name in zip(axes, names, strict=False):
        _panel(ax, name, series)
        if name in true:
            ax.axvline(true[name], color=INK, linestyle="--", linewidth=1.5, label="true value")
            ax.autoscale(axis="x")
    legend(figure, axes[0])
    return figure


def _panel(ax: Axes, name: str, series: list[Series]) -> None:
    present = [(j, s.label, s.draws[name].ravel()) for j, s in enumerate(series) if name in s.draws]
    edges = bin_edges(np.concatenate([x for _, _, x in present]), min(x.size for *_, x in present))
    shade = 0.3 if len(present) == 1 else 0.15
    for j, label, x in present:
        colour = COLOURS[j % len(COLOURS)]
        density, _ = np.histogram(x, edges, density=True)
        ax.stairs(density, edges, fill=True, color=colour, alpha=shade)
        ax.stairs(density, edges, color=colour, linewidth=1.5, label=label)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.margins(x=0.03)
    ax.set_ylim(bottom=0)


def bin_edges(x: np.ndarray, num_draws: int) -> np.ndarray:
    """Bins of equal width over all draws: the more draws, the finer, and never more than 60."""
    x = x[np.isfinite(x)]
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    if low == high:  # a chain that never moved
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, int(np.clip(2 * num_draws ** (1 / 3), 5, MOST_BINS)) + 1)
