"""The part of the draws that travels with the page, so that it stays small."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._convergence import rhat
from .._figure import COLOURS
from ..plots import Series

MOST_DRAWS = 3000  # over all chains and runs: what a picture of points can show
MOST_COORDINATES = 150
MOST_CHAIN_COLOURS = len(COLOURS)
BINS = 40


@dataclass(frozen=True)
class Walker:
    """One chain of one run: its label, and its draws that are shown, `(draw,)` by coordinate."""

    label: str
    run: str
    number: np.ndarray
    draws: dict[str, np.ndarray]


@dataclass(frozen=True)
class PageDraws:
    """Thinned draws for points and lines, and exact histograms of all draws.

    `edges` are `(coordinate, 2)`, `mass` is `(walker, coordinate, bin)` and sums to one over all
    draws of a run.
    """

    walkers: list[Walker]
    coordinates: list[str]
    edges: np.ndarray
    mass: np.ndarray
    worst: list[int]
    left_out: int
    ordered: bool

    def column(self, name: str) -> np.ndarray:
        """A coordinate of all draws that are shown; NaN where a run does not have it."""
        return np.concatenate(
            [w.draws.get(name, np.full(w.number.size, np.nan)) for w in self.walkers]
        ).astype(np.float32)

    def settings(self) -> dict[str, Any]:
        """What the page's script needs to know, as plain data."""
        several = len({w.run for w in self.walkers}) > 1
        chains = [{"label": w.label, "series": [j]} for j, w in enumerate(self.walkers)]
        runs: dict[str, list[int]] = {}
        for j, walker in enumerate(self.walkers):
            runs.setdefault(walker.run, []).append(j)
        pooled = [{"label": name, "series": series} for name, series in runs.items()]
        lines = pooled if several or len(chains) > MOST_CHAIN_COLOURS else chains
        return {
            "coordinates": self.coordinates,
            "edges": [[float(a), float(b)] for a, b in self.edges],
            "bins": BINS,
            "mass": base64.b64encode(self.mass.astype("<f4").tobytes()).decode(),
            "worst": self.worst,
            "series": [{"label": w.label, "run": w.run} for w in self.walkers],
            "fills": _coloured(pooled, None if several else "ink"),
            "lines": _coloured(lines, None),
            "ordered": self.ordered,
        }


def _coloured(groups: list[dict[str, Any]], one: str | None) -> list[dict[str, Any]]:
    return [g | {"colour": one or COLOURS[j % len(COLOURS)]} for j, g in enumerate(groups)]


def page_draws(series: list[Series]) -> PageDraws:
    """Thin the draws of all posteriors: evenly along a chain, or by weight where there are any."""
    names = list(dict.fromkeys(name for one in series for name in one.draws))
    worst = _worst(series, names)
    shown = names
    if len(names) > MOST_COORDINATES:  # those that disagree most must be among them
        kept = {names[j] for j in worst[: MOST_COORDINATES // 2]}
        others = [name for name in names if name not in kept]
        kept |= set(others[: MOST_COORDINATES - len(kept)])
        shown = [name for name in names if name in kept]
    most, alone = MOST_DRAWS // len(series), len(series) == 1
    walkers = [w for one in series for w in _walkers(one, most, shown, alone)]
    edges = np.array([_edges(series, name) for name in shown])
    place = {name: j for j, name in enumerate(shown)}
    return PageDraws(
        walkers, shown, edges, _mass(series, shown, edges),
        [place[names[j]] for j in worst if names[j] in place], len(names) - len(shown),
        all(one.weights is None for one in series),
    )  # fmt: skip


def _worst(series: list[Series], names: list[str]) -> list[int]:
    """Coordinates by how little the chains agree, least first."""
    largest = np.zeros(len(names))
    for one in series:
        if one.weights is None:
            for j, name in enumerate(names):
                value = rhat(one.draws[name]) if name in one.draws else 0.0
                largest[j] = max(largest[j], np.inf if np.isnan(value) else value)
    return [int(j) for j in np.argsort(-largest, kind="stable")]


def _walkers(one: Series, most: int, names: list[str], alone: bool) -> list[Walker]:
    present = [name for name in names if name in one.draws]
    chains, draws = next(iter(one.draws.values())).shape
    found = []
    for c, picked in enumerate(_picked(one, chains, draws, most)):
        chain = f"chain {c + 1}" if alone else f"{one.label}, chain {c + 1}"
        label = one.label if chains == 1 else chain
        thinned = {name: one.draws[name][c, picked] for name in present}
        found.append(Walker(label, one.label, picked, thinned))
    return found


def _picked(one: Series, chains: int, draws: int, most: int) -> list[np.ndarray]:
    """The numbers of the draws that are shown, of each chain."""
    if one.weights is None:
        step = max(1, -(-draws * chains // most))
        return [np.arange(0, draws, step)] * chains
    # systematic resampling: each particle is shown about as often as it weighs
    cumulated = np.cumsum(one.weights.ravel())
    size = min(most, one.weights.size)
    at = np.searchsorted(cumulated, (np.arange(size) + 0.5) / size * cumulated[-1])
    return [at[at // draws == c] % draws for c in range(chains)]


def _edges(series: list[Series], name: str) -> tuple[float, float]:
    x = np.concatenate([one.draws[name].ravel() for one in series if name in one.draws])
    x = x[np.isfinite(x)]
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    if high - low <= 1e-6 * max(abs(low), abs(high)):  # float32 cannot tell them apart
        gap = max(0.5, 1e-3 * abs(low))
        low, high = low - gap, high + gap
    return low, high


def _mass(series: list[Series], names: list[str], edges: np.ndarray) -> np.ndarray:
    rows = []
    for one in series:
        chains, draws = next(iter(one.draws.values())).shape
        weights = np.full((chains, draws), 1 / (chains * draws))
        weights = weights if one.weights is None else one.weights
        for c in range(chains):
            row = np.zeros((len(names), BINS))
            for j, name in enumerate(names):
                if name in one.draws:
                    row[j], _ = np.histogram(
                        one.draws[name][c], BINS, tuple(edges[j]), weights=weights[c]
                    )
            rows.append(row)
    return np.array(rows)


def truth_of(coordinates: list[str], true: Mapping[str, float]) -> list[float | None]:
    """The true value of each coordinate, where it is known."""
    return [true.get(name) for name in coordinates]
