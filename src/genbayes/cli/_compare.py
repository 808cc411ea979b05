"""Two runs side by side: whether they agree, as far as their Monte Carlo errors can tell."""

import math
from pathlib import Path
from typing import Any

import numpy as np

import genbayes as gb

from .._table import Table
from ._errors import CommandError
from ._read import drawn, labels
from ._show import say, show, show_json

FAR = 3.0  # standard errors


def compare_runs(left: Path, right: Path, picture: Path | None, *, as_json: bool) -> None:
    """A table of two runs, and their marginals over each other."""
    loaded = {label: drawn(path) for label, path in labels([left, right]).items()}
    table = comparison(loaded)
    if as_json:
        show_json({"runs": [str(left), str(right)], "parameters": table.to_dicts(),
                   "notes": table.notes})  # fmt: skip
    else:
        show(table)
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        gb.plots.marginals(loaded).savefig(picture, dpi=150)
        say(f"Their marginals over each other: {picture}")


def comparison(runs: dict[str, gb.Run]) -> Table:
    """Means and sds of the coordinates that two runs share, and how far apart they are.

    The distance of the means is in standard errors of their difference, and in posterior sds.
    """
    (first, a), (second, b) = runs.items()
    stats = [_statistics(run) for run in (a, b)]
    shared = [name for name in stats[0] if name in stats[1]]
    if not shared:
        raise CommandError(
            f"{first} and {second} have no parameter in common: {', '.join(stats[0])} there, "
            f"{', '.join(stats[1])} here."
        )
    rows: list[tuple[Any, ...]] = [(name, *_row(stats[0][name], stats[1][name])) for name in shared]
    columns = (
        "parameter", "mean 1", "mean 2", "difference", "in errors", "in sds", "sd 1", "sd 2",
        "sd ratio", "ess/s 1", "ess/s 2",
    )  # fmt: skip
    notes = [f"1 is {first}, {_told(a)}; 2 is {second}, {_told(b)}.", *_differences(a, b)]
    far = [r[0] for r in rows if not abs(r[4]) <= FAR]
    if far:
        notes.append(
            f"! The means of {', '.join(far)} lie more than {FAR:g} standard errors apart: the "
            "runs have different targets or biases, or have not converged."
        )
    return Table(columns, rows, "Two runs", notes)


def _statistics(run: gb.Run) -> dict[str, tuple[float, float, float, float]]:
    """Mean, sd, Monte Carlo error of the mean, and effective draws a second, by coordinate."""
    seconds = max(run.cost.seconds - run.cost.compile_seconds, 1e-9)
    return {
        row["parameter"]: (row["mean"], row["sd"], row["mc error"], _effective(row) / seconds)
        for row in run.summary().to_dicts()
    }


def _effective(row: dict[str, Any]) -> float:
    return row["ess"] if "ess" in row else row["ess bulk"]


def _row(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    difference = b[0] - a[0]
    error = math.hypot(a[2], b[2])
    spread = math.sqrt((a[1] ** 2 + b[1] ** 2) / 2)
    return (
        a[0], b[0], difference, _ratio(difference, error), _ratio(difference, spread),
        a[1], b[1], _ratio(b[1], a[1]), a[3], b[3],
    )  # fmt: skip


def _ratio(x: float, y: float) -> float:
    return x / y if y else (0.0 if x == 0 else math.copysign(math.inf, x))


def _told(run: gb.Run) -> str:
    chains, draws = run.unconstrained.shape[:2]
    return f"{run.provenance.get('sampler', '?').split('(')[0]} with {chains} x {draws:,} draws"


def _differences(a: gb.Run, b: gb.Run) -> list[str]:
    """In what the two runs were asked for different things."""
    left, right = (_asked(run) for run in (a, b))
    changed = [k for k in left if left[k] != right.get(k)]
    same_data = np.array_equal(a.observations, b.observations)
    said = [f"{k}: {left[k]} | {right.get(k)}" for k in changed]
    return [*said, *([] if same_data else ["! The observations of the two differ."])]


def _asked(run: gb.Run) -> dict[str, Any]:
    about = run.provenance.get("target", {})
    return {
        "sampler": run.provenance.get("sampler"),
        "seed": run.provenance.get("seed"),
        "warm-up": run.plan.num_warmup,
        **{k: about.get(k) for k in ("prior", "score", "weight", "num_simulations", "batch_size")},
        "simulator": about.get("simulator_hash"),
        "precision": run.provenance.get("precision"),
    }
