"""Marginal posteriors."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from .._checks import check_choice
from .._figure import COLOURS, INK, legend, panels
from ._density import bin_edges, effective, smooth_density, value_range
from ._save import stamp
from ._series import Posterior, Runs, Series, as_series, true_values

Kind = Literal["histogram", "smooth"]


def marginals(
    runs: Runs,
    *,
    truth: Mapping[str, Any] | None = None,
    reference: Posterior | None = None,
    parameters: Sequence[str] | None = None,
    kind: Kind = "histogram",
    family: bool = False,
) -> Figure:
    """The marginal posterior of each parameter; weighted draws count by their weight.

    **Arguments:**

    - `runs`: a `Run`, an ArviZ object or an `xarray.DataTree`, a list of them to lay over each
        other, or a mapping from label to one.
    - `truth`: true parameters by name, marked by a vertical line.
    - `reference`: one more posterior, drawn as a dashed outline: what the others should be.
    - `parameters`: those to show, by name; all where absent.
    - `kind`: `"histogram"` of all draws, or `"smooth"`, a kernel density estimate.
    - `family`: the runs are one posterior under a growing setting, such as the number of
        observations: they get one colour, from light to dark.

    **Returns:** a `matplotlib.figure.Figure`; `genbayes.plots.save` writes it with its provenance.

    ```python
    >>> import genbayes as gb, numpy as np, xarray as xr
    >>> draws = np.random.default_rng(0).normal(size=(2, 100))
    >>> run = xr.Dataset({"A": (("chain", "draw"), draws), "B": (("chain", "draw"), draws**2)})
    >>> len(gb.plots.marginals(run, truth={"A": 0.5}).axes)
    2

    ```
    """
    check_choice("kind", kind, ("histogram", "smooth"))
    series, true = as_series(runs, parameters), true_values(truth)
    expected = [] if reference is None else as_series({"reference": reference})
    names = list(dict.fromkeys(name for one in series for name in one.draws))
    figure, axes = panels(names, columns=4, size=(2.6, 2.3))
    colours = _shades(len(series)) if family else COLOURS
    for ax, name in zip(axes, names, strict=False):
        _panel(ax, name, series, kind, colours)
        for one in expected:
            _reference(ax, name, one)
        if name in true:
            ax.axvline(true[name], color=INK, linestyle="--", linewidth=1.5, label="true value")
            ax.autoscale(axis="x")
    legend(figure, axes[0])
    return stamp(figure, "Marginal posteriors", series + expected)


def _shades(number: int) -> list[str]:
    """From light to dark in one colour: neither end is lost on white or on near-black."""
    shades = mpl.colormaps["viridis_r"]
    return [to_hex(shades(x)) for x in np.linspace(0.12, 0.88, max(number, 2))]


def _panel(ax: Axes, name: str, series: list[Series], kind: Kind, colours: Sequence[str]) -> None:
    present = [(j, one) for j, one in enumerate(series) if name in one.draws]
    draws = [one.draws[name].ravel() for _, one in present]
    fewest = min(effective(one.weights, x.size) for (_, one), x in zip(present, draws, strict=True))
    edges = bin_edges(np.concatenate(draws), fewest)
    shade = 0.3 if len(present) == 1 else 0.15
    for (j, one), x in zip(present, draws, strict=True):
        colour, weights = colours[j % len(colours)], one.flat_weights()
        if kind == "smooth":
            _smooth(ax, x, weights, colour, shade, one.label)
            continue
        density, _ = np.histogram(x, edges, density=True, weights=weights)
        ax.stairs(density, edges, fill=True, color=colour, alpha=shade)
        ax.stairs(density, edges, color=colour, linewidth=1.5, label=one.label)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.margins(x=0.03)
    ax.set_ylim(bottom=0)


def _smooth(
    ax: Axes, x: np.ndarray, weights: np.ndarray | None, colour: str, shade: float, label: str
) -> None:
    grid = np.linspace(*value_range(x), 200)
    density = smooth_density(x, weights, grid)
    ax.fill_between(grid, density, color=colour, alpha=shade, linewidth=0)
    ax.plot(grid, density, color=colour, linewidth=1.5, label=label)


def _reference(ax: Axes, name: str, reference: Series) -> None:
    if name not in reference.draws:
        return
    x = reference.draws[name].ravel()
    grid = np.linspace(*value_range(x), 200)
    density = smooth_density(x, reference.flat_weights(), grid)
    ax.plot(grid, density, color=INK, linewidth=1.6, linestyle=(0, (4, 2)), label="reference")
    ax.set_ylim(0, max(ax.get_ylim()[1], 1.05 * float(density.max())))
