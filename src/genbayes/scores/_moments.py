"""Sample mean and covariance, with the two ways of shrinking the covariance."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from .._checks import check_positive
from .._types import Array, Float, Observations, Scalar, Simulations
from ._pairs import bulk_centre

Shrinkage = float | str | None


class NormalFit(NamedTuple):
    """Mean, as seen from a point in the bulk of the draws, and Cholesky factor of a covariance."""

    origin: Float[Array, " d"]
    mean: Float[Array, " d"]
    factor: Float[Array, "d d"]

    def log_determinant(self) -> Scalar:
        r"""$\ln \det \Sigma$."""
        return 2 * jnp.sum(jnp.log(jnp.diagonal(self.factor)))

    def mahalanobis(self, observations: Observations) -> Float[Array, " n"]:
        r"""$(y_i - \mu)^\top \Sigma^{-1} (y_i - \mu)$."""
        residuals = (observations - self.origin[None]) - self.mean[None]
        return quadratic_form(self.factor, residuals)


def quadratic_form(factor: Float[Array, "d d"], rows: Float[Array, "n d"]) -> Float[Array, " n"]:
    r"""$r_i^\top (L L^\top)^{-1} r_i$ for each row."""
    return jnp.sum(solve_triangular(factor, rows.T, lower=True) ** 2, axis=0)


def normal_fit(simulations: Simulations, shrinkage: Shrinkage = None) -> NormalFit:
    """Fit with divisor `m`; distances are taken from within the draws, so offsets do not cancel."""
    origin = bulk_centre(simulations)
    shifted = simulations - origin[None]
    mean = jnp.mean(shifted, axis=0)
    residuals = shifted - mean[None]
    covariance = _gram(residuals) / simulations.shape[0]
    if shrinkage == "ledoit-wolf":
        covariance = _ledoit_wolf(residuals, covariance)
    elif shrinkage is not None:
        keep = 1 - float(shrinkage)
        diagonal = jnp.diag(jnp.diagonal(covariance))
        covariance = keep * covariance + (1 - keep) * diagonal
    return NormalFit(origin, mean, jnp.linalg.cholesky(covariance))


def check_shrinkage(shrinkage: Shrinkage) -> None:
    """Refuse anything but nothing, `"ledoit-wolf"` or a number in (0, 1]."""
    if shrinkage is None or shrinkage == "ledoit-wolf":
        return
    hint = 'shrinkage must be None, "ledoit-wolf" or a number above 0 and up to 1'
    if isinstance(shrinkage, str):
        raise ValueError(f"{hint}, got {shrinkage!r}.")
    check_positive("shrinkage", shrinkage)
    if shrinkage > 1:
        raise ValueError(f"{hint}, got {shrinkage!r}.")


def check_enough(name: str, simulations: Simulations, more_than: int) -> None:
    """Refuse a covariance that cannot have full rank."""
    m, d = simulations.shape
    if m <= more_than:
        raise ValueError(
            f"{name} needs more than {more_than} simulations in dimension {d}, got {m}; raise "
            "num_simulations, use SyntheticLikelihood(shrinkage=...) or take fewer summaries."
        )


def _gram(residuals: Float[Array, "m d"]) -> Float[Array, "d d"]:
    return jnp.matmul(residuals.T, residuals, precision=jax.lax.Precision.HIGHEST)


def _ledoit_wolf(
    residuals: Float[Array, "m d"], covariance: Float[Array, "d d"]
) -> Float[Array, "d d"]:
    r"""$(1 - \rho) S + \rho\,\mu I$, with $\rho$ from the scatter of $x x^\top$ around $S$."""
    m, d = residuals.shape
    level = jnp.trace(covariance) / d
    identity = jnp.eye(d, dtype=covariance.dtype)
    distance = jnp.sum((covariance - level * identity) ** 2)
    fourth = jnp.mean(jnp.sum(residuals**2, axis=1) ** 2)
    noise = jnp.minimum((fourth - jnp.sum(covariance**2)) / m, distance)
    # In one dimension, or for a covariance that is a multiple of the identity, nothing is to do.
    safe = jnp.where(distance > 0, distance, jnp.ones_like(distance))
    rate = jnp.where(distance > 0, noise / safe, jnp.zeros_like(noise))
    return (1 - rate) * covariance + rate * level * identity
