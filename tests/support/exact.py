r"""Posteriors that are known without sampling: closed-form expected scores and quadrature.

For $X \sim N(\mu, s^2)$,

$$E|X| = s\sqrt{2/\pi}\, e^{-\mu^2 / 2 s^2} + \mu\,(1 - 2\Phi(-\mu / s)), \qquad
  E\,e^{-X^2 / 2\gamma^2} = \frac{\gamma}{\sqrt{\gamma^2 + s^2}}\, e^{-\mu^2 / 2(\gamma^2 + s^2)},$$

so the expected energy and Gaussian-kernel scores of a normal model are elementary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

ExpectedScore = Callable[[np.ndarray, np.ndarray | float], np.ndarray]


@dataclass(frozen=True)
class Exact:
    """Means and standard deviations by coordinate, each known up to `error` (in sds)."""

    mean: dict[str, float]
    sd: dict[str, float]
    error: float = 0.0


def mean_absolute_normal(mu: np.ndarray, sd: np.ndarray | float) -> np.ndarray:
    """E|X| of a normal variable."""
    scaled = mu / sd
    return sd * np.sqrt(2 / np.pi) * np.exp(-0.5 * scaled**2) + mu * (1 - 2 * ndtr(-scaled))


def expected_energy(y: np.ndarray) -> ExpectedScore:
    """The total expected energy score of N(location, scale^2), broadcast over both."""

    def total(location: np.ndarray, scale: np.ndarray | float = 1.0) -> np.ndarray:
        location, scale = np.asarray(location, float)[..., None], np.asarray(scale, float)
        cross = mean_absolute_normal(location - y, scale[..., None])
        return np.sum(2 * cross, axis=-1) - y.size * 2 * scale / np.sqrt(np.pi)

    return total


def expected_kernel(y: np.ndarray, bandwidth: float) -> ExpectedScore:
    """The total expected Gaussian-kernel score E k(X, X') - 2 E k(X, y) of a normal model."""

    def kernel(mu: np.ndarray, variance: np.ndarray) -> np.ndarray:
        wide = bandwidth**2 + variance
        return bandwidth / np.sqrt(wide) * np.exp(-0.5 * mu**2 / wide)

    def total(location: np.ndarray, scale: np.ndarray | float = 1.0) -> np.ndarray:
        location, scale = np.asarray(location, float)[..., None], np.asarray(scale, float)
        cross = np.sum(kernel(location - y, scale[..., None] ** 2), axis=-1)
        return y.size * kernel(np.zeros(()), 2 * scale**2) - 2 * cross

    return total


def _moments(log_density: np.ndarray, **values: np.ndarray) -> Exact:
    """Moments of a density on a regular grid: the trapezoid rule, exact for smooth tails."""
    p = np.exp(log_density - log_density.max())
    edges = np.concatenate([np.ravel(np.take(p, [0, -1], axis=a)) for a in range(p.ndim)])
    assert edges.max() < 1e-8, "the grid cuts the posterior off"
    p /= p.sum()
    mean = {k: float(np.sum(p * v)) for k, v in values.items()}
    return Exact(
        mean, {k: float(np.sqrt(np.sum(p * (v - mean[k]) ** 2))) for k, v in values.items()}
    )


def location_posterior(score: ExpectedScore, weight: float = 1.0) -> Exact:
    """Posterior of the mean of N(mean, 1) under the prior N(0, 1)."""
    grid = np.linspace(-8, 8, 4001)
    return _moments(-0.5 * grid**2 - weight * score(grid, 1.0), mean=grid)


def location_scale_posterior(score: ExpectedScore, weight: float = 1.0) -> Exact:
    """Posterior of N(mean, scale^2) under mean ~ N(0, 2^2) and scale ~ HalfNormal(2).

    The grid runs over log scale, whose Jacobian is the scale itself.
    """
    location, log_scale = np.meshgrid(
        np.linspace(-14, 14, 1201), np.linspace(-26, 3.2, 1501), indexing="ij"
    )
    scale = np.exp(log_scale)
    prior = -0.125 * location**2 - 0.125 * scale**2 + log_scale
    total = np.stack([score(a, b) for a, b in zip(location, scale, strict=True)])
    return _moments(prior - weight * total, mean=location, scale=scale)


def finite_location_posterior(
    y: np.ndarray, num_simulations: int, *, num_noises: int, weight: float = 1.0
) -> Exact:
    r"""What pseudo-marginal chains target: $\pi(\theta)\,E_z e^{-w\sum_i\hat S_i(\theta, z)}$.

    Quadrature in the mean, Monte Carlo over the noise of N(mean, 1) under the energy score, on
    NumPy's own random numbers. The distance sum of all observations is piecewise linear in a draw,
    so interpolating between its knots is exact. `error` is four standard errors over batches.
    """
    grid, rng = np.linspace(-4.5, 5.5, 101), np.random.default_rng(0)
    m, batches = num_simulations, 20
    knots = np.concatenate([[-60.0], np.sort(y), [60.0]])
    distance = np.abs(knots[:, None] - y).sum(axis=1)
    order = 2 * np.arange(1, m + 1) - m - 1
    logs = np.empty((batches, grid.size))
    for b in range(batches):
        z = np.sort(rng.standard_normal((num_noises // batches, m)), axis=1)
        spread = 2 * (z @ order) / (m * (m - 1))
        total = np.stack([np.interp(g + z, knots, distance).mean(axis=1) for g in grid])
        logs[b] = logsumexp(-weight * (2 * total - y.size * spread), axis=1)
    prior = -0.5 * grid**2
    whole = _moments(prior + logsumexp(logs, axis=0), mean=grid)
    parts = [_moments(prior + row, mean=grid) for row in logs]
    errors = [
        np.std([getattr(part, kind)["mean"] for part in parts]) / np.sqrt(batches)
        for kind in ("mean", "sd")
    ]
    return Exact(whole.mean, whole.sd, error=4 * max(errors) / whole.sd["mean"])


def g_and_k_posterior(y: float, weight: float = 1.0, nodes: int = 20) -> Exact:
    """Posterior of the univariate g-and-k model for one observation, by brute-force quadrature.

    Gauss-Legendre nodes over the uniform prior on [0, 4]^4; the two expectations of the energy
    score are sums over the quantiles, E|X - X'| = 2 E X (2 U - 1) as the quantile function rises.
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    x, w = 2 * (x + 1), w / 2
    z = np.linspace(-9, 9, 1201)
    mass = np.exp(-0.5 * z**2)
    mass /= mass.sum()
    rank = 2 * (2 * ndtr(z) - 1) * mass
    logs = np.empty((nodes,) * 4)
    for i, g in enumerate(x):
        for j, k in enumerate(x):
            shape = (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z
            draws = x[:, None, None] + x[None, :, None] * shape  # (A, B, z)
            logs[:, :, i, j] = -weight * (2 * np.abs(draws - y) @ mass - x * (shape @ rank))
    p = np.exp(logs - logs.max()) * np.einsum("a,b,c,d->abcd", w, w, w, w)
    p /= p.sum()
    mean, sd = {}, {}
    for axis, name in enumerate("ABgk"):
        marginal = p.sum(axis=tuple(a for a in range(4) if a != axis))
        mean[name] = float(marginal @ x)
        sd[name] = float(np.sqrt(marginal @ (x - mean[name]) ** 2))
    return Exact(mean, sd)
