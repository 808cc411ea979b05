"""Medians and how well they are known."""

import numpy as np
from scipy import stats


def median_interval(values: np.ndarray, level: float) -> tuple[float, float]:
    """An interval for the median of independent values, between two of them, free of assumptions.

    The number of values below the median is binomial; so the interval holds it with at least the
    probability asked for, or is the whole range if there are too few values.
    """
    ordered, size = np.sort(values), len(values)
    low = int(stats.binom.ppf((1 - level) / 2, size, 0.5))
    low = max(low - 1, 0)
    return float(ordered[low]), float(ordered[size - 1 - low])
