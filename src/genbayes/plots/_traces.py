"""Traces: where the chains went."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._figure import COLOURS, INK, legend, panels
from ._series import Runs, Series, as_series

MOST_POINTS = 1500  # of a line: more cannot be told apart


def traces(runs: Runs) -> Figure:
    """Each parameter against the number of the draw, one line for each chain.

    Long chains are thinned for display; the label of the axis says how.

    **Arguments:** `runs`: a `Run`, a list of runs, or a mapping from label to run.

    **Returns:** a `matplotlib.figure.Figure`.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem()
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> len(gb.plots.traces(run).axes)
    1

    ```
    """
    series = as_series(runs)
    names = list(series[0].draws)
    figure, axes = panels(names, columns=2, size=(5.2, 1.7))
    for ax, name in zip(axes, names, strict=False):
        _panel(ax, name, series)
    legend(figure, axes[0])
    every = max(_stride(s.draws[names[0]].shape[1]) for s in series)
    text = "draw" if every == 1 else f"draw (one in {every} is shown)"
    for ax in axes[-2:]:
        ax.set_xlabel(text, color=INK, fontsize=9)
    return figure


def _stride(num_draws: int) -> int:
    return -(-num_draws // MOST_POINTS)


def _panel(ax: Axes, name: str, series: list[Series]) -> None:
    for j, one in enumerate(series):
        if name not in one.draws:
            continue
        every = _stride(one.draws[name].shape[1])
        for c, chain in enumerate(one.draws[name]):
            # chains of one run differ in colour if it is alone, else runs do
            colour = COLOURS[(c if len(series) == 1 else j) % len(COLOURS)]
            number = np.arange(chain.size)[::every]
            label = one.label if len(series) > 1 and c == 0 else None
            ax.plot(number, chain[::every], color=colour, linewidth=0.6, alpha=0.8, label=label)
    ax.margins(x=0)
