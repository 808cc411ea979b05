"""Timing side by side: rounds interleaved, medians with their spread, ratios within a round.

A machine is not equally fast at all times. Every case is timed once in each round, so that what
slows one down slows its neighbours too, and ratios are taken within rounds before the median.

Steps and scores are timed in processor seconds of a process that keeps to one thread: other work
on the machine then adds little, and nobody gains by having more cores.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

Seconds = list[float]

clock = time.process_time
JAX_THREADS = "PJRT_NPROC"


def one_thread() -> None:
    """Keep JAX, PyTorch and NumPy to one thread each; before any of them is imported."""
    os.environ[JAX_THREADS] = "1"  # else loops are cut in two, which costs both halves time
    eigen = "--xla_cpu_multi_thread_eigen=false"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {eigen}"
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


class Median(NamedTuple):
    """A median, and the quartiles around it."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Median":
        """In another unit."""
        return Median(*(factor * x for x in self))

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} – {self.high:.3g})"


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Seconds]:
    """Seconds of every case in every round; each case times itself."""
    seconds: dict[str, Seconds] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, measure in cases.items():
            seconds[name].append(measure())
    return seconds


def median(values: Seconds) -> Median:
    """The median and the quartiles."""
    if len(values) == 1:
        return Median(*(3 * values))
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Median(middle, low, high)


def ratio(slower: Seconds, faster: Seconds) -> Median:
    """How many times as long, round by round."""
    return median([a / b for a, b in zip(slower, faster, strict=True)])


def verdict(found: Median, *, least: float | None = None, most: float | None = None) -> str:
    """An aim, and whether the median met it."""
    aim = f"≥ {least:g}" if least is not None else f"≤ {most:g}"
    met = found.value >= least if least is not None else found.value <= (most or 0)
    return f"{aim}: {'met' if met else 'missed'}"
