r"""Energy distance and MMD of samples, and the same under exchange of labels.

Both are $2\,\overline{\phi(x, y)} - \overline{\phi(x, x')} - \overline{\phi(y, y')}$ with means
over all pairs: $\phi$ is the distance, or minus a Gaussian kernel of it.
"""

import numpy as np
from scipy.spatial.distance import cdist

Pair = tuple[float, np.ndarray]  # the statistic as observed, and under exchange
_LARGEST = 1e150  # squares of it do not overflow


def scale_of(points: np.ndarray) -> np.ndarray:
    """The interquartile range of each coordinate `(d,)`; 1 where it is zero.

    A function of the pooled points alone: exchanging labels does not change it.
    """
    low, high = np.quantile(points, [0.25, 0.75], axis=0)
    return np.where(high > low, high - low, 1.0)


def sample_test(
    y: np.ndarray, x: np.ndarray, permutations: int, rng: np.random.Generator
) -> dict[str, Pair]:
    """Two samples `(n, d)` and `(m, d)`: both statistics, and their values under permutation."""
    pooled = _clipped(np.concatenate([y, x]))
    distances = cdist(pooled, pooled)
    labels = np.zeros((len(pooled), permutations + 1))
    labels[: len(y), 0] = 1
    for column in labels.T[1:]:
        column[rng.choice(len(pooled), len(y), replace=False)] = 1
    found = {}
    for name, phi in _functions(distances, _median(distances)).items():
        values = _distances_of_labels(phi, labels, len(y))
        found[name] = float(values[0]), values[1:]
    return found


def _distances_of_labels(phi: np.ndarray, labels: np.ndarray, n: int) -> np.ndarray:
    """The statistic for each column of labels, from one product of matrices."""
    m = len(phi) - n
    inside = np.einsum("ij,ij->j", labels, phi @ labels)
    marked, total = phi.sum(axis=1) @ labels, phi.sum()
    outside = total - 2 * marked + inside
    return 2 * (marked - inside) / (n * m) - inside / n**2 - outside / m**2


def data_set_test(sets: np.ndarray) -> dict[str, Pair]:
    """Data sets `(K, n, d)`, the observed one first: each against all the others together."""
    number, n, d = sets.shape
    points = _clipped(sets.reshape(-1, d))
    firsts = points[::n]  # one of each set, so that no set is told apart
    width = _median(cdist(firsts, firsts))
    blocks: dict[str, np.ndarray] = {}
    for k in range(number):
        rows = cdist(points[k * n : (k + 1) * n], points)
        for name, phi in _functions(rows, width).items():
            means = phi.sum(axis=0).reshape(number, n).sum(axis=1) / n**2
            blocks.setdefault(name, np.empty((number, number)))[k] = means
    found = {}
    for name, block in blocks.items():
        own, rows, rest = np.diag(block), block.sum(axis=1), number - 1
        others = block.sum() - 2 * rows + own
        values = 2 * (rows - own) / rest - own - others / rest**2
        found[name] = float(values[0]), values[1:]
    return found


def _functions(distances: np.ndarray, width: float) -> dict[str, np.ndarray]:
    return {"energy": distances, "MMD": -np.exp(-0.5 * (distances / width) ** 2)}


def _median(distances: np.ndarray) -> float:
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0


def _clipped(points: np.ndarray) -> np.ndarray:
    return np.clip(points, -_LARGEST, _LARGEST)
