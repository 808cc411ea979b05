"""Many runs at once: chains, data sets, cells of a study."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import jax

from .._workers import Crew, Lost, WorkerLost, end_with_parent, portable
from ._fingerprint import fingerprint
from ._run import Run
from ._stored import load

TRIES = 3  # of a run whose worker was lost
LOOK_SECONDS = 1.0


def map_runs(
    make_run: Callable[[Any], Run],
    items: Iterable[Any],
    *,
    executor: Any = None,
    keep: str | Path | None = None,
) -> list[Run]:
    """Draw one run for each item, over an executor: the runs, in the order of the items.

    **Arguments:**

    - `make_run`: a function of one item (a seed, a data set, a cell of a study) that gives a
        `Run`, most often by `sample(..., progress=False)`.
    - `items`: what it is called with.
    - `executor`: any `concurrent.futures.Executor`; absent, one after the other in this process.
        Workers need genbayes, and no files of yours.
    - `keep`: a folder for finished runs; called again with the same function and items, only
        those that are missing are drawn.

    A run whose worker is lost is drawn again, and is the same. Where a run fails, the others are
    finished first. Runs that travelled do not hold their target: give it where one is needed.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> def study(score):
    ...     target = gb.ScorePosterior(problem, score, num_simulations=20)
    ...     return gb.sample(target, gb.PseudoMarginal(0.5), num_samples=50, progress=False)
    >>> runs = gb.map_runs(study, [gb.EnergyScore(), gb.EnergyScore(beta=0.5)])
    >>> [run.draws["mean"].shape for run in runs]
    [(1, 50), (1, 50)]

    ```
    """
    items = list(items)
    paths = _paths(make_run, items, keep)
    runs: dict[int, Run] = {i: load(path) for i, path in paths.items() if path.is_file()}
    errors: dict[int, Exception] = {}

    def finish(i: int, run: Run) -> None:
        if not isinstance(run, Run):
            raise TypeError(f"make_run must return a Run, got {type(run).__name__}.")
        runs[i] = run
        if i in paths:
            part = run.save(paths[i].with_suffix(".part"))
            part.replace(paths[i])  # complete or not at all

    missing = [i for i in range(len(items)) if i not in runs]
    each = _here(make_run, items, missing) if executor is None else _there(
        make_run, items, missing, executor
    )  # fmt: skip
    for i, found in each:
        if isinstance(found, Exception):
            errors[i] = found
        else:
            finish(i, found)
    if errors:
        i, error = next(iter(sorted(errors.items())))
        kept = "are kept" if paths else "are lost (give keep=FOLDER to keep them)"
        raise RuntimeError(
            f"{len(errors)} of {len(items)} runs failed, the first (item {i}: {items[i]!r:.80}) "
            f"because of {type(error).__name__}: {error}. The runs that were finished {kept}."
        ) from error
    return [runs[i] for i in range(len(items))]


def _paths(make_run: Any, items: list[Any], keep: str | Path | None) -> dict[int, Path]:
    """A file for each run, whose name changes with what would be drawn."""
    if keep is None:
        return {}
    hashes = [fingerprint((make_run, item)) for item in items]
    return {i: Path(keep) / f"{i:05d}-{digest}.nc" for i, digest in enumerate(hashes)}


def _here(make_run: Any, items: list[Any], missing: list[int]) -> Any:
    for i in missing:
        try:
            yield i, make_run(items[i])
        except Exception as error:
            yield i, error


def _there(make_run: Any, items: list[Any], missing: list[int], executor: Any) -> Any:
    crew, packed = Crew(executor), portable(make_run)
    double = bool(jax.config.read("jax_enable_x64"))

    def submit(i: int) -> Future[Run]:
        return crew.submit(_one, packed, cloudpickle.dumps(items[i]), double)

    pending, tries = {submit(i): i for i in missing}, dict.fromkeys(missing, 1)
    while pending:
        done, _ = wait(pending, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        if not done:
            crew.look(None)
        for future in done:
            i = pending.pop(future)
            try:
                yield i, crew.result(future)
            except WorkerLost as error:
                if tries[i] == TRIES:
                    yield i, RuntimeError(f"its worker was lost {TRIES} times ({error.__cause__})")
                    continue
                tries[i] += 1
                pending[submit(i)] = i
            except Lost:
                raise
            except Exception as error:
                yield i, error


def _one(packed: bytes, item: bytes, double: bool) -> Run:
    """In a worker: one run, without what cannot travel."""
    end_with_parent()
    with jax.enable_x64(double):
        run = cloudpickle.loads(packed)(cloudpickle.loads(item))
    return replace(run, target=None, sampler=None, walk=None) if isinstance(run, Run) else run
