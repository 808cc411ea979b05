r"""Posteriors at many weights, and for many resampled data sets, from one cloud of points.

The score of each observation at each point of the cloud is computed once; a posterior at any weight
is then a set of importance weights. The cloud is a mixture of t distributions around the Laplace
approximations at a quarter of a weight, at the weight, and at four times it.
"""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from ._risk import Fit, newton, scores_at

DEGREES = 5  # of freedom: heavier tails than any posterior that the data rule
WIDER = 1.2  # than the Laplace approximation
SHARES = (0.25, 1.0, 4.0)
REACH = 8.0  # a cloud serves weights up to so many times its own, to both sides
LEAST_SHARE = 0.02  # effective share of the points below which a posterior is not to be trusted


class Cloud(NamedTuple):
    """Points `(N, p)`, scores `(N, n)`, and log prior density less that of the cloud `(N,)`.

    `centre_scores` `(n,)` and `centre_prior` belong to the minimiser; `weight` to the cloud.
    """

    u: np.ndarray
    scores: np.ndarray
    log_ratio: np.ndarray
    centre_scores: np.ndarray
    prior: np.ndarray
    centre_prior: float
    weight: float
    calls: int

    def shares(self, weight: float) -> tuple[np.ndarray, float]:
        """The posterior at a weight: the share of each point, and the effective share of them."""
        share = shares_of(self.log_ratio - weight * self.scores.sum(axis=1))
        return share, effective(share)


def shares_of(logs: np.ndarray) -> np.ndarray:
    """Weights along the last axis that add up to 1."""
    return special.softmax(logs, axis=-1)


def effective(share: np.ndarray) -> float:
    """Effective share of the points, on average over the first axis if there are two."""
    return float(np.mean(1 / np.sum(share**2, axis=-1)) / share.shape[-1])


def cloud_around(fit: Fit, weight: float, num: int, rng: np.random.Generator) -> Cloud:
    """A cloud for weights around one."""
    parts = [_laplace(fit, weight * share) for share in SHARES]
    each = -(-num // len(parts))
    u = np.concatenate([_even_points(part, each, rng) for part in parts])
    density = special.logsumexp([part.logpdf(u) for part in parts], axis=0) - np.log(len(parts))
    points = np.concatenate([u, fit.u[None]])
    prior_density = jax.vmap(fit.risk.target.problem.prior.log_prob_unconstrained)
    prior = np.asarray(prior_density(jnp.asarray(points, float)), float)
    scores = scores_at(fit.risk, points)
    fine = np.isfinite(scores).all(axis=1) & np.isfinite(prior)
    # a point without a score has no weight
    scores, prior = np.where(fine[:, None], scores, 0.0), np.where(fine, prior, -np.inf)
    calls = len(points) * fit.risk.target.simulations_per_estimate
    return Cloud(
        u, scores[:-1], prior[:-1] - density, scores[-1], prior[:-1], float(prior[-1]), weight,
        calls,
    )  # fmt: skip


def _even_points(part: Any, num: int, rng: np.random.Generator) -> np.ndarray:
    """Points of a t distribution `(num, p)`, from a Sobol set: more even than draws."""
    size = part.loc.shape[0]
    with warnings.catch_warnings():  # the number of points need not be a power of two
        warnings.simplefilter("ignore", UserWarning)
        uniform = stats.qmc.Sobol(size + 1, rng=rng).random(num).clip(1e-12, 1 - 1e-12)
    scale = np.sqrt(stats.chi2.ppf(uniform[:, -1:], DEGREES) / DEGREES)
    lower = np.linalg.cholesky(np.atleast_2d(part.shape))
    return part.loc + stats.norm.ppf(uniform[:, :-1]) @ lower.T / scale


def _laplace(fit: Fit, weight: float) -> Any:
    """A wide t distribution around the normal approximation of the posterior at a weight."""
    values, vectors = np.linalg.eigh(fit.prior_curvature)
    prior = (vectors * np.maximum(values, 0)) @ vectors.T  # a prior may be flat, or have a dip
    rows = np.full((1, fit.size), weight)
    mode, found = newton(fit, rows, prior, 1.0)
    centre = mode[0] if found[0] else fit.u
    covariance = WIDER**2 * np.linalg.inv(weight * fit.curvature + prior)
    shape: Any = (covariance + covariance.T) / 2
    return stats.multivariate_t(centre, shape, df=DEGREES)
