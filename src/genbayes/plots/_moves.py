"""How the chains moved: acceptance and stays, thermostat and kinetic energy."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._figure import COLOURS, INK, axis_labels, legend, panels
from ..runs import Run
from ._save import stamp
from ._series import Runs, Series, as_series
from ._traces import refuse_weights

WINDOWS = 60  # points of a line of shares
RATES = ("accepted", "acceptance_rate")


def acceptance(runs: Runs) -> Figure:
    """How often steps were accepted along the chains, and how long chains stayed in one place.

    A stay is a number of draws in a row at one place. Long stays are the mark of a pseudo-marginal
    chain that sits on an estimate which was good by luck.

    **Arguments:** `runs`, a `Run`, a list of runs, or a mapping from label to run, of samplers that
    accept or refuse.

    **Returns:** a `matplotlib.figure.Figure` with two panels for each run.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem()
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> len(gb.plots.acceptance(run).axes)
    2

    ```
    """
    series = as_series(runs)
    refuse_weights(series, "Acceptance")
    chosen = [(one.label, need_run(one, RATES)) for one in series]
    prefix = {label: f"{label}: " if len(chosen) > 1 else "" for label, _ in chosen}
    names = [f"{prefix[label]}{what}" for label, _ in chosen for what in ("acceptance", "stays")]
    figure, axes = panels(names, columns=2, size=(4.2, 2.3))
    for (_, run), left, right in zip(chosen, axes[::2], axes[1::2], strict=False):
        _rate(left, run)
        _stays(right, run)
    return stamp(figure, "Acceptance and stays", series)


def thermostat(runs: Runs) -> Figure:
    r"""The thermostat $\xi$ and the kinetic energy $|p|^2/d$ of `AdSGLD` along the chains.

    In equilibrium the kinetic energy is 1 on average, and the thermostat settles at the diffusion
    plus the friction that the noise of the gradient calls for. A thermostat that goes on rising, or
    a kinetic energy away from 1, calls for a smaller step.

    **Arguments:** `runs`, a `Run` of `AdSGLD`, a list, or a mapping from label to run.

    **Returns:** a `matplotlib.figure.Figure` with two panels for each run.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem()
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.AdSGLD(0.1, diffusion=2.0), num_samples=100, progress=False)
    >>> [ax.get_title() for ax in gb.plots.thermostat(run).axes]
    ['thermostat', 'kinetic energy']

    ```
    """
    series = as_series(runs)
    chosen = [(one.label, need_run(one, ("thermostat",))) for one in series]
    prefix = {label: f"{label}: " if len(chosen) > 1 else "" for label, _ in chosen}
    names = [
        f"{prefix[label]}{what}" for label, _ in chosen for what in ("thermostat", "kinetic energy")
    ]
    figure, axes = panels(names, columns=2, size=(4.2, 2.1))
    for (_, run), left, right in zip(chosen, axes[::2], axes[1::2], strict=False):
        _lines(left, np.asarray(run.info["thermostat"], float), np.mean)
        axis_labels(left, "draw", "ξ, mean of a window")
        _lines(right, np.asarray(run.info["kinetic"], float), np.mean)
        right.axhline(1.0, color=INK, linestyle="--", linewidth=1, label="equilibrium")
        axis_labels(right, "draw", "|p|²/d, mean of a window")
    legend(figure, axes[1])
    return stamp(figure, "Thermostat", series)


def need_run(one: Series, names: tuple[str, ...]) -> Run:
    """The run of a series, if its infos have one of these names."""
    if one.run is None:
        raise ValueError(
            f"{one.label!r} is a posterior without the infos of its sampler: this plot needs a Run "
            "of genbayes."
        )
    if not any(name in one.run.info for name in names):
        raise ValueError(
            f"This plot needs {' or '.join(names)} in run.info, and {one.label!r} has "
            f"{', '.join(one.run.info) or 'nothing'} there: its sampler does not work that way."
        )
    return one.run


def _rate(ax: Axes, run: Run) -> None:
    name = next(name for name in RATES if name in run.info)
    _lines(ax, np.asarray(run.info[name], float), np.mean)
    ax.set_ylim(-0.02, 1.02)
    axis_labels(ax, "draw", "share accepted" if name == "accepted" else "acceptance rate")


def _lines(ax: Axes, values: np.ndarray, summary: Callable[[np.ndarray], np.floating]) -> None:
    for c, chain in enumerate(values):
        parts = np.array_split(chain, min(WINDOWS, chain.size))
        middle = np.cumsum([p.size for p in parts]) - np.array([p.size for p in parts]) / 2
        means = [summary(p) for p in parts]
        ax.plot(middle, means, color=COLOURS[c % len(COLOURS)], linewidth=1.1, alpha=0.9)
    ax.margins(x=0)


def stay_lengths(u: np.ndarray) -> list[np.ndarray]:
    """For each chain of `(chain, draw, p)`, how many draws in a row lie at one place."""
    found = []
    for chain in u:
        moved = np.any(chain[1:] != chain[:-1], axis=-1)
        at = np.flatnonzero(np.concatenate([[True], moved, [True]]))
        found.append(np.diff(at))
    return found


def _stays(ax: Axes, run: Run) -> None:
    stays = stay_lengths(np.asarray(run.unconstrained))
    longest = max(int(s.max()) for s in stays)
    edges = np.unique(np.geomspace(1, longest + 1, 16).round()).astype(int)
    for c, lengths in enumerate(stays):
        share = [np.sum(lengths[lengths >= e]) / lengths.sum() for e in edges]
        ax.plot(edges, share, color=COLOURS[c % len(COLOURS)], linewidth=1.4, drawstyle="steps-pre")
    ax.set_xscale("log")
    ax.set_ylim(0, 1.02)
    ax.axvline(longest, color=INK, linestyle="--", linewidth=1)
    ax.annotate(
        f"longest: {longest:,}", (longest, 0.92), xytext=(-4, 0), textcoords="offset points",
        ha="right", color=INK, fontsize=9,
    )  # fmt: skip
    axis_labels(ax, "stay of at least so many draws", "share of the draws")
