"""The experiments' figures: one panel for each model or setup."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from .._figure import COLOURS, INK, legend, panels

Curve = tuple[np.ndarray, np.ndarray]


def lines(
    by_panel: Mapping[str, Mapping[str, Sequence[tuple[float, float, float]]]],
    published: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    x: str,
    y: str,
) -> Figure:
    """Values with two standard errors along a setting; published ones as crosses.

    **Arguments:** `by_panel`, panel to line to `(x, value, error)`; `published`, to `(x, value)`.
    """
    figure, axes = panels(list(by_panel), columns=2, size=(4.6, 3.0))
    for ax, (title, curves) in zip(axes, by_panel.items(), strict=True):
        for j, (label, points) in enumerate(curves.items()):
            at, value, error = (np.array(column) for column in zip(*points, strict=True))
            colour = COLOURS[j]
            error = np.where(np.isfinite(error), error, 0.0)
            ax.errorbar(at, value, 2 * error, color=colour, label=label, marker="o", markersize=3)
            told = np.array(published[title][label])
            ax.plot(told[:, 0], told[:, 1], "x", color=colour)
        ax.set_xscale("log")
        ax.set_xlabel(x, color=INK)
        ax.set_ylabel(y, color=INK)
    legend(figure, axes[0])
    return figure


def densities(by_panel: Mapping[str, Mapping[str, Curve]], x: str) -> Figure:
    """Densities over each other, a panel for each setup: panel to label to `(grid, density)`."""
    figure, axes = panels(list(by_panel), columns=3, size=(3.2, 2.2))
    for ax, curves in zip(axes, by_panel.values(), strict=True):
        for j, (label, (grid, density)) in enumerate(curves.items()):
            ax.fill_between(grid, density, color=COLOURS[j], alpha=0.15)
            ax.plot(grid, density, color=COLOURS[j], label=label)
        ax.set_xlabel(x, color=INK)
        ax.set_yticks([])
    legend(figure, axes[0])
    return figure


def shaded_family(family: Mapping[int, np.ndarray], names: Sequence[str]) -> Figure:
    """Marginals for growing numbers of observations, darker with more: n to draws `(draw, p)`."""
    figure, axes = panels(list(names), columns=5, size=(2.4, 2.0))
    shades = np.linspace(0.25, 1.0, len(family))
    for j, ax in enumerate(axes):
        pooled = np.concatenate([draws[:, j] for draws in family.values()])
        edges = np.linspace(pooled.min(), pooled.max() + 1e-6, 41)
        for shade, (n, draws) in zip(shades, family.items(), strict=True):
            height, _ = np.histogram(draws[:, j], edges, density=True)
            label = f"n = {n}" if n in (min(family), max(family)) else None
            ax.stairs(height, edges, color=COLOURS[0], alpha=shade, label=label)
        ax.set_yticks([])
    legend(figure, axes[0])
    return figure


def chains(traces: np.ndarray, names: Sequence[str]) -> Figure:
    """Traces `(chain, draw, p)`, a panel for each parameter."""
    figure, axes = panels(list(names), columns=2, size=(4.8, 1.6))
    for j, ax in enumerate(axes):
        ax.plot(traces[:, :, j].T, linewidth=0.8)
    return figure
