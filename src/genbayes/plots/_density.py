"""Densities of weighted draws, on a line and on a plane."""

import numpy as np

MOST_BINS = 60
SMOOTH = 1.2  # bins: the width of the smoothing of densities on a plane


def bin_edges(x: np.ndarray, num_draws: int) -> np.ndarray:
    """Bins of equal width over all draws: the more draws, the finer, and never more than 60."""
    low, high = value_range(x)
    return np.linspace(low, high, int(np.clip(2 * num_draws ** (1 / 3), 5, MOST_BINS)) + 1)


def value_range(x: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest finite value, apart even where nothing moved."""
    x = x[np.isfinite(x)]
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    # relative to the values: a gap below their rounding would give bins without width
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        gap = max(0.5, 1e-3 * abs(low))
        low, high = low - gap, high + gap
    return low, high


def effective(weights: np.ndarray | None, num_draws: int) -> int:
    r"""$1 / \sum_i w_i^2$, the number of equal draws that say as much; all where unweighted."""
    return num_draws if weights is None else max(1, int(1 / np.sum(weights**2)))


def smooth_density(x: np.ndarray, weights: np.ndarray | None, grid: np.ndarray) -> np.ndarray:
    """A Gaussian kernel estimate, of Silverman's width, by a fine histogram."""
    low, high = value_range(x)
    keep = np.isfinite(x)
    x, weights = x[keep], None if weights is None else weights[keep]
    mean = np.average(x, weights=weights)
    sd = float(np.sqrt(np.average((x - mean) ** 2, weights=weights)))
    middle = np.subtract(*weighted_quantile(x, weights, [0.75, 0.25])) / 1.349
    scale = min(s for s in (sd, float(middle), high - low) if s > 0) if sd > 0 else high - low
    width = 0.9 * scale * effective(weights, x.size) ** -0.2
    cells = np.linspace(low, high, 513)
    mass, _ = np.histogram(x, cells, weights=weights)
    centres = (cells[1:] + cells[:-1]) / 2
    kernel = np.exp(-0.5 * ((grid[:, None] - centres[None, :]) / width) ** 2)
    return kernel @ (mass / mass.sum()) / (width * np.sqrt(2 * np.pi))


def weighted_quantile(x: np.ndarray, weights: np.ndarray | None, levels: list[float]) -> np.ndarray:
    """Quantiles of weighted draws: the smallest value whose cumulated weight reaches the level."""
    if weights is None:
        return np.quantile(x, levels)
    order = np.argsort(x)
    cumulated = np.cumsum(weights[order])
    found = np.searchsorted(cumulated, np.asarray(levels) * cumulated[-1])
    return x[order][np.minimum(found, x.size - 1)]


def plane(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, bins: int = 40
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A smoothed density on a plane: centres along both axes, and `(bins, bins)` by row of y."""
    from scipy.ndimage import gaussian_filter  # slow to import, and only pictures need it

    margin = 0.08
    edges = []
    for values in (x, y):
        low, high = value_range(values)
        edges.append(np.linspace(low - margin * (high - low), high + margin * (high - low), bins))
    mass, *_ = np.histogram2d(x, y, edges, weights=weights)
    centres = [(e[1:] + e[:-1]) / 2 for e in edges]
    return centres[0], centres[1], gaussian_filter(mass / mass.sum(), SMOOTH).T


def contour_levels(density: np.ndarray, shares: tuple[float, ...]) -> list[float]:
    """The heights above which lie these shares of the mass, in increasing order."""
    heights = np.sort(density.ravel())[::-1]
    mass = np.cumsum(heights)
    levels = [
        float(heights[min(np.searchsorted(mass, s * mass[-1]), heights.size - 1)]) for s in shares
    ]
    return sorted(levels)
