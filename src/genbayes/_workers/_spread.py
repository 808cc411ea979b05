"""Draws spread over an executor; which worker makes which draw never changes a draw."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from ._batch import Recipe, draw_batch
from ._draw import DIED, Failed, Theta

TASK_SECONDS = 0.2  # of a task: against it the few milliseconds of scheduling are little
LOOK_SECONDS = 1.0  # between looks at whether the executor is still there
RECONNECT_SECONDS = 30.0  # for a scheduler to come back
COUNT_SECONDS = 10.0  # for which a number of workers is believed
TRIES = 2  # of a draw by itself, where a worker was lost


class Lost(RuntimeError):
    """The executor is gone, and with it every worker."""


class _WorkerLost(Exception):
    """A worker is gone, the executor is not."""


class Spread:
    """Cuts draws into tasks, hands them to an executor, puts the results in order.

    How long tasks are is learnt from how long draws take. Where a worker is lost its draws are
    made again: they are functions of parameters and seeds alone.
    """

    def __init__(self, executor: Any = None):
        check_executor(executor)
        self._executor = executor
        self._seconds: float | None = None  # of a draw
        self._workers, self._counted = 1, -COUNT_SECONDS

    def __call__(
        self, recipe: Recipe, thetas: Sequence[Theta], seeds: Sequence[int], stop: bool
    ) -> list[np.ndarray | Failed]:
        """A result for each seed, in their order; with `stop`, up to the first failure."""
        if self._executor is None:
            return draw_batch(recipe, thetas, seeds, stop)[0]
        found: list[np.ndarray | Failed] = []
        if self._seconds is None:  # one draw, to know how long it takes
            found = self._collected(recipe, thetas, seeds, stop, [range(1)])
        if len(found) == len(seeds) or (stop and any(isinstance(x, Failed) for x in found)):
            return found
        parts = list(self._cut(len(found), len(seeds)))
        return found + self._collected(recipe, thetas, seeds, stop, parts)

    def _cut(self, first: int, last: int) -> Iterator[range]:
        """Nearly equal ranges, as many for each worker, none much shorter than a task should be."""
        num, workers = last - first, self._count_workers()
        rounds = max(1, int(num * (self._seconds or 0.0) / (workers * TASK_SECONDS)))
        tasks = min(num, workers * rounds)
        edges = [first + num * i // tasks for i in range(tasks + 1)]
        yield from (range(a, b) for a, b in pairwise(edges))

    def _collected(
        self,
        recipe: Recipe,
        thetas: Sequence[Theta],
        seeds: Sequence[int],
        stop: bool,
        parts: list[range],
    ) -> list[np.ndarray | Failed]:
        def args(part: range) -> tuple[Any, ...]:
            return recipe, thetas[part.start : part.stop], seeds[part.start : part.stop], stop

        found: list[np.ndarray | Failed] = []
        futures = [self._submitted(*args(part)) for part in parts]
        for part, future in zip(parts, futures, strict=True):
            try:
                rows, seconds = self._result(future)
                self._seconds = seconds / len(rows)
            except _WorkerLost:
                rows = self._one_by_one(*args(part))
            found += rows
            if stop and any(isinstance(row, Failed) for row in rows):
                for later in futures:
                    later.cancel()
                break
        return found

    def _one_by_one(
        self, recipe: Recipe, thetas: Sequence[Theta], seeds: Sequence[int], stop: bool
    ) -> list[np.ndarray | Failed]:
        """With a worker to itself it shows which draw ends its worker, if it is one of these."""
        found: list[np.ndarray | Failed] = []
        for theta, seed in zip(thetas, seeds, strict=True):
            found.append(self._alone(recipe, theta, seed))
            if stop and isinstance(found[-1], Failed):
                break
        return found

    def _alone(self, recipe: Recipe, theta: Theta, seed: int) -> np.ndarray | Failed:
        began = time.perf_counter()
        for _ in range(TRIES):
            try:
                return self._result(self._submitted(recipe, [theta], [seed], True))[0][0]
            except _WorkerLost:
                continue
        return Failed("it ended its worker process", time.perf_counter() - began, DIED)

    def _submitted(self, *args: Any) -> Future[tuple[list[np.ndarray | Failed], float]]:
        try:
            return self._executor.submit(draw_batch, *args)
        except BrokenExecutor:
            self._mend()
            return self._executor.submit(draw_batch, *args)
        except Exception as error:
            self._check_there(error)
            raise

    def _result(self, future: Future[Any]) -> Any:
        while True:
            try:
                return future.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                self._check_there(None)
            except (BrokenExecutor, CancelledError) as error:
                self._check_there(error)
                raise _WorkerLost from error
            except Exception as error:
                if type(error).__module__.partition(".")[0] != "distributed":
                    raise
                self._check_there(error)
                raise _WorkerLost from error

    def _mend(self) -> None:
        """A pool that lost one process takes no more work: another one like it does."""
        broken = self._executor
        if not isinstance(broken, ProcessPoolExecutor):
            raise Lost(
                f"The executor {type(broken).__name__} is broken and cannot be made anew here."
            )
        settings = {
            name: getattr(broken, f"_{name}")
            for name in ("max_workers", "mp_context", "initializer", "initargs")
        }
        self._executor = ProcessPoolExecutor(**settings)

    def _check_there(self, cause: BaseException | None) -> None:
        """Refuse to wait for a Dask scheduler that is gone; one that comes back is soon found."""
        client = getattr(self._executor, "_client", None)
        until = time.monotonic() + RECONNECT_SECONDS
        while getattr(client, "status", "running") == "connecting" and time.monotonic() < until:
            time.sleep(0.1)
        if client is not None and client.status != "running":
            raise Lost(
                f"The Dask scheduler {_address(client)} is lost: no answer for "
                f"{RECONNECT_SECONDS:g} s. A stored run is safe up to its last commit: start a "
                "cluster and resume the run there."
            ) from cause

    def _count_workers(self) -> int:
        """How many draws can be made at once."""
        if time.monotonic() - self._counted > COUNT_SECONDS:
            try:
                self._workers = max(1, count_workers(self._executor))
            except Exception as error:
                self._check_there(error)
                raise
            self._counted = time.monotonic()
        return self._workers


def _address(client: Any) -> str:
    return str(getattr(getattr(client, "scheduler", None), "address", ""))


def count_workers(executor: Executor) -> int:
    """How many tasks an executor works on at once."""
    client = getattr(executor, "_client", None)
    if client is not None:
        return sum(client.nthreads().values())
    for name in ("_max_workers", "num_workers"):  # pools of Python, of MPI
        if isinstance(getattr(executor, name, None), int):
            return getattr(executor, name)
    return os.cpu_count() or 1


def check_executor(executor: Any) -> None:
    """Refuse what cannot be submitted to, and pools that fork."""
    if executor is None:
        return
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            "executor must be a concurrent.futures.Executor, such as ProcessPoolExecutor(...) or "
            f"dask.distributed.Client(...).get_executor(), got {type(executor).__name__}."
        )
    context = getattr(executor, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise ValueError(
            "This ProcessPoolExecutor forks, and a forked process may hang on a lock that JAX "
            "held at that moment. Give it mp_context=multiprocessing.get_context('spawn')."
        )
