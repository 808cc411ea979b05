"""Cells over processes: those that share compiled programs in one process, the longest first."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    as_completed,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import process_time
from typing import NamedTuple

import jax
import numpy as np

from . import _kept
from ._data import Data
from ._experiment import SCALES, Cell
from ._experiments import EXPERIMENTS

THREADS = "PJRT_NPROC"  # read by JAX when a process first computes


class Task(NamedTuple):
    """A cell by name, as it is handed to another process."""

    experiment: str
    cell: str
    scale: str
    observations: str | None
    folder: str
    fingerprint: str
    double: bool


class Job(NamedTuple):
    """A cell with its task."""

    cell: Cell
    task: Task

    @property
    def programs(self) -> str:
        """The same for jobs that use the same compiled programs."""
        return self.cell.programs or f"{self.task.experiment}/{self.cell.name}"


class Queue:
    """Jobs that wait: a worker goes on with what it has compiled, else takes the longest.

    ```python
    >>> cells = [Cell("a", dict, 1.0, "p"), Cell("b", dict, 3.0), Cell("c", dict, 2.0, "p")]
    >>> queue = Queue([Job(c, Task("x", c.name, "smoke", None, "", "", False)) for c in cells])
    >>> queue.take(None).cell.name, queue.take("p").cell.name, queue.take("p").cell.name
    ('b', 'c', 'a')

    ```
    """

    def __init__(self, jobs: Sequence[Job]):
        self._waiting: dict[str, list[Job]] = {}
        self._begun: set[str] = set()
        for job in sorted(jobs, key=lambda job: -job.cell.load):
            self._waiting.setdefault(job.programs, []).append(job)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, compiled: str | None) -> Job:
        """The next job of a worker, which has `compiled` what these programs are."""
        chosen = compiled if compiled in self._waiting else self._longest()
        self._begun.add(chosen)
        jobs = self._waiting[chosen]
        job = jobs.pop(0)
        if not jobs:
            del self._waiting[chosen]
        return job

    def _longest(self) -> str:
        """Programs that nobody has compiled, and only at the end some of another worker's."""
        fresh = [name for name in self._waiting if name not in self._begun]
        if fresh:
            return max(fresh, key=lambda name: self._waiting[name][0].cell.load)
        return max(self._waiting, key=lambda name: sum(j.cell.load for j in self._waiting[name]))


Ended = tuple[Job, Exception | None]


def run_all(jobs: Sequence[Job], processes: int, executor: Executor | None) -> Iterator[Ended]:
    """Jobs as they end, with the error of those that failed; results are kept on disk."""
    if executor is not None:
        return _over(executor, jobs)
    return _here(jobs) if processes == 1 else _along(min(processes, max(1, len(jobs))), jobs)


def _here(jobs: Sequence[Job]) -> Iterator[Ended]:
    queue, compiled = Queue(jobs), None
    while queue:
        job = queue.take(compiled)
        compiled = job.programs
        try:
            _keep(job.cell, job.task)
            yield job, None
        except Exception as error:  # the other cells are still wanted
            yield job, error


def _over(executor: Executor, jobs: Sequence[Job]) -> Iterator[Ended]:
    """Over workers that choose for themselves, the longest first, so that the last are short."""
    order = sorted(jobs, key=lambda job: -job.cell.load)
    futures = {executor.submit(run_task, job.task): job for job in order}
    for future in as_completed(futures):
        yield futures[future], _error(future)


class _Worker:
    """One process, begun again if it dies."""

    def __init__(self):
        self.begin()

    def begin(self) -> None:
        # forking a process that has used JAX can hang
        spawn = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(1, mp_context=spawn)

    def submit(self, job: Job) -> Future[None]:
        try:
            return self.pool.submit(run_task, job.task)
        except BrokenProcessPool:
            self.begin()
            return self.pool.submit(run_task, job.task)


@contextmanager
def one_share(number: int) -> Iterator[None]:
    """Processes that begin here each compute in their share of the cores.

    By default JAX cuts small loops in as many parts as there are cores, which costs more than it
    brings once every core has a process of its own.

    ```python
    >>> with one_share(10_000):
    ...     os.environ[THREADS]
    '1'

    ```
    """
    before = os.environ.get(THREADS)
    os.environ[THREADS] = before or str(max(1, (os.cpu_count() or 1) // number))
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]


@contextmanager
def _workers(number: int) -> Iterator[list[_Worker]]:
    workers = [_Worker() for _ in range(number)]
    try:
        yield workers
    except BaseException:
        for worker in workers:
            worker.pool.shutdown(wait=False, cancel_futures=True)
        raise
    for worker in workers:
        worker.pool.shutdown()


def _along(number: int, jobs: Sequence[Job]) -> Iterator[Ended]:
    """Over processes of our own, each going on with what it has compiled."""
    queue: Queue = Queue(jobs)
    running: dict[Future[None], tuple[_Worker, Job]] = {}

    def go_on(worker: _Worker, compiled: str | None) -> None:
        if queue:
            job = queue.take(compiled)
            running[worker.submit(job)] = worker, job

    with one_share(number), _workers(number) as workers:
        for worker in workers:
            go_on(worker, None)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                worker, job = running.pop(future)
                go_on(worker, job.programs)
                yield job, _error(future)


def _error(future: Future[None]) -> Exception | None:
    error = future.exception()
    if error is not None and not isinstance(error, Exception):
        raise error
    return error


def run_task(task: Task) -> None:
    """Compute one cell and keep it; any process can do it, knowing names alone."""
    with jax.enable_x64(task.double):
        cells = _cells(task.experiment, task.scale, task.observations, task.double)
        _keep(cells[task.cell], task)


def _keep(cell: Cell, task: Task) -> None:
    began = process_time()
    result = cell.work()
    # processor time, compilation included: it does not depend on what else the machine does
    spent = {"seconds": np.array(process_time() - began)}
    _kept.write(Path(task.folder), task.cell, task.fingerprint, {**result, **spent})


@cache
def _cells(experiment: str, scale: str, observations: str | None, double: bool) -> dict[str, Cell]:
    """Made once in each process: a study of many posteriors takes a second for it."""
    del double
    cells = EXPERIMENTS[experiment].cells(SCALES[scale], Data(observations))
    return {cell.name: cell for cell in cells}
