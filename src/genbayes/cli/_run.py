"""`run` and `resume`: a file's target, drawn from, kept, and told about."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import genbayes as gb

from ..runs import Outcome, RunStore
from ..samplers import AbstractABC
from ._dask import on_dask
from ._errors import BAD_END, DONE, INTERRUPTED, CommandError
from ._precision import set_precision
from ._samplers import make_sampler
from ._show import say, show, show_json
from ._target_file import Loaded, file_hash, load_target

OF_CHAINS: dict[str, Any] = {"num_samples": 1000, "num_warmup": 500, "num_chains": 4}
OF_POPULATIONS: dict[str, Any] = {}  # the sampler says how many particles and generations
STATUS = {Outcome.DIVERGED: BAD_END, Outcome.FAILURES: BAD_END, Outcome.INTERRUPTED: INTERRUPTED}


@dataclass(frozen=True)
class Request:
    """What `run` was asked for."""

    sampler: str
    settings: tuple[str, ...]
    tune: bool
    options: dict[str, Any]  # of `sample`
    precision: int | None
    out: Path | None
    dask: str | None = None


def run_file(file: str, request: Request, *, quiet: bool, as_json: bool) -> int:
    """Draw from the target of a file; give the exit status."""
    if request.out is not None and (request.out / "manifest.json").exists():
        out = shlex.quote(str(request.out))
        raise CommandError(
            f"{request.out} already holds a run: go on with it,  genbayes resume {out}, or give "
            "another folder as --out."
        )
    if request.precision is not None:
        set_precision(request.precision)
    sampler = make_sampler(request.sampler, request.settings, tune=request.tune)
    loaded = load_target(file)
    out = request.out
    if out is None:
        out = free_folder(Path("runs") / _name(loaded.file))
    usual = OF_POPULATIONS if isinstance(sampler, AbstractABC) else OF_CHAINS
    given = {name: value for name, value in request.options.items() if value is not None}
    with on_dask(loaded.target, request.dask) as target:
        run = gb.sample(
            target, sampler, store=out, progress=not quiet, notes=loaded.notes(),
            **usual | given,
        )  # fmt: skip
    return tell(run, quiet=quiet, as_json=as_json)


def _name(file: Path) -> str:
    """What a run of a file is called: `model.py` in a folder, as `new` writes it, by the folder."""
    elsewhere = file.name == "model.py" and file.parent != Path.cwd()
    return file.parent.name if elsewhere else file.stem


def free_folder(wanted: Path) -> Path:
    """That folder, or the first of it-2, it-3, ... that is not taken."""
    path, number = wanted, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path


def tell(run: gb.Run, *, quiet: bool, as_json: bool) -> int:
    """What there is to say of a run that has just ended; its exit status."""
    if as_json:
        show_json(as_data(run))
    elif not quiet:
        if run.unconstrained.shape[1]:
            show(run.summary())
        say(f"Kept in {run.path}. A page about it: genbayes report {shlex.quote(str(run.path))}")
    return STATUS.get(run.status.outcome, DONE)


def as_data(run: gb.Run) -> dict[str, Any]:
    """A run as plain data: what the summary says, and how to find the run."""
    drawn = run.unconstrained.shape[1] > 0
    return {
        "path": str(run.path),
        "outcome": run.status.outcome.name,
        "ok": run.status.ok,
        "findings": list(run.status.findings),
        "remarks": list(run.status.remarks),
        "sampler": run.provenance.get("sampler"),
        "seed": run.provenance.get("seed"),
        "chains": run.unconstrained.shape[0],
        "draws": run.unconstrained.shape[1],
        "cost": run.cost.to_dict(),
        "summary": run.summary().to_dicts() if drawn else [],
    }


def resume_path(
    path: Path,
    file: str | None,
    options: dict[str, Any],
    *,
    dask: str | None = None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Go on with a stored run; give the exit status."""
    about = RunStore.open(path).manifest.get("provenance", {})
    bits = about.get("precision")
    if bits in (32, 64):
        set_precision(bits)
    loaded = _find_target(path, about.get("notes", {}), file)
    if not quiet:
        _say_if_changed(loaded, about.get("notes", {}))
    try:
        with on_dask(loaded.target, dask) as target:
            run = gb.resume(path, target, progress=not quiet, **options)
    except ValueError as error:
        if "allow_changes=True" in str(error):
            raise CommandError(
                str(error).replace("say allow_changes=True", "give --allow-changes")
            ) from error
        raise
    return tell(run, quiet=quiet, as_json=as_json)


def _find_target(path: Path, notes: dict[str, Any], file: str | None) -> Loaded:
    if file is not None:
        return load_target(file)
    if "file" not in notes:
        raise CommandError(
            f"{path} was not begun by  genbayes run, so its target is not known: say where it is "
            "defined, with --file FILE.py[:NAME]."
        )
    if not Path(notes["file"]).is_file():
        raise CommandError(
            f"{path} was begun with {notes['file']}, which is not there any more: say where it is "
            "now, with --file FILE.py[:NAME]."
        )
    return load_target(f"{notes['file']}:{notes['target']}")


def _say_if_changed(loaded: Loaded, notes: dict[str, Any]) -> None:
    if "file_hash" in notes and notes["file_hash"] != file_hash(loaded.file):
        say(f"Note: {loaded.file} has changed since the run began.")
