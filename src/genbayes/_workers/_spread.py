"""Draws spread over an executor; which worker makes which draw never changes a draw."""

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ._batch import Recipe, draw_batch
from ._crew import Crew, WorkerLost
from ._draw import DIED, Failed, Theta

TASK_SECONDS = 0.2  # of a task: against it the few milliseconds of scheduling are little
TRIES = 2  # of a draw by itself, where a worker was lost


class Spread:
    """Cuts draws into tasks, hands them to an executor, puts the results in order.

    How long tasks are is learnt from how long draws take. Where a worker is lost its draws are
    made again: they are functions of parameters and seeds alone.
    """

    def __init__(self, executor: Any = None):
        self._crew = Crew(executor)
        self._alone = executor is None
        self._seconds: float | None = None  # of a draw

    def __call__(
        self, recipe: Recipe, thetas: Sequence[Theta], seeds: Sequence[int], stop: bool
    ) -> list[np.ndarray | Failed]:
        """A result for each seed, in their order; with `stop`, up to the first failure."""
        if self._alone:
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
        num, workers = last - first, self._crew.count()
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
        futures = [self._crew.submit(draw_batch, *args(part)) for part in parts]
        for part, future in zip(parts, futures, strict=True):
            try:
                rows, seconds = self._crew.result(future)
                self._seconds = seconds / len(rows)
            except WorkerLost:
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
            found.append(self._by_itself(recipe, theta, seed))
            if stop and isinstance(found[-1], Failed):
                break
        return found

    def _by_itself(self, recipe: Recipe, theta: Theta, seed: int) -> np.ndarray | Failed:
        began = time.perf_counter()
        for _ in range(TRIES):
            try:
                future = self._crew.submit(draw_batch, recipe, [theta], [seed], True)
                return self._crew.result(future)[0][0]
            except WorkerLost:
                continue
        return Failed("it ended its worker process", time.perf_counter() - began, DIED)
