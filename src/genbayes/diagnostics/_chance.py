"""What chance alone does to shares and to empirical distribution functions."""

from functools import lru_cache

import numpy as np

from .._checks import check_between, check_count

GRID = np.linspace(0, 1, 101)


def share_interval(
    inside: np.ndarray | int, num: int, *, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    r"""The exact interval of Clopper and Pearson for a probability, from `inside` of `num` trials.

    $$B_{\alpha/2}(k,\, n - k + 1), \qquad B_{1 - \alpha/2}(k + 1,\, n - k)$$

    with the quantiles $B$ of beta distributions.

    **Arguments:** `inside`, $k$, an array or a number; `num`, $n$; `level`, $1 - \alpha$.

    ```python
    >>> low, high = share_interval(95, 100)
    >>> round(float(low), 3), round(float(high), 3)
    (0.887, 0.984)

    ```
    """
    from scipy.stats import beta

    check_count("num", num)
    check_between("level", level, 0, 1)
    k, tail = np.asarray(inside, float), (1 - level) / 2
    low = np.where(k > 0, beta.ppf(tail, np.maximum(k, 0.5), num - k + 1), 0.0)
    high = np.where(k < num, beta.ppf(1 - tail, k + 1, np.maximum(num - k, 0.5)), 1.0)
    return low, high


@lru_cache(maxsize=32)
def uniform_band(num: int, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Limits on `GRID` that the distribution function of `num` uniform numbers keeps to.

    They hold everywhere at once with the probability `level`: each point is allowed the same
    number of its binomial standard deviations, found by simulation.
    """
    counts = np.random.default_rng(0).multinomial(num, np.diff(GRID), size=2000)
    sds = np.sqrt(GRID * (1 - GRID) / num)
    off = np.abs(np.cumsum(counts, axis=1)[:, :-1] / num - GRID[1:-1]) / sds[1:-1]
    width = float(np.quantile(off.max(axis=1), level)) * sds
    return np.clip(GRID - width, 0, 1), np.clip(GRID + width, 0, 1)


def distribution_on_grid(values: np.ndarray) -> np.ndarray:
    """The empirical distribution function of some numbers in [0, 1], on `GRID`."""
    return np.searchsorted(np.sort(values), GRID, side="right") / len(values)
