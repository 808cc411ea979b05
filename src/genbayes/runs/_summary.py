"""The table that a person reads first."""

from typing import TYPE_CHECKING

import numpy as np

from .._convergence import ess_bulk, ess_mean, ess_tail, rhat
from .._table import Table
from ._plan import Outcome

if TYPE_CHECKING:
    from ._run import Run

INTERVAL = 0.9
LEVELS = (1 - INTERVAL) / 2, (1 + INTERVAL) / 2
LARGEST_RHAT = 1.01
SMALLEST_ESS = 100  # for each chain


def labelled(draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each scalar coordinate by its label: `A`, or `weights[3]`."""
    coordinates = {}
    for name, x in draws.items():
        for index in np.ndindex(*x.shape[2:]):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            coordinates[label] = x[(slice(None), slice(None), *index)]
    return coordinates


def summarise(run: "Run") -> Table:
    """Mean, sd, interval, effective sample sizes and R-hat of every parameter."""
    if run.weights is not None:
        return _summarise_weighted(run, run.weights)
    low, high = LEVELS
    rows = []
    for label, x in labelled(dict(run.draws)).items():
        x = np.asarray(x, float)
        error = x.std(ddof=1) / np.sqrt(ess_mean(x)) if x.size > 1 else float("nan")
        rows.append(
            (
                label, float(x.mean()), float(x.std(ddof=1)) if x.size > 1 else float("nan"),
                float(np.quantile(x, low)), float(np.quantile(x, high)), float(error),
                ess_bulk(x), ess_tail(x), rhat(x),
            )
        )  # fmt: skip
    columns = (
        "parameter", "mean", "sd", f"{low:.0%}", f"{high:.0%}", "mc error", "ess bulk", "ess tail",
        "r-hat",
    )  # fmt: skip
    chains, draws = run.unconstrained.shape[:2]
    title = f"{_sampler(run)}: {chains} x {draws:,} draws"
    notes = [*_cost_notes(run), *_ending(run), *_warnings(rows, chains)]
    return Table(columns, rows, title, notes)


def _sampler(run: "Run") -> str:
    return run.provenance.get("sampler", "posterior").split("(")[0]


def _summarise_weighted(run: "Run", weights: np.ndarray) -> Table:
    """The same with weights; the effective sample size is theirs, one for all parameters."""
    flat = np.ravel(weights)
    ess = 1 / float(np.sum(flat**2))
    rows = []
    for label, x in labelled(dict(run.draws)).items():
        x = np.ravel(np.asarray(x, float))
        mean = float(np.average(x, weights=flat))
        sd = float(np.sqrt(np.average((x - mean) ** 2, weights=flat)))
        ends = (weighted_quantile(x, flat, level) for level in LEVELS)
        rows.append((label, mean, sd, *ends, sd / np.sqrt(ess), ess))
    low, high = LEVELS
    columns = ("parameter", "mean", "sd", f"{low:.0%}", f"{high:.0%}", "mc error", "ess")
    chains, draws = run.unconstrained.shape[:2]
    notes = [*_cost_notes(run), *_ending(run)]
    if not ess >= SMALLEST_ESS * chains:
        notes.append(f"! The weights leave {ess:.0f} effective draws. Use more particles.")
    return Table(columns, rows, f"{_sampler(run)}: {chains} x {draws:,} weighted draws", notes)


def weighted_quantile(x: np.ndarray, weights: np.ndarray, level: float) -> float:
    """The least draw at which the weights add up to that share.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([0.1, 0.5, 0.4]), 0.6)
    2.0
    """
    order = np.argsort(x)
    heights = np.cumsum(weights[order])
    return float(x[order[min(np.searchsorted(heights, level * heights[-1]), x.size - 1)]])


def _cost_notes(run: "Run") -> list[str]:
    cost = run.cost
    return [
        *run.status.remarks,
        f"{cost.simulator_calls:,} simulator calls in {cost.seconds:.1f} s "
        f"(of which {cost.compile_seconds:.1f} s compiling)",
    ]


def _ending(run: "Run") -> list[str]:
    status = run.status
    said = [] if status.outcome is Outcome.COMPLETE else [status.outcome.value]
    return [*said, *(f"! {f}" for f in status.findings)]


def _warnings(rows: list[tuple], chains: int) -> list[str]:
    warnings = []
    # not (x <= limit), so that a value that could not be computed is reported too
    worst = [r[0] for r in rows if not r[8] <= LARGEST_RHAT]
    if worst:
        warnings.append(
            f"! R-hat above {LARGEST_RHAT}: {_listed(worst)}. Draw more, or run more chains."
        )
    few = [r[0] for r in rows if not min(r[6], r[7]) >= SMALLEST_ESS * chains]
    if few:
        warnings.append(
            f"! Effective sample size under {SMALLEST_ESS} a chain: {_listed(few)}. Draw more."
        )
    return warnings


def _listed(names: list[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
