"""One page for each experiment, and an index."""

import base64
import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from matplotlib.figure import Figure

from .._table import format_cell
from ._data import Data
from ._experiment import Comparison, Experiment, Findings, Result, Scale
from ._outcome import Number, Outcome

TEMPLATES = Path(__file__).parent


def write_page(
    experiment: Experiment,
    scale: Scale,
    data: Data,
    results: Mapping[str, Result],
    failures: Mapping[str, str],
    seconds: float,
    out: Path,
) -> Outcome:
    """The page of an experiment: pictures, numbers beside the published ones, verdicts."""
    whole = not failures
    found = experiment.findings(results, scale, data) if whole else Findings([])
    published = data.holds(experiment.observations)
    comparable = published and scale.name == "paper"
    verdicts = [c.verdict(_comparable(c, comparable, scale, data)) for c in found.comparisons]
    work = sum(float(r["seconds"]) for r in results.values() if "seconds" in r)
    page = out / f"{experiment.name}-{scale.name}.html"
    _write(
        page,
        "_page.html.j2",
        experiment=experiment,
        scale=scale,
        published=published,
        comparable=comparable,
        rows=list(zip(found.comparisons, verdicts, strict=True)),
        counts=Counter(verdicts),
        pictures=[(_encoded(p.figure), p.caption) for p in found.pictures],
        tables=found.tables,
        remarks=found.remarks,
        failures=failures,
        work_seconds=work,
        simulations=sum(int(r["simulations"]) for r in results.values() if "simulations" in r),
    )
    numbers = [
        Number(c.what, c.published, c.ours, c.error, c.distance, verdict, c.bound, c.note)
        for c, verdict in zip(found.comparisons, verdicts, strict=True)
    ]
    return Outcome(
        experiment.name, experiment.title, scale.name, page.name, published, len(failures),
        seconds, work, numbers,
    )  # fmt: skip


def _comparable(comparison: Comparison, experiment: bool, scale: Scale, data: Data) -> bool:
    if comparison.data is None:
        return experiment
    return scale.name == "paper" and (not comparison.data or data.holds(comparison.data))


def write_index(outcomes: list[Outcome], scale: str, out: Path) -> Path:
    """The page that points to the others."""
    page = out / "index.html"
    _write(page, "_index.html.j2", outcomes=outcomes, scale=scale)
    return page


def _write(page: Path, template: str, **values: Any) -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["cell"] = format_cell
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(environment.get_template(template).render(**values), encoding="utf-8")


def _encoded(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.patch.set_alpha(1)
    figure.savefig(buffer, format="png", dpi=110)
    return base64.b64encode(buffer.getvalue()).decode()
