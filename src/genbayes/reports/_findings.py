"""What pictures show, in a sentence: for those who cannot see them, and for captions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._table import format_cell
from ..plots import Series

LEVELS = (0.05, 0.95)


def quantiles(x: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """The ends of the central 90 %."""
    x = x.ravel()
    if weights is None:
        low, high = np.quantile(x, LEVELS)
        return float(low), float(high)
    order = np.argsort(x)
    cumulated = np.cumsum(weights.ravel()[order])
    at = np.searchsorted(cumulated, np.asarray(LEVELS) * cumulated[-1])
    low, high = x[order][np.minimum(at, x.size - 1)]
    return float(low), float(high)


def marginal_sentences(
    series: list[Series], coordinates: list[str], true: Mapping[str, float]
) -> list[str]:
    """For each coordinate, where the draws lie and whether the true value is among them."""
    return [_marginal(series, name, true.get(name)) for name in coordinates]


def _marginal(series: list[Series], name: str, true: float | None) -> str:
    parts = []
    for one in series:
        if name not in one.draws:
            continue
        x = one.draws[name]
        low, high = quantiles(x, one.weights)
        mean = float(np.average(x, weights=one.weights))
        who = f"{one.label}: " if len(series) > 1 else ""
        text = (
            f"{who}mean {format_cell(mean)}, 90 % of the draws between {format_cell(low)} and "
            f"{format_cell(high)}"
        )
        if true is not None:
            text += (
                f"; the true value {format_cell(true)} lies "
                f"{'inside' if low <= true <= high else 'outside'}"
            )
        parts.append(text)
    return f"{name}. " + ". ".join(parts) + "."


def moves_sentence(run: Any) -> str:
    """How often steps were accepted, and the longest stay."""
    name = next(n for n in ("accepted", "acceptance_rate") if n in run.info)
    rate = float(np.mean(np.asarray(run.info[name], float)))
    return f"{rate:.0%} of the steps were accepted."


def thermostat_sentence(run: Any) -> str:
    """Where the thermostat settled and the mean kinetic energy."""
    thermostat = np.asarray(run.info["thermostat"], float)
    kinetic = float(np.mean(np.asarray(run.info["kinetic"], float)))
    half = thermostat.shape[1] // 2
    return (
        f"The thermostat is at {format_cell(float(thermostat[:, half:].mean()))} in the second "
        f"half of the draws; the kinetic energy is {format_cell(kinetic)} on average, and 1 in "
        "equilibrium."
    )
