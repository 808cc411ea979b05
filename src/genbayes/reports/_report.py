"""The page of a run."""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from .. import __version__, plots
from .._table import format_cell
from ..plots import Runs, Series
from ..runs import Run
from ..targets import ScorePosterior
from . import _sections as words
from ._charts import Charts, charts, library, palette
from ._checks import Checks, with_findings
from ._checks import checks as model_checks
from ._findings import marginal_sentences
from ._formula import ABC_POSTERIOR, POSTERIOR, equation
from ._page_draws import PageDraws, page_draws, truth_of
from ._pictures import diagnostics, picture
from ._svg import distinct
from ._verdict import RHAT_LOOK, verdict

HERE = Path(__file__).parent
TEMPLATE = "_page.html.j2"
HINT = (
    "Drag over a chart, or give limits here, to see where the draws of one parameter lie in all "
    "the others."
)


def report(
    runs: Runs,
    path: str | Path,
    *,
    truth: Mapping[str, Any] | None = None,
    title: str = "Posterior",
    target: ScorePosterior | None = None,
    checks: bool | None = None,
) -> Path:
    """Write a page about a run: verdict, marginals, pairs, traces, diagnostics, what was asked.

    The page is one HTML file that loads nothing else and asks for nothing: its policy forbids the
    browser every request. Charts are interactive; words say what each one shows.

    **Arguments:**

    - `runs`: a `Run`, a list of runs to lay over each other, or a mapping from label to run. ArviZ
        objects among them are laid over the charts.
    - `path`: the file to write. `truth`: true parameters by name, marked in the charts.
    - `title`: the heading of the page.
    - `target`: the one that the runs were drawn from, for checks of the model on runs that were
        read from disk, which do not hold it.
    - `checks`: whether to simulate from the posterior to see if the model fits: where absent, if
        the simulator is at hand and is a compiled function.

    **Returns:** the path.

    ```python
    >>> import genbayes as gb, pathlib, tempfile
    >>> task = gb.tasks.normal_location()
    >>> target = gb.ScorePosterior(task.problem(), gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = gb.report(run, pathlib.Path(folder) / "report.html", checks=False)
    ...     "Do not trust" in page.read_text()
    True

    ```
    """
    by_label = plots.as_mapping(runs)
    drawn = {label: run for label, run in by_label.items() if _has_draws(run)}
    series = plots.as_series(drawn) if drawn else []
    ours = {label: run for label, run in by_label.items() if isinstance(run, Run)}
    if not ours:
        raise TypeError("A report is about runs of genbayes: expected at least one Run, got none.")
    draws = page_draws(series) if series else None
    first = [] if draws is None else [draws.coordinates[j] for j in draws.worst]
    sections = [_section(label, run, first, target, checks) for label, run in ours.items()]
    all_abc = all(run.plan.num_generations is not None for run in ours.values())
    posterior = equation(ABC_POSTERIOR if all_abc else POSTERIOR)
    about = words.cite(list(ours.values()))
    page = _fill(title, sections, about, draws, series, truth, posterior)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8", newline="\n")
    return path


def _has_draws(posterior: Any) -> bool:
    return not isinstance(posterior, Run) or (
        posterior.unconstrained.shape[1] > 0 and len(posterior.draws) > 0
    )


def _fill(
    title: str,
    sections: list[dict[str, Any]],
    about: dict[str, Any],
    draws: PageDraws | None,
    series: list[Series],
    truth: Mapping[str, Any] | None,
    posterior: Markup,
) -> str:
    script, bokeh = (HERE / "_page.js").read_text(encoding="utf-8"), library()
    chart = None if draws is None else charts(draws)
    page = _environment().get_template(TEMPLATE).render(
        title=title, version=__version__, policy=_policy(script, bokeh),
        css=Markup((HERE / "_page.css").read_text(encoding="utf-8")),
        script=Markup(script), library=Markup(bokeh), posterior=posterior,
        sections=sections, contents=_contents(sections, chart, draws), charts=chart,
        cite={"items_": about["items"], "bibtex": about["bibtex"]},
        page="There are no draws to show." if draws is None else "charts",
        **_of_draws(draws, chart, series, plots.true_values(truth)),
    )  # fmt: skip
    return distinct(page)


