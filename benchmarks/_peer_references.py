"""Exact posteriors to judge peers by, independent of the library: formulas, quadrature, and a walk.

The likelihood of g-and-k follows from its quantile function by bisection, and its energy score is
an integral over quantiles. On both an ensemble of walkers (Goodman and Weare, 2010) is run long.
"""

from collections.abc import Callable

import numpy as np
from scipy.stats import norm

Density = Callable[[np.ndarray], np.ndarray]
Z = np.linspace(-9, 9, 361)
GRID = np.linspace(-12, 12, 401)
TAU, MASS = norm.cdf(Z), norm.pdf(Z) * (Z[1] - Z[0])


def reference(model: str, y: np.ndarray, target: str, num: int = 4000) -> np.ndarray:
    """Draws `(num, p)` from the posterior itself."""
    if model == "normal":
        return _normal(y, target, num)
    loss = _negative_log_likelihood if target == "ordinary" else _energy_score

    def log_density(u: np.ndarray) -> np.ndarray:
        inside = -np.logaddexp(0, -u) - np.logaddexp(0, u)  # uniform prior, in the logit's terms
        return inside.sum(axis=1) - loss(4 / (1 + np.exp(-u)), y)

    return 4 / (1 + np.exp(-_ensemble(log_density, num)))


def quantile(theta: np.ndarray, z: np.ndarray) -> np.ndarray:
    """g-and-k at standard normal quantiles, `(rows, len(z))` or like `z`."""
    a, b, g, k = (theta[:, j : j + 1] for j in range(4))
    return a + b * (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z


def _negative_log_likelihood(theta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The quantile function is inverted on a grid, and then by Newton's method within its cells."""
    table = quantile(theta, GRID)
    z = np.stack([np.interp(y, row, GRID) for row in table])
    for _ in range(3):
        z = np.clip(z - (quantile(theta, z) - y) / _slope(theta, z), GRID[0], GRID[-1])
    return -(norm.logpdf(z) - np.log(_slope(theta, z))).sum(axis=1)


def _slope(theta: np.ndarray, z: np.ndarray) -> np.ndarray:
    h = 1e-5
    return (quantile(theta, z + h) - quantile(theta, z - h)) / (2 * h)


def _energy_score(theta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sum over y of 4 times the integral of (1{y < Q} - tau)(Q - y) over quantile levels tau."""
    q, y = quantile(theta, Z), np.sort(y)
    below = np.searchsorted(y, q)  # how many of y lie below each quantile
    above = np.concatenate([[0], np.cumsum(y)])[below]
    total = below * q - above - TAU * (len(y) * q - y.sum())
    return 4 * total @ MASS


def _normal(y: np.ndarray, target: str, num: int) -> np.ndarray:
    grid = np.linspace(-3, 6, 20_001)
    d = y[:, None] - grid
    losses = {
        "ordinary": lambda d: d**2 / 2,
        "score": lambda d: 2 * (2 * norm.pdf(d) + d * (2 * norm.cdf(d) - 1)),
    }
    log = norm.logpdf(grid) - losses[target](d).sum(axis=0)
    mass = np.cumsum(np.exp(log - log.max()))
    levels = np.random.default_rng(0).permutation((np.arange(num) + 0.5) / num)
    return np.interp(levels, mass / mass[-1], grid)[:, None]


def _ensemble(log_density: Density, num: int, walkers: int = 200, steps: int = 4000) -> np.ndarray:
    """Stretch moves, one half of the walkers at a time; the first half of the steps goes."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(walkers, 4))
    value = log_density(u)
    kept, half = [], walkers // 2
    for step in range(steps):
        for move, rest in (
            (slice(0, half), slice(half, None)),
            (slice(half, None), slice(0, half)),
        ):
            stretch = (1 + rng.random((half, 1))) ** 2 / 2
            partner = u[rest][rng.integers(half, size=half)]
            proposal = partner + stretch * (u[move] - partner)
            proposed = log_density(proposal)
            ratio = 3 * np.log(stretch[:, 0]) + proposed - value[move]
            take = np.log(rng.random(half)) < ratio
            u[move] = np.where(take[:, None], proposal, u[move])
            value[move] = np.where(take, proposed, value[move])
        if step >= steps // 2 and step % 4 == 0:
            kept.append(u.copy())
    found = np.concatenate(kept)
    return found[rng.choice(len(found), num, replace=False)]


def energy_distance(x: np.ndarray, reference: np.ndarray) -> float:
    """2 E|X - R| - E|X - X'| - E|R - R'|, coordinates in units of the reference's sds."""
    sd = reference.std(axis=0)

    def mean(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.linalg.norm((a[:, None] - b[None]) / sd, axis=2).mean())

    x, r = x[:1000], reference[:: max(1, len(reference) // 1000)][:1000]
    unbiased = len(x) / (len(x) - 1), len(r) / (len(r) - 1)
    return 2 * mean(x, r) - unbiased[0] * mean(x, x) - unbiased[1] * mean(r, r)
