"""Refusals: every message says what was expected, what came, and what to do."""

import math
from typing import Any

import jax
import numpy as np
from jax.core import Tracer


def is_concrete(value: Any) -> bool:
    """Whether a value can be looked at: inside a compiled program it cannot."""
    return not isinstance(value, Tracer)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(
        value, (int, float, np.number, np.ndarray, jax.Array)
    ):
        raise TypeError(f"{name} must be a number, got {value!r} ({type(value).__name__}).")
    if np.ndim(value) != 0:
        raise TypeError(f"{name} must be a single number, got an array of shape {np.shape(value)}.")
    return float(value)


def check_positive(name: str, value: Any) -> None:
    """Refuse anything but a finite number above zero."""
    if is_concrete(value) and not (0 < _number(name, value) < math.inf):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}.")


def check_nonnegative(name: str, value: Any, hint: str = "") -> None:
    """Refuse anything but a finite number that is zero or above."""
    if is_concrete(value) and not (0 <= _number(name, value) < math.inf):
        tail = f" {hint}" if hint else ""
        raise ValueError(f"{name} must be a finite number, 0 or above, got {value!r}.{tail}")


def check_between(name: str, value: Any, low: float, high: float) -> None:
    """Refuse anything but a number strictly between two bounds."""
    if is_concrete(value) and not (low < _number(name, value) < high):
        raise ValueError(f"{name} must lie strictly between {low} and {high}, got {value!r}.")


def kind(value: Any) -> str:
    """What a value is, for messages; a class is told from an instance of it.

    >>> kind(3), kind(int)
    ('int', 'the class int itself: write int(...)')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} itself: write {value.__name__}(...)"
    return type(value).__name__


def check_count(name: str, value: Any, at_least: int = 1, hint: str = "") -> None:
    """Refuse anything but a whole number of at least `at_least`."""
    tail = f" {hint}" if hint else ""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"{name} must be a whole number, got {value!r} ({type(value).__name__}).{tail}"
        )
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}.{tail}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Refuse a value that is not one of a few."""
    if not any(value is c or (isinstance(value, str) and value == c) for c in choices):
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}.")