def _of_draws(
    draws: PageDraws | None, chart: Charts | None, series: list[Series], true: dict[str, float]
) -> dict[str, Any]:
    """What the template and the script need to know of the draws."""
    if draws is None or chart is None:
        return {"page_data": _data(None), "chart_data": _data(None), "ordered": False}
    findings = marginal_sentences(series, draws.coordinates, true)
    settings = draws.settings()
    for one, walker in zip(settings["series"], draws.walkers, strict=True):
        one["size"] = int(walker.number.size)
    settings |= {
        "slots": chart.slots, "shown": list(range(chart.slots)), "findings": findings,
        "truth": truth_of(draws.coordinates, true), "palette": palette(), "hint": HINT,
    }  # fmt: skip
    return {
        "page_data": _data(settings),
        "chart_data": _script_safe(
            f'{{"document":{chart.document},"roots":{json.dumps(chart.roots)}}}'
        ),
        "coordinates": draws.coordinates, "findings": findings, "series": settings["series"],
        "ordered": draws.ordered, "notes": _notes(draws, series),
        "still": picture(plots.marginals({s.label: s.run for s in series if s.run}), findings[0]),
    }  # fmt: skip


def _notes(draws: PageDraws, series: list[Series]) -> dict[str, str]:
    size = sum(w.number.size for w in draws.walkers)
    total = sum(next(iter(s.draws.values())).size for s in series)
    some = f"{size:,} of {total:,} draws" if size < total else f"All {total:,} draws"
    how = "" if size == total else (
        ", evenly spaced along each chain" if draws.ordered else ", chosen by their weights"
    )  # fmt: skip
    left = f" {draws.left_out:,} coordinates are left out of the charts." if draws.left_out else ""
    return {
        "marginals": "Histograms of all draws; dashed lines are true values; a brush is filled."
        + left,
        "pairs": f"{some} are shown{how}.",
        "traces": f"{some} are shown{how}. Drag to look closer.",
    }


def _section(
    label: str,
    run: Run,
    first: list[str],
    target: ScorePosterior | None,
    wanted: bool | None,
) -> dict[str, Any]:
    drawn = _has_draws(run)
    table = run.summary() if drawn else None
    lead = f"{words.sampler(run)}: no draws" if table is None else table.title
    no_draws = Checks([{"text": "There are no draws to check."}])
    found = model_checks(run, target, wanted) if drawn else no_draws
    return {
        "label": label, "lead": lead, "table": table,
        "verdict": with_findings(verdict(run), found.findings),
        "asked": words.asked(run), "formulas": words.formulas(run),
        "diagnostics": diagnostics(run, first),
        "checks": found.parts,
        "cost": words.cost(run), "provenance": words.provenance(run),
        "command": words.command(run), "call": words.call(run),
    }  # fmt: skip


def _contents(
    sections: list[dict[str, Any]], chart: Charts | None, draws: PageDraws | None
) -> list[tuple[str, str]]:
    found = [("asked", "What was asked"), ("posterior", "Posterior"), ("summary", "Summary")]
    if chart is not None and draws is not None and draws.ordered:
        found.append(("traces", "Traces"))
    if any(section["diagnostics"] for section in sections):
        found.append(("diagnostics", "How the sampler fared"))
    return [
        *found, ("checks", "Does the model fit"), ("cost", "Cost"),
        ("again", "How to draw it again"), ("cite", "How to cite"),
    ]  # fmt: skip


def _policy(*scripts: str) -> str:
    """Nothing may be asked for, and no script may run but these."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _data(value: Any) -> Markup:
    return _script_safe(json.dumps(value, separators=(",", ":")))


def _script_safe(text: str) -> Markup:
    """JSON that cannot end the element it stands in."""
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["cell"] = format_cell
    environment.tests["flagged"] = lambda name, value: name == "r-hat" and not value <= RHAT_LOOK
    return environment
