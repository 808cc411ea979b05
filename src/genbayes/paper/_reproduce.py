"""`reproduce`: compute what is missing, cell by cell, and write the pages."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jax.numpy as jnp

from .._checks import check_choice, check_count
from . import _kept
from ._data import Data
from ._experiment import SCALES, Cell, Experiment
from ._experiments import EXPERIMENTS
from ._outcome import Outcome, Reproduction, read_outcome, write_numbers, write_outcome
from ._pages import write_index, write_page
from ._work import Job, Task, run_all

SPEED_SECONDS = 1200.0  # over which the time left is judged: cells take minutes


def reproduce(
    names: str | Sequence[str] = "all",
    *,
    out: str | Path,
    scale: str = "smoke",
    observations: str | Path | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: bool = True,
) -> Reproduction:
    """Run experiments of the paper and lay the results beside the published numbers.

    What was computed before is kept: a run that was stopped goes on where it was.

    **Arguments:**

    - `names`: names of experiments, or `"all"`.
    - `out`: the folder for results and pages. `scale`: `"smoke"` (a glance) or `"paper"` (in full).
    - `observations`: an `.npz` file of the published data; absent, data of the same kind are
        generated, and then numbers are shown but not compared.
    - `jobs`: processes to work in, over the cells of all experiments; `executor`: any
        `concurrent.futures.Executor` in their place.
    - `progress`: draw a bar on standard error.

    **Returns:** a `Reproduction`: the path of the `index` page, and a `table()` of verdicts. The
    index, and `numbers.md` with every published number beside ours, tell of all experiments that
    were ever computed in that folder at that scale.

    ```python
    >>> from genbayes.paper import EXPERIMENTS
    >>> "effect_of_m" in EXPERIMENTS
    True

    ```
    """
    check_choice("scale", scale, tuple(SCALES))
    check_count("jobs", jobs)
    began, data = time.perf_counter(), Data(observations)
    parts = {e.name: _part(e, scale, data, Path(out)) for e in _chosen(names)}
    done: dict[str, Outcome] = {}

    def finish(part: _Part) -> None:
        done[part.experiment.name] = _write(part, scale, data, Path(out), began)

    for part in parts.values():
        if not part.missing:
            finish(part)
    missing = [job for part in parts.values() for job in part.missing.values()]
    with _bar(list(parts.values()), progress) as tick:
        for job, error in run_all(missing, jobs, executor):
            part = parts[job.task.experiment]
            part.end(job, error)
            tick(job.cell)
            if not part.missing:
                finish(part)
    index = write_index(_told(scale, Path(out)), scale, Path(out))
    return Reproduction(index, tuple(done[name] for name in parts))


@dataclass
class _Part:
    """An experiment of a call, and what is still to be done for it."""

    experiment: Experiment
    cells: list[Cell]
    folder: Path
    fingerprint: str
    missing: dict[str, Job]
    failures: dict[str, str] = field(default_factory=dict)

    def end(self, job: Job, error: Exception | None) -> None:
        """A job has ended, well or not."""
        del self.missing[job.cell.name]
        if error is not None:
            self.failures[job.cell.name] = f"{type(error).__name__}: {error}"


def _part(experiment: Experiment, scale: str, data: Data, out: Path) -> _Part:
    cells = experiment.cells(SCALES[scale], data)
    folder, fingerprint = out / experiment.name / scale, _fingerprint(experiment, data)
    path = None if data.path is None else str(data.path.resolve())
    double = jnp.zeros(()).dtype == jnp.float64
    missing = {
        c.name: Job(
            c, Task(experiment.name, c.name, scale, path, str(folder), fingerprint, bool(double))
        )
        for c in cells
        if _kept.read(folder, c.name, fingerprint) is None
    }
    return _Part(experiment, cells, folder, fingerprint, missing)


def _write(part: _Part, scale: str, data: Data, out: Path, began: float) -> Outcome:
    """The page of an experiment, and the index and the table of all there are by now."""
    kept = {c.name: _kept.read(part.folder, c.name, part.fingerprint) for c in part.cells}
    results = {name: result for name, result in kept.items() if result is not None}
    seconds = time.perf_counter() - began
    outcome = write_page(part.experiment, SCALES[scale], data, results, part.failures, seconds, out)
    write_outcome(outcome, out)
    told = _told(scale, out)
    write_numbers(told, out)
    write_index(told, scale, out)
    return outcome


def _told(scale: str, out: Path) -> list[Outcome]:
    """Of all experiments that were ever computed in that folder."""
    told = [read_outcome(name, scale, out) for name in EXPERIMENTS]
    return [outcome for outcome in told if outcome is not None]


def _chosen(names: str | Sequence[str]) -> list[Experiment]:
    if isinstance(names, str):
        names = list(EXPERIMENTS) if names == "all" else [names]
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown or not names:
        raise ValueError(
            f"There is no experiment {', '.join(map(repr, unknown)) or 'to run'}: expected 'all' "
            f"or some of {', '.join(EXPERIMENTS)}."
        )
    return [EXPERIMENTS[name] for name in names]


def _fingerprint(experiment: Experiment, data: Data) -> str:
    """Of everything that a kept result depends on besides its name."""
    said = repr((sorted(experiment.settings.items()), data.fingerprint()))
    return hashlib.sha256(said.encode()).hexdigest()[:16] + f"-{jnp.zeros(()).dtype}"


@contextmanager
def _bar(parts: Sequence[_Part], shown: bool) -> Iterator[Callable[[Cell], None]]:
    """A bar over the cells' loads, with the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    cells = [cell for part in parts for cell in part.cells]
    missing = [job.cell for part in parts for job in part.missing.values()]
    total = sum(cell.load for cell in cells)
    done, finished = total - sum(cell.load for cell in missing), len(cells) - len(missing)
    bar = Progress(
        TextColumn("{task.description:22}"), BarColumn(bar_width=24),
        TextColumn("{task.fields[finished]} of " + f"{len(cells)} cells"), TimeRemainingColumn(),
        console=Console(stderr=True), disable=not shown, speed_estimate_period=SPEED_SECONDS,
    )  # fmt: skip
    name = parts[0].experiment.name if len(parts) == 1 else f"{len(parts)} experiments"
    with bar:
        task = bar.add_task(name, total=total, finished=finished)
        bar.update(task, completed=done)

        def tick(cell: Cell) -> None:
            nonlocal finished
            finished += 1
            bar.update(task, advance=cell.load, finished=finished)

        yield tick
