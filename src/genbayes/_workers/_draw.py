"""One draw: an array, or the reason why there is none."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Theta = Mapping[str, Any]  # floats and NumPy arrays by name
DETAILS = 2000  # characters of a traceback or of what a program wrote to stderr


class Failed(NamedTuple):
    """Why there is no draw, how long that took to know, and what was written about it."""

    message: str
    seconds: float
    kind: str  # the class of an exception, or one of those below
    details: str = ""


NOT_FINITE, TIMED_OUT, DIED = "not finite", "time-out", "died"
Rows = Sequence["np.ndarray | Failed"]


class DrawError(Exception):
    """A draw failed and there is more to tell than a message."""

    def __init__(self, message: str, details: str = ""):
        super().__init__(message)
        self.details = details


@dataclass(frozen=True)
class Seeded:
    """A function of parameters and generators, called with seeds."""

    fn: Callable[[Any, Any], Any]

    def __call__(self, theta: Theta, seed: Any) -> Any:
        """With one generator for a seed, a list of them for a list."""
        if isinstance(seed, int):
            return self.fn(theta, np.random.default_rng(seed))
        return self.fn(theta, [np.random.default_rng(s) for s in seed])


def draw_one(
    fn: Callable[[Theta, int], Any], theta: Theta, seed: int, dtype: str
) -> np.ndarray | Failed:
    """One draw by a function of parameters and a seed."""
    began = time.perf_counter()
    value = _called(fn, theta, seed)
    seconds = time.perf_counter() - began
    return (
        value._replace(seconds=seconds)
        if isinstance(value, Failed)
        else checked(value, seconds, dtype)
    )


def draw_rows(
    fn: Callable[[Theta, list[int]], Any], thetas: Sequence[Theta], seeds: list[int], dtype: str
) -> list[np.ndarray | Failed] | Failed:
    """Many draws by a function that takes a batch: `(num, ...)` of everything."""
    began, num = time.perf_counter(), len(seeds)
    stacked = {name: np.stack([np.asarray(t[name]) for t in thetas]) for name in thetas[0]}
    value = _called(fn, stacked, seeds)
    seconds = time.perf_counter() - began
    if isinstance(value, Failed):
        return value._replace(seconds=seconds)
    if np.shape(value)[:1] != (num,):
        message = f"a batch of {num} draws has shape {np.shape(value)}, expected ({num}, *event)"
        return Failed(message, seconds, "ValueError")
    return [checked(row, seconds / num, dtype) for row in np.asarray(value)]


def _called(fn: Callable[[Any, Any], Any], theta: Theta, seed: Any) -> Any:
    try:
        return fn(theta, seed)
    except DrawError as error:
        return Failed(str(error), 0.0, type(error).__name__, error.details[-DETAILS:])
    except (Exception, SystemExit) as error:  # a simulator may fail in any way it likes
        kind = type(error).__name__
        return Failed(f"{kind}: {error}", 0.0, kind, traceback.format_exc()[-DETAILS:])


def checked(value: Any, seconds: float, dtype: str) -> np.ndarray | Failed:
    """A draw as an array of finite numbers."""
    try:
        with np.errstate(over="ignore"):  # too large for the precision: infinite, found below
            row = np.asarray(value).astype(dtype, casting="unsafe")
    except (TypeError, ValueError) as error:
        message = f"the draw is no array of numbers but {type(value).__name__}: {error}"
        return Failed(message, seconds, "TypeError")
    bad = row.size - int(np.count_nonzero(np.isfinite(row)))
    if bad:
        return Failed(f"{bad} of {row.size} values are not finite", seconds, NOT_FINITE)
    return row
