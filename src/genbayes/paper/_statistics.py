"""Numbers of a chain with their Monte Carlo error."""

from collections.abc import Callable

import numpy as np

BLOCKS = 20


def jackknife(
    statistic: Callable[[np.ndarray], float], chain: np.ndarray, blocks: int = BLOCKS
) -> tuple[float, float]:
    """A statistic of a correlated chain, and its standard error by leaving out one block at a time.

    **Arguments:** `statistic` of `(draw, ...)`; `chain`, `(draw, ...)`.

    ```python
    >>> value, error = jackknife(np.mean, np.random.default_rng(0).normal(size=10_000))
    >>> bool(0.003 < error < 0.03)
    True

    ```
    """
    length = chain.shape[0] // blocks
    if length == 0:
        return float(statistic(chain)), float("inf")
    chain = chain[chain.shape[0] - blocks * length :]
    parts = np.split(chain, blocks)
    left_out = np.array(
        [statistic(np.concatenate(parts[:b] + parts[b + 1 :])) for b in range(blocks)]
    )
    error = np.sqrt((blocks - 1) / blocks * np.sum((left_out - left_out.mean()) ** 2))
    return float(statistic(chain)), float(error)


def trace_of_covariance(draws: np.ndarray) -> float:
    """The sum of the variances of draws `(draw, p)`."""
    return float(np.sum(np.var(draws, axis=0, ddof=1)))
