"""`summary`, `report`, `export`, `runs`: what stored runs say."""

import os
import shlex
from pathlib import Path
from typing import Any

import genbayes as gb

from .._table import Table
from ..runs import Peek, export, find_runs, peek
from ._errors import CommandError
from ._run import as_data
from ._show import say, show, show_json


def drawn(path: Path) -> gb.Run:
    """A stored run with draws in it."""
    run = gb.load(path)
    if not run.unconstrained.shape[1]:
        raise CommandError(
            f"{path} holds no draws yet: it {_why_empty(run)}. Go on with it: "
            f"genbayes resume {shlex.quote(str(path))}"
        )
    return run


def _why_empty(run: gb.Run) -> str:
    return "was stopped in its warm-up" if run.plan.num_warmup else "was stopped at its start"


def show_summary(path: Path, *, as_json: bool) -> None:
    """The summary of a run, on standard output."""
    run = gb.load(path) if as_json else drawn(path)
    if as_json:
        show_json(as_data(run))
    else:
        show(run.summary())


def write_report(paths: list[Path], out: Path | None, title: str) -> None:
    """A page about runs."""
    if out is None:
        first = paths[0]
        out = first / "report.html" if first.is_dir() else first.with_suffix(".html")
    loaded = {label: drawn(path) for label, path in labels(paths).items()}
    page = gb.report(loaded if len(loaded) > 1 else next(iter(loaded.values())), out, title=title)
    print(page)
    say(f"Open it in a browser: {page.resolve().as_uri()}")


def labels(paths: list[Path]) -> dict[str, Path]:
    """A short name for each path, told apart by folders where names are the same."""
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise CommandError(f"The same run was given twice: {', '.join(names)}.")
    return dict(zip(names, paths, strict=True))


def write_export(path: Path, out: Path, *, infos: bool, overwrite: bool) -> None:
    """The draws of a run as a file."""
    if out.exists() and not overwrite:
        raise CommandError(f"{out} exists: give another name, or --overwrite to replace it.")
    run = drawn(path)
    written = export(run, out, infos=infos)
    chains, draws = run.unconstrained.shape[:2]
    say(f"Wrote {chains} x {draws:,} draws to {written} ({written.stat().st_size:,} bytes).")


def list_runs(folder: Path, *, as_json: bool) -> None:
    """A table of the runs in a folder."""
    if not folder.is_dir():
        raise CommandError(f"There is no folder {folder} (seen from {Path.cwd()}).")
    found = [peek(path) for path in find_runs(folder)]
    if as_json:
        show_json([_data(one) for one in found])
        return
    if not found:
        say(f"There are no runs in {folder} or below it.")
        return
    rows = [_row(one, folder) for one in found]
    columns = ("run", "state", "sampler", "draws", "of", "seconds", "warnings", "begun")
    notes = [f"! {one.path}: {one.error}" for one in found if one.error]
    again = [one for one in found if one.state in ("cut off", "interrupted", "failed")]
    if again:
        first = shlex.quote(str(again[0].path))
        notes.append(f"Those that were cut off can go on: genbayes resume {first}")
    show(Table(columns, rows, notes=notes))


def _row(one: Peek, folder: Path) -> tuple[Any, ...]:
    name = os.path.relpath(one.path, folder)
    if one.error:
        return (name, one.state, "–", "–", "–", "–", "–", "–")
    plan = one.plan
    begun = str(one.manifest["provenance"].get("started", "–")).replace("T", " ")[:16]
    return (
        name, one.state, one.sampler, f"{plan.num_chains} x {one.draws:,}", f"{plan.num_samples:,}",
        f"{one.cost.seconds:,.0f}", len(one.status.findings), begun,
    )  # fmt: skip


def _data(one: Peek) -> dict[str, Any]:
    base = {"path": str(one.path), "state": one.state, "error": one.error}
    if one.error:
        return base
    return base | {
        "sampler": one.sampler,
        "chains": one.plan.num_chains,
        "draws": one.draws,
        "num_samples": one.plan.num_samples,
        "cost": one.cost.to_dict(),
        "findings": list(one.status.findings),
        "started": one.manifest["provenance"].get("started"),
        "owner": one.owner,
    }
