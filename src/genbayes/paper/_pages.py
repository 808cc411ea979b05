"""One page for each experiment, and an index."""

import base64
import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from matplotlib.figure import Figure

from .._table import format_cell
from ._data import Data
from ._experiment import Experiment, Findings, Result, Scale

TEMPLATES = Path(__file__).parent


class Outcome(NamedTuple):
    """What the index says of an experiment."""

    experiment: Experiment
    page: Path
    verdicts: Mapping[str, int]
    failures: int
    seconds: float


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
    comparable = data.published and scale.name == "paper"
    verdicts = [c.verdict(comparable) for c in found.comparisons]
    page = out / f"{experiment.name}-{scale.name}.html"
    _write(
        page,
        "_page.html.j2",
        experiment=experiment,
        scale=scale,
        published=data.published,
        comparable=comparable,
        rows=list(zip(found.comparisons, verdicts, strict=True)),
        counts=Counter(verdicts),
        pictures=[(_encoded(p.figure), p.caption) for p in found.pictures],
        tables=found.tables,
        remarks=found.remarks,
        failures=failures,
        work_seconds=sum(float(r["seconds"]) for r in results.values() if "seconds" in r),
        simulations=sum(int(r["simulations"]) for r in results.values() if "simulations" in r),
    )
    return Outcome(experiment, page, Counter(verdicts), len(failures), seconds)


def write_index(outcomes: list[Outcome], scale: str, data: Data, out: Path) -> Path:
    """The page that points to the others."""
    page = out / "index.html"
    _write(page, "_index.html.j2", outcomes=outcomes, scale=scale, published=data.published)
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
