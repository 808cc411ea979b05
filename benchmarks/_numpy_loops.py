"""What one would write first in NumPy: pseudo-marginal Metropolis on the g-and-k models.

Double precision, a Python loop over steps and over observations, arrays over the simulations.
"""

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import norm, rankdata

from ._rounds import clock

LIMIT = 3**0.5 / 3


class Loop:
    """A chain on the unconstrained parameters, with fresh noise or one group of it a step."""

    def __init__(
        self, observations: np.ndarray, score: str, groups: int | None, num_simulations: int = 500
    ):
        y = np.asarray(observations, float)
        self.y, self.d = y.reshape(len(y), -1), y.reshape(len(y), -1).shape[1]
        self.score, self.groups, self.m = getattr(self, f"_{score}"), groups, num_simulations
        self.scale = 0.05
        self.rng = np.random.default_rng(0)
        self.u = self._start()
        self.z = self.rng.standard_normal((self.m, self.d))
        self.value = self._log_density(self.u, self.z)

    def _start(self) -> np.ndarray:
        quarter = np.array([3.0, 1.5, 0.5, 1.5]) / 4
        u = np.log(quarter / (1 - quarter))
        if self.d == 1:
            return u
        share = (-0.3 + LIMIT) / (2 * LIMIT)
        return np.append(u, np.log(share / (1 - share)))

    def _simulate(self, u: np.ndarray, z: np.ndarray) -> np.ndarray:
        share = 1 / (1 + np.exp(-u))
        a, b, g, k = 4 * share[:4]
        if self.d > 1:
            rho = LIMIT * (2 * share[4] - 1)
            off = np.eye(self.d, k=1) + np.eye(self.d, k=-1)
            z = z @ np.linalg.cholesky(np.eye(self.d) + rho * off).T
        return a + b * (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z

    def _log_density(self, u: np.ndarray, z: np.ndarray) -> float:
        log_jacobian = -np.sum(np.logaddexp(0, u) + np.logaddexp(0, -u))
        return log_jacobian - self.score(self._simulate(u, z))

    def _energy(self, x: np.ndarray) -> float:
        pairs = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
        within = pairs.sum() / (self.m * (self.m - 1))
        return sum(
            2 * np.mean(np.sqrt(((x - y) ** 2).sum(-1))) - within for y in self.y
        )  # fmt: skip

    def _kernel(self, x: np.ndarray) -> float:
        pairs = np.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / (2 * 5.5**2))
        within = (pairs.sum() - self.m) / (self.m * (self.m - 1))
        return sum(
            within - 2 * np.mean(np.exp(-((x - y) ** 2).sum(-1) / (2 * 5.5**2))) for y in self.y
        )

    def _bsl(self, x: np.ndarray) -> float:
        mean, covariance = x.mean(0), np.atleast_2d(np.cov(x.T, bias=True))
        _, log_determinant = np.linalg.slogdet(covariance)
        total = 0.0
        for y in self.y:
            r = y - mean
            total += 0.5 * (self.d * np.log(2 * np.pi) + log_determinant)
            total += 0.5 * r @ np.linalg.solve(covariance, r)
        return total

    def _semibsl(self, x: np.ndarray) -> float:
        bandwidth = (0.75 * self.m) ** -0.2 * x.std(0, ddof=1)
        ranks = ndtri(rankdata(x, axis=0) / (self.m + 1))
        correlation = np.corrcoef(ranks.T).reshape(self.d, self.d)
        _, log_determinant = np.linalg.slogdet(correlation)
        total = 0.0
        for y in self.y:
            t = (y - x) / bandwidth
            density = norm.pdf(t).mean(0) / bandwidth
            with np.errstate(divide="ignore", invalid="ignore"):
                eta = ndtri(ndtr(t).mean(0))
                total += 0.5 * (log_determinant + eta @ np.linalg.solve(correlation, eta))
                total += -0.5 * eta @ eta - np.sum(np.log(density))
        return total

    def step(self) -> None:
        """One proposal."""
        u = self.u + self.scale * self.rng.standard_normal(len(self.u))
        if self.groups is None:
            z = self.rng.standard_normal((self.m, self.d))
        else:
            group = self.rng.integers(self.groups)
            rows = slice(group * self.m // self.groups, (group + 1) * self.m // self.groups)
            z = self.z.copy()
            z[rows] = self.rng.standard_normal(z[rows].shape)
        value = self._log_density(u, z)
        if np.log(self.rng.uniform()) < value - self.value:
            self.u, self.z, self.value = u, z, value

    def seconds_per_step(self, steps: int) -> float:
        """The time of one of so many steps."""
        began = clock()
        for _ in range(steps):
            self.step()
        return (clock() - began) / steps
