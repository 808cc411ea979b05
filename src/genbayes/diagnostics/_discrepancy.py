"""Kernelised Stein discrepancy of points with gradients, at many sample sizes in one pass."""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from .._checks import check_between, check_choice, check_positive
from .._types import Array
from ._stein import contributions

Form: TypeAlias = Literal["vector", "coordinates"]
Statistic: TypeAlias = Literal["U", "V"]


class Kernel(NamedTuple):
    r"""The inverse multiquadric $(c^2 + \lVert x - y\rVert^2)^\beta$, on scaled coordinates."""

    c: float = 1.0
    beta: float = -0.5


def check_kernel(form: Form, statistic: Statistic, c: float, beta: float) -> None:
    """Refuse settings for which the discrepancy is not one."""
    check_choice("form", form, ("vector", "coordinates"))
    check_choice("statistic", statistic, ("U", "V"))
    check_positive("c", c)
    check_between("beta", beta, -1, 0)


def squared_path(
    points: np.ndarray,
    gradients: np.ndarray,
    sizes: np.ndarray,
    kernel: Kernel,
    statistic: Statistic = "V",
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """The squared discrepancy of each coordinate over the first `sizes` points, `(L, p)`."""
    both, own = contributions(points, gradients, weights, kernel.c, kernel.beta)
    weight = np.ones(len(points)) if weights is None else np.asarray(weights, float)
    if statistic == "U":
        both, pairs = both - own, np.cumsum(weight) ** 2 - np.cumsum(weight**2)
    else:
        pairs = np.cumsum(weight) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):  # a U-statistic of one point is none
        path = np.cumsum(both, axis=0) / pairs[:, None]
    return path[np.asarray(sizes) - 1]


def combined(squared: np.ndarray, form: Form) -> np.ndarray:
    """One number for each row of squared discrepancies by coordinate; a U-statistic below 0 is 0.

    NaN stays: it says that there was nothing to compute.
    """
    if form == "vector":
        return np.sqrt(np.maximum(squared.sum(axis=-1), 0))
    return np.sqrt(np.maximum(squared, 0)).sum(axis=-1)


def stein_discrepancy(
    points: np.ndarray | Array,
    gradients: np.ndarray | Array,
    *,
    weights: np.ndarray | None = None,
    form: Form = "vector",
    statistic: Statistic = "V",
    c: float = 1.0,
    beta: float = -0.5,
) -> float:
    r"""Kernelised Stein discrepancy of points from a density with gradients $\nabla\log\pi$.

    **Arguments:** `points` and `gradients`, `(N, p)`; `weights`, `(N,)`; the rest as for `ksd`.

    ```python
    >>> import genbayes as gb, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> close = gb.diagnostics.stein_discrepancy(x, -x)  # standard normal, as claimed
    >>> off = gb.diagnostics.stein_discrepancy(x + 1, -(x + 1))
    >>> bool(off > 5 * close)
    True

    ```
    """
    check_kernel(form, statistic, c, beta)
    x, s = np.asarray(points), np.asarray(gradients)
    if x.ndim != 2 or x.shape != s.shape or not len(x):
        raise ValueError(
            "Expected points and gradients of one shape (N, p) with at least one row, got "
            f"{x.shape} and {s.shape}."
        )
    if not (np.isfinite(x).all() and np.isfinite(s).all()):
        raise ValueError(
            "Points or gradients are not finite. Leave those rows out, and say how many they were."
        )
    squared = squared_path(x, s, np.array([len(x)]), Kernel(c, beta), statistic, weights)
    return float(combined(squared, form)[0])
