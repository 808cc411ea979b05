"""The page of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from matplotlib.figure import Figure

from .. import plots
from .._table import format_cell
from ..plots import Runs
from ..runs import Run
from ._svg import inline_svg

TEMPLATE = "_page.html.j2"


def report(
    runs: Runs,
    path: str | Path,
    *,
    truth: Mapping[str, Any] | None = None,
    title: str = "Posterior",
) -> Path:
    """Write a page about a run: marginals, traces, summary, what was asked, how it went.

    The page is one HTML file that loads nothing else.

    **Arguments:**

    - `runs`: a `Run`, a list of runs to lay over each other, or a mapping from label to run.
    - `path`: the file to write. `truth`: true parameters by name, marked in the marginals.
    - `title`: the heading of the page.

    **Returns:** the path.

    ```python
    >>> import genbayes as gb, pathlib, tempfile
    >>> task = gb.tasks.normal_location()
    >>> target = gb.ScorePosterior(task.problem(), gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = gb.report(run, pathlib.Path(folder) / "report.html", truth=task.truth)
    ...     "<svg" in page.read_text()
    True

    ```
    """
    by_label = plots.as_mapping(runs)
    page = (
        _environment()
        .get_template(TEMPLATE)
        .render(
            title=title,
            marginals=_marginals(by_label, truth),
            sections=[_section(label, run) for label, run in by_label.items()],
        )
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = format_cell
    return environment


def _marginals(runs: dict[str, Any], truth: Mapping[str, Any] | None) -> dict[str, Any]:
    names, drawn_by = ", ".join(next(iter(runs.values())).draws), " and ".join(runs)
    marked = ", with the true values marked" if truth else ""
    caption = f"Histograms of the draws of {names} by {drawn_by}{marked}."
    return _figure(plots.marginals(runs, truth=truth), caption)


def _traces(label: str, run: Run) -> dict[str, Any]:
    names = ", ".join(run.draws)
    caption = f"Draws of {names} by {label} in the order in which they were made."
    return _figure(plots.traces(run), caption)


def _figure(figure: Figure, caption: str) -> dict[str, Any]:
    return {"svg": inline_svg(figure, plots.INK, caption), "caption": caption}


def _section(label: str, run: Any) -> dict[str, Any]:
    table = run.summary()
    notes = [note for note in table.notes if not note.startswith("!")]
    return {
        "label": label,
        "table": table,
        "traces": _traces(label, run),
        "notes": [run.status.outcome.value, *notes],
        "warnings": [note.removeprefix("!").strip() for note in table.notes if note[:1] == "!"],
        "asked": _asked(run),
        "provenance": _provenance(run),
    }


def _asked(run: Run) -> dict[str, Any]:
    """What the run was asked to do, in the order in which one would ask."""
    about, plan = run.provenance.get("target", {}), run.plan
    prior = about.get("prior", {})
    shape = about.get("observations_shape") or list(run.observations.shape)
    return {
        "prior": [f"{name} ~ {law}" for name, law in prior.items()] or "not recorded",
        "simulator": about.get("simulator_function", "not recorded"),
        "observations": f"{shape[0]} of shape {tuple(shape[1:])}" if len(shape) > 1 else shape[0],
        "score": about.get("score", "not recorded"),
        "weight": about.get("weight", "not recorded"),
        "simulations per estimate": about.get("num_simulations", "not recorded"),
        "sampler": run.provenance.get("sampler", "not recorded"),
        "draws": f"{plan.num_chains} x {plan.num_samples:,}, after a warm-up of {plan.num_warmup:,}"
        + (f", one in {plan.thinning} kept" if plan.thinning > 1 else ""),
        "seed": run.provenance.get("seed", "not recorded"),
    }


def _provenance(run: Run) -> dict[str, Any]:
    known, about = run.provenance, run.provenance.get("target", {})
    return {
        "begun": known.get("started", "not recorded"),
        "command": " ".join(map(str, known.get("command", []))) or "not recorded",
        "precision": f"{known.get('precision', '?')} bits",
        "machine": [f"{name}: {value}" for name, value in known.get("machine", {}).items()],
        "versions": [f"{name} {value}" for name, value in known.get("versions", {}).items()],
        "hash of the simulator": about.get("simulator_hash", "not recorded"),
        "hash of the observations": about.get("observations_hash", "not recorded"),
        "stored in": "memory only" if run.path is None else str(run.path),
    }
