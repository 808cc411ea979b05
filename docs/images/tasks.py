"""The pictures of docs/tasks.md: draws of each task at its true parameters.

.venv/bin/python docs/images/tasks.py
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import genbayes as gb
from genbayes._figure import COLOURS, panels

HERE = Path(__file__).parent
Panel = Callable[[Axes], None]


def lines(make: Callable[[], Any], spacing: float, label: str, draws: int = 4) -> Panel:
    """A few draws over time; of several variables, the first two."""

    def draw(ax: Axes) -> None:
        y = np.asarray(make().generate(0, draws))
        y = y[..., None] if y.ndim == 2 else y[..., :2]
        t = spacing * np.arange(1, y.shape[1] + 1)
        for j in range(y.shape[2]):
            for series in y[..., j]:
                ax.plot(t, series, color=COLOURS[j], lw=1, alpha=0.75)
        ax.set_xlabel(label, fontsize=9)

    return draw


def field(make: Callable[[], Any], spacing: float) -> Panel:
    """One draw as a map over time and the ring of variables."""

    def draw(ax: Axes) -> None:
        y = np.asarray(make().generate(0, 1)[0])
        extent = (0.5 * spacing, (len(y) + 0.5) * spacing, 0.5, 8.5)
        ax.imshow(y.T, aspect="auto", origin="lower", cmap="RdBu_r", extent=extent)
        ax.set_xlabel("time", fontsize=9)
        ax.set_ylabel("variable", fontsize=9)

    return draw


def density(make: Callable[[], Any], low: float, high: float) -> Panel:
    """A histogram of many draws."""

    def draw(ax: Axes) -> None:
        y = np.asarray(make().generate(0, 5000)).ravel()
        ax.hist(y[(y > low) & (y < high)], bins=60, color=COLOURS[0], density=True)

    return draw


def cloud(make: Callable[[], Any], low: float, high: float) -> Panel:
    """Two neighbouring coordinates of many draws."""

    def draw(ax: Axes) -> None:
        y = np.asarray(make().generate(0, 1500))
        ax.plot(y[:, 0], y[:, 1], ".", color=COLOURS[0], ms=2, alpha=0.5)
        ax.set(xlim=(low, high), ylim=(low, high))

    return draw


tasks = gb.tasks
PICTURES: dict[str, dict[str, Panel]] = {
    "tasks-independent": {
        "normal location, 10 % outliers": density(
            lambda: tasks.normal_location(contamination=0.1), -4, 14
        ),
        "g-and-k": density(tasks.g_and_k.univariate, -5, 25),
        "g-and-k, two of five coordinates": cloud(tasks.g_and_k.multivariate, -5, 20),
    },
    "tasks-lorenz96": {
        "linear": field(tasks.lorenz96.linear, 0.075),
        "neural": field(tasks.lorenz96.neural, 0.075),
        "two scales, slow variables": field(tasks.lorenz96.two_scale, 0.2),
        "two scales, five starts": lines(tasks.lorenz96.two_scale, 0.2, "time", draws=5),
    },
    "tasks-series": {
        "MA(2)": lines(tasks.moving_average, 1, "time", draws=2),
        "M/G/1: time between departures": lines(tasks.queue, 1, "customer", draws=2),
        "stochastic volatility": lines(tasks.stochastic_volatility, 1, "time", draws=2),
    },
    "tasks-populations": {
        "Lotka–Volterra: prey and predators": lines(tasks.lotka_volterra, 1, "time"),
        "SIR: infected": lines(tasks.sir, 4, "days", draws=10),
    },
}


def main() -> None:
    """Draw every picture."""
    for name, content in PICTURES.items():
        figure, axes = panels(list(content), len(content), (3.0, 2.3))
        for ax, panel in zip(axes, content.values(), strict=True):
            panel(ax)
        figure.patch.set_alpha(1)
        figure.savefig(HERE / f"{name}.png", dpi=90)


if __name__ == "__main__":
    main()
