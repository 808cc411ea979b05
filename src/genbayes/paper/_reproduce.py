"""`reproduce`: compute what is missing, cell by cell, and write the pages."""

import hashlib
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._checks import check_choice, check_count
from . import _kept
from ._data import Data
from ._experiment import SCALES, Cell, Experiment, Result
from ._experiments import EXPERIMENTS
from ._outcome import Outcome, Reproduction, read_outcome, write_numbers, write_outcome
from ._pages import write_index, write_page


class Task(NamedTuple):
    """A cell by name, as it is handed to another process."""

    experiment: str
    cell: str
    scale: str
    observations: str | None
    folder: str
    double: bool


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
    - `jobs`: processes to work in; `executor`: any `concurrent.futures.Executor` in their place.
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
    chosen = _chosen(names)
    out, data = Path(out), Data(observations)
    done: list[Outcome] = []
    with _workers(jobs, executor) as pool:
        for experiment in chosen:
            began = time.perf_counter()
            results, failures = _compute(experiment, scale, data, out, pool, progress)
            seconds = time.perf_counter() - began
            outcome = write_page(experiment, SCALES[scale], data, results, failures, seconds, out)
            write_outcome(outcome, out)
            done.append(outcome)
    told = [read_outcome(name, scale, out) for name in EXPERIMENTS]
    outcomes = [outcome for outcome in told if outcome is not None]
    write_numbers(outcomes, out)
    return Reproduction(write_index(outcomes, scale, out), tuple(done))


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


@contextmanager
def _workers(jobs: int, executor: Executor | None) -> Iterator[Executor | None]:
    if executor is not None or jobs == 1:
        yield executor
        return
    spawn = multiprocessing.get_context("spawn")  # forking a process that has used JAX can hang
    with ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _compute(
    experiment: Experiment,
    scale: str,
    data: Data,
    out: Path,
    pool: Executor | None,
    progress: bool,
) -> tuple[dict[str, Result], dict[str, str]]:
    """Results of all cells by name, and messages of those that failed."""
    cells = experiment.cells(SCALES[scale], data)
    folder, fingerprint = out / experiment.name / scale, _fingerprint(experiment, data)
    missing = [c for c in cells if _kept.read(folder, c.name, fingerprint) is None]
    failures: dict[str, str] = {}
    path = None if data.path is None else str(data.path.resolve())
    double = jnp.zeros(()).dtype == jnp.float64
    with _bar(experiment, cells, missing, progress) as tick:
        work = {
            c: Task(experiment.name, c.name, scale, path, str(folder), bool(double))
            for c in missing
        }
        for cell, error in _done(work, pool):
            if error is not None:
                failures[cell.name] = f"{type(error).__name__}: {error}"
            tick(cell)
    results = {c.name: _kept.read(folder, c.name, fingerprint) for c in cells}
    return {name: r for name, r in results.items() if r is not None}, failures


def _done(work: dict[Cell, Task], pool: Executor | None) -> Iterator[tuple[Cell, Exception | None]]:
    """Cells as they are finished, with the error of those that failed."""
    if pool is None:
        for cell, task in work.items():
            try:
                run_task(task)
                yield cell, None
            except Exception as error:  # the other cells are still wanted
                yield cell, error
        return
    # the longest first, so that the last ones to finish are short
    order = sorted(work, key=lambda cell: -cell.load)
    futures: dict[Future, Cell] = {pool.submit(run_task, work[cell]): cell for cell in order}
    for future in as_completed(futures):
        error = future.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
        yield futures[future], error


def run_task(task: Task) -> None:
    """Compute one cell and keep it; any process can do it, knowing names alone."""
    with jax.enable_x64(task.double):
        experiment, data = EXPERIMENTS[task.experiment], Data(task.observations)
        cells = {cell.name: cell for cell in experiment.cells(SCALES[task.scale], data)}
        result = cells[task.cell].work()
        _kept.write(Path(task.folder), task.cell, _fingerprint(experiment, data), result)


def _fingerprint(experiment: Experiment, data: Data) -> str:
    """Of everything that a kept result depends on besides its name."""
    said = repr((sorted(experiment.settings.items()), data.fingerprint()))
    return hashlib.sha256(said.encode()).hexdigest()[:16] + f"-{jnp.zeros(()).dtype}"


@contextmanager
def _bar(experiment: Experiment, cells: list[Cell], missing: list[Cell], shown: bool) -> Iterator:
    """A bar over the cells' loads, with the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    total = sum(cell.load for cell in cells)
    done = total - sum(cell.load for cell in missing)
    bar = Progress(
        TextColumn(f"{experiment.name:22}"), BarColumn(bar_width=24),
        TextColumn("{task.fields[finished]} of " + f"{len(cells)} cells"), TimeRemainingColumn(),
        console=Console(stderr=True), disable=not shown,
    )  # fmt: skip
    finished = len(cells) - len(missing)
    with bar:
        task = bar.add_task("", total=total, finished=finished)
        bar.advance(task, done)

        def tick(cell: Cell) -> None:
            nonlocal finished
            finished += 1
            bar.update(task, advance=cell.load, finished=finished)

        yield tick
