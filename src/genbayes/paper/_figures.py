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


def shaded_family(
    family: Mapping[int, np.ndarray],
    names: Sequence[str],
    truth: Mapping[str, float] | None = None,
) -> Figure:
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
        if truth is not None:
            ax.axvline(truth[names[j]], color=INK, lw=1, ls="--")
        ax.set_yticks([])
    legend(figure, axes[0])
    return figure


def chains(traces: np.ndarray, names: Sequence[str]) -> Figure:
    """Traces `(chain, draw, p)`, a panel for each parameter."""
    figure, axes = panels(list(names), columns=2, size=(4.8, 1.6))
    for j, ax in enumerate(axes):
        ax.plot(traces[:, :, j].T, linewidth=0.8)
    return figure


def marginals(
    draws: Mapping[str, np.ndarray], names: Sequence[str], limits: tuple[float, float] | None = None
) -> Figure:
    """Densities of several samplers over each other, a panel for each parameter.

    **Arguments:** `draws`, label to `(draw, p)`, the last one being the reference, in ink.
    """
    from scipy.stats import gaussian_kde

    figure, axes = panels(list(names), columns=min(5, max(2, len(names) // 2)), size=(4.2, 2.4))
    for j, ax in enumerate(axes):
        pooled = np.concatenate([x[:, j] for x in draws.values()])
        grid = np.linspace(*(limits or (pooled.min(), pooled.max())), 200)
        for i, (label, x) in enumerate(draws.items()):
            last = i == len(draws) - 1
            colour = INK if last else COLOURS[i % len(COLOURS)]
            if np.ptp(x[:, j]) > 0:
                density = gaussian_kde(x[:, j], 0.25)(grid)
                ax.plot(grid, density, color=colour, lw=1.8 if last else 1.2, label=label)
        ax.set_yticks([])
    legend(figure, axes[0])
    return figure


def paths(
    ours: Mapping[str, np.ndarray], told: Mapping[str, Sequence[float]], at: np.ndarray
) -> Figure:
    """Values along the number of draws, `(chain, size)` by label; published ones as crosses."""
    figure, (ax,) = panels(["Kernelised Stein discrepancy"], 1, (7.0, 3.6))
    for i, (label, path) in enumerate(ours.items()):
        ax.fill_between(at, path.min(axis=0), path.max(axis=0), color=COLOURS[i], alpha=0.18, lw=0)
        ax.plot(at, path.mean(axis=0), color=COLOURS[i], label=label)
        if label in told:
            ax.plot(at, np.asarray(told[label]), "x", color=COLOURS[i], markersize=4)
    ax.set_yscale("log")
    ax.tick_params(which="minor", colors=INK, labelsize=8)
    ax.set_xlabel("draws", color=INK)
    legend(figure, ax)
    return figure


def ratios(
    by_label: Mapping[str, Sequence[tuple[float, float, float, float]]],
    what: str = "sd / reference",
) -> Figure:
    """Ratios along n with their range: label to `(n, mean, least, largest)`; 1 is right."""
    figure, (ax,) = panels([what], 1, (6.0, 2.8))
    for i, (label, points) in enumerate(by_label.items()):
        at, mean, least, largest = (np.array(column) for column in zip(*points, strict=True))
        ax.errorbar(
            at * (1 + 0.04 * i), mean, (mean - least, largest - mean), color=COLOURS[i],
            label=label, marker="o", markersize=4, capsize=2,
        )  # fmt: skip
    ax.axhline(1, color=INK, lw=1, ls="--")
    ax.set_xscale("log")
    ax.set_xlabel("observations", color=INK)
    legend(figure, ax)
    return figure


def bands(
    by_label: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    x: str,
    y: str,
    told: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Means with intervals along an index: label to `(mean, low, high)`; published as crosses."""
    figure, (ax,) = panels([y], 1, (6.4, 3.2))
    for i, (label, (mean, low, high)) in enumerate(by_label.items()):
        at = np.arange(1, len(mean) + 1)
        ax.fill_between(at, low, high, color=COLOURS[i], alpha=0.18, lw=0)
        ax.plot(at, mean, color=COLOURS[i], marker=".", label=label)
        if told is not None:
            ax.plot(at, told[label][: len(at)], "x", color=COLOURS[i], markersize=4)
    ax.set_xlabel(x, color=INK)
    legend(figure, ax)
    return figure


def intervals(points: Mapping[str, tuple[float, float, float]]) -> Figure:
    """A line for each thing: label to `(value, low, high)`; 1 is what was published."""
    figure, (ax,) = panels(["ours / published"], 1, (8.6, 0.8 + 0.32 * len(points)))
    for i, (value, low, high) in enumerate(points.values()):
        ax.plot([low, high], [i, i], color=COLOURS[0], lw=2)
        ax.plot([value], [i], "o", color=COLOURS[0], markersize=5)
    ax.axvline(1, color=INK, lw=1, ls="--")
    ax.set_xscale("log")
    ax.set_yticks(range(len(points)), list(points))
    ax.invert_yaxis()
    return figure
