"""Traces: where the chains went."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._figure import COLOURS, INK, legend, panels
from ._save import stamp
from ._series import Runs, Series, as_series

MOST_POINTS = 1500  # of a line: more cannot be told apart


def traces(runs: Runs, *, parameters: Sequence[str] | None = None) -> Figure:
    """Each parameter against the number of the draw, one line for each chain.

    Long chains are thinned for display; the label of the axis says how.

    **Arguments:** `runs`, a `Run`, an ArviZ object or an `xarray.DataTree`, a list of them, or a
    mapping from label to one; `parameters`, those to show.

    **Returns:** a `matplotlib.figure.Figure`.

    ```python
    >>> import genbayes as gb, numpy as np, xarray as xr
    >>> draws = np.random.default_rng(0).normal(size=(2, 100))
    >>> run = xr.Dataset({"A": (("chain", "draw"), draws), "B": (("chain", "draw"), draws**2)})
    >>> len(gb.plots.traces(run).axes)
    2

    ```
    """
    series = as_series(runs, parameters)
    refuse_weights(series, "A trace")
    names = list(series[0].draws)
    figure, axes = panels(names, columns=2, size=(5.2, 1.7))
    for ax, name in zip(axes, names, strict=False):
        _panel(ax, name, series)
    legend(figure, axes[0])
    every = max(_stride(s.draws[names[0]].shape[1]) for s in series)
    text = "draw" if every == 1 else f"draw (one in {every} is shown)"
    for ax in axes[-2:]:
        ax.set_xlabel(text, color=INK, fontsize=9)
    return stamp(figure, "Traces", series)


def refuse_weights(series: list[Series], what: str) -> None:
    """Weighted draws are no chain: what follows a chain in time has nothing to show."""
    for one in series:
        if one.weights is not None:
            raise ValueError(
                f"{what} follows a chain in time, and the draws of {one.label!r} are weighted "
                "particles without an order: look at genbayes.plots.marginals."
            )


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
