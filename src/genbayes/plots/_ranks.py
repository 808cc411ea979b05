"""Rank plots: whether the chains visited the same places equally often."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._convergence import ess_bulk
from .._figure import COLOURS, INK, axis_labels, panels
from ._save import stamp
from ._series import Runs, as_series
from ._traces import refuse_weights

BINS = 20
BAND = 2.0  # standard errors


def ranks(runs: Runs, *, parameters: Sequence[str] | None = None) -> Figure:
    r"""How often each chain's draws fall into each twentieth of all chains' draws, ranked.

    Chains that agree are level: each share is near $1/20$. The band is two standard errors, with
    the draws counted as their effective number, because neighbours in a chain are alike. One
    chain has nothing to be compared with: its halves are.

    **Arguments:** as for `traces`; each run has panels of its own.

    **Returns:** a `matplotlib.figure.Figure`.

    ??? cite "Reference"
        Vehtari et al. (2021), *Rank-normalization, folding, and localization: an improved R-hat*.

    ```python
    >>> import genbayes as gb, numpy as np, xarray as xr
    >>> draws = np.random.default_rng(0).normal(size=(2, 100))
    >>> run = xr.Dataset({"A": (("chain", "draw"), draws), "B": (("chain", "draw"), draws**2)})
    >>> len(gb.plots.ranks(run).axes)
    2

    ```
    """
    series = as_series(runs, parameters)
    refuse_weights(series, "A rank plot")
    alone = len(series) == 1
    shown = {
        name if alone else f"{one.label}: {name}": _halves(x)
        for one in series
        for name, x in one.draws.items()
    }
    figure, axes = panels(list(shown), columns=4, size=(2.6, 1.9))
    for ax, x in zip(axes, shown.values(), strict=False):
        _panel(ax, x)
    halved = any(next(iter(one.draws.values())).shape[0] == 1 for one in series)
    axis_labels(axes[0], "rank of all draws", "share (halves of the chain)" if halved else "share")
    return stamp(figure, "Ranks", series)


def _halves(x: np.ndarray) -> np.ndarray:
    half = x.shape[1] // 2
    return x if x.shape[0] > 1 or half == 0 else np.concatenate([x[:, :half], x[:, -half:]])


def _panel(ax: Axes, x: np.ndarray) -> None:
    order = np.argsort(np.argsort(x, axis=None, kind="stable")).reshape(x.shape)
    edges = np.linspace(0, x.size, BINS + 1)
    centres = (np.arange(BINS) + 0.5) / BINS
    number = ess_bulk(x) / x.shape[0] if x.shape[1] >= 8 else float("nan")
    error = BAND * np.sqrt((1 - 1 / BINS) / BINS / number) if number > 0 else 0.0
    ax.axhspan(max(0, 1 / BINS - error), 1 / BINS + error, color=INK, alpha=0.15, linewidth=0)
    ax.axhline(1 / BINS, color=INK, linewidth=0.8)
    for c, chain in enumerate(order):
        share = np.histogram(chain, edges)[0] / chain.size
        ax.plot(centres, share, color=COLOURS[c % len(COLOURS)], linewidth=1.2, marker=".", ms=3)
    ax.set_ylim(0, None)
    ax.set_xlim(0, 1)
