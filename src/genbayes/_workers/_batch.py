"""A batch of draws in one process: what an executor is given to do."""

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from ._draw import NOT_FINITE, Failed, Theta, draw_one, draw_rows
from ._hosted import hosted_draws, hosted_rows
from ._parent import end_with_parent


@dataclass(frozen=True)
class Recipe:
    """How draws are made: what a worker must know beside parameters and seeds.

    `fn` is a function of parameters and a seed, or one packed by `portable`. `isolated` draws are
    made in a process of their own, which can be killed without harm to the worker's.
    """

    fn: Callable[[Theta, Any], Any] | bytes
    dtype: str
    vectorized: bool = False
    timeout: float | None = None
    isolated: bool = False
    retries: int = 0


def portable(fn: Any) -> bytes:
    """A function on its way to a process of the same run; nothing of this is ever stored.

    What the user wrote travels by value, so that workers elsewhere need not have the file.
    """
    module = sys.modules.get(getattr(getattr(fn, "fn", fn), "__module__", None) or "")
    own = module is not None and _is_users(module)
    if own:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(fn)
    except Exception as error:
        raise TypeError(
            f"The simulator cannot be sent to another process ({type(error).__name__}: {error}). "
            "It may use what can be copied: numbers, arrays, functions; open files, locks, "
            "clients and executors must be made inside of it."
        ) from error
    finally:
        if own:
            with contextlib.suppress(ValueError):  # another thread was faster
                cloudpickle.unregister_pickle_by_value(module)


def _is_users(module: Any) -> bool:
    path = getattr(module, "__file__", None)
    if path is None or module.__name__ == "__main__":  # travels by value in any case
        return False
    installed = {"site-packages", "dist-packages"} & set(Path(path).parts)
    ours = path.startswith(str(Path(__file__).parents[1]))
    return not (installed or ours or path.startswith(str(Path(contextlib.__file__).parent)))


@lru_cache(maxsize=8)
def _unpacked(packed: bytes) -> Any:
    return cloudpickle.loads(packed)


def draw_batch(
    recipe: Recipe, thetas: Sequence[Theta], seeds: Sequence[int], stop: bool
) -> tuple[list[np.ndarray | Failed], float]:
    """Draws, one for each seed, and the seconds they took; with `stop`, up to the first failure."""
    began = time.perf_counter()
    end_with_parent()
    found: list[np.ndarray | Failed] = []
    while len(found) < len(seeds):
        at = len(found)
        new = _attempt(recipe, thetas[at:], list(seeds[at:]))
        for i, row in enumerate(new):
            kept = _retried(recipe, thetas[at + i], seeds[at + i], row)
            found.append(kept)
            if stop and isinstance(kept, Failed):
                return found, time.perf_counter() - began
    return found, time.perf_counter() - began


def _attempt(
    recipe: Recipe, thetas: Sequence[Theta], seeds: list[int]
) -> list[np.ndarray | Failed]:
    """At least one draw: up to the first failure, or all rows of a function that takes batches."""
    if recipe.vectorized and len(seeds) > 1:
        rows = _rows(recipe, thetas, seeds)
        if not isinstance(rows, Failed):
            return rows
        # one of them spoilt the batch: which, only single draws can tell
        thetas, seeds = thetas[:1], seeds[:1]
    if recipe.vectorized:
        rows = _rows(recipe, thetas[:1], seeds[:1])
        return [rows] if isinstance(rows, Failed) else rows
    if recipe.isolated:
        return hosted_draws(_packed(recipe), recipe.dtype, thetas, seeds, recipe.timeout)
    found: list[np.ndarray | Failed] = []
    fn = _loaded(recipe)
    for theta, seed in zip(thetas, seeds, strict=True):
        found.append(draw_one(fn, theta, seed, recipe.dtype))
        if isinstance(found[-1], Failed):
            break
    return found


def _rows(
    recipe: Recipe, thetas: Sequence[Theta], seeds: list[int]
) -> list[np.ndarray | Failed] | Failed:
    if recipe.isolated:
        return hosted_rows(_packed(recipe), recipe.dtype, thetas, seeds, recipe.timeout)
    return draw_rows(_loaded(recipe), thetas, seeds, recipe.dtype)


def _retried(
    recipe: Recipe, theta: Theta, seed: int, row: np.ndarray | Failed
) -> np.ndarray | Failed:
    """The same draw again, with the same seed, where what failed may have been the machine."""
    for _ in range(recipe.retries):
        if not isinstance(row, Failed) or row.kind == NOT_FINITE:
            break
        row = _attempt(recipe, [theta], [seed])[0]
    return row


def _loaded(recipe: Recipe) -> Any:
    return _unpacked(recipe.fn) if isinstance(recipe.fn, bytes) else recipe.fn


def _packed(recipe: Recipe) -> bytes:
    return recipe.fn if isinstance(recipe.fn, bytes) else portable(recipe.fn)
