r"""Gaussian kernel density estimates of single coordinates, on the log scale.

Where an observation is far from all draws the distribution function is within rounding of 0 or 1;
$\Phi^{-1}$ is therefore taken of the logarithm of the smaller tail.
"""

from math import log, pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import erfcx, logsumexp, ndtri

from .._types import Array, Float, Observations, Simulations

_LOG_ROOT_TWO_PI = 0.5 * log(2 * pi)
_SERIES = 16  # terms: enough for double precision at 8


def margins(
    simulations: Simulations, observations: Observations
) -> tuple[Float[Array, "d n"], Float[Array, "d n"]]:
    r"""$\ln \hat f_k(y^k)$ and $\Phi^{-1}(\hat F_k(y^k))$, one coordinate at a time.

    The `(n, m)` matrix of a coordinate is made again in the backward pass, not kept.
    """
    one = jax.checkpoint(_margin)  # pyright: ignore[reportPrivateImportUsage]
    return jax.lax.map(lambda pair: one(*pair), (simulations.T, observations.T))


def _margin(
    x: Float[Array, " m"], y: Float[Array, " n"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    m = x.shape[0]
    # Seen from one of the draws: an offset common to all would swallow the digits of a sum.
    x, y = x - jax.lax.stop_gradient(x[:1]), y - jax.lax.stop_gradient(x[:1])
    variance = jnp.sum((x - jnp.mean(x)) ** 2) / (m - 1)
    bandwidth = (0.75 * m) ** -0.2 * jnp.sqrt(variance)
    standard = (y[:, None] - x[None, :]) / bandwidth
    log_density = logsumexp(-0.5 * standard**2, axis=1) - jnp.log(bandwidth)
    tails = log_tails(standard)
    below, above = (logsumexp(tail, axis=1) - log(m) for tail in tails)
    low = below < above
    quantile = log_quantile(jnp.where(low, below, above))
    return log_density - log(m) - _LOG_ROOT_TWO_PI, jnp.where(low, quantile, -quantile)


@jax.custom_jvp
def log_tails(t: Array) -> tuple[Array, Array]:
    r"""$\ln \Phi(t)$ and $\ln \Phi(-t)$, both from one evaluation of the scaled error function."""
    scaled = 0.5 * scaled_erfc(jnp.abs(t) * sqrt(0.5))  # the smaller tail over exp(-t^2 / 2)
    small = jnp.log(scaled) - 0.5 * t**2
    large = jnp.log1p(-scaled * jnp.exp(-0.5 * t**2))
    return jnp.where(t < 0, small, large), jnp.where(t < 0, large, small)


@log_tails.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Any, Any]:
    (t,) = primals
    scaled = 0.5 * scaled_erfc(jnp.abs(t) * sqrt(0.5))
    bell = jnp.exp(-0.5 * t**2)
    small, large = 1 / scaled, bell / (1 - scaled * bell)
    rise = jnp.where(t < 0, small, large) / sqrt(2 * pi)
    fall = -jnp.where(t < 0, large, small) / sqrt(2 * pi)
    return log_tails(t), (rise * tangents[0], fall * tangents[0])


@jax.custom_jvp
def log_quantile(log_probability: Array) -> Array:
    r"""$\Phi^{-1}(e^l)$ for $l \le \ln\tfrac12$, however far down, by Newton on the log scale."""
    ordinary = ndtri(jnp.exp(jnp.maximum(log_probability, -5.0)))
    safe = jnp.minimum(log_probability, -5.0)
    tail = -jnp.sqrt(-2 * (safe + _LOG_ROOT_TWO_PI + 0.5 * jnp.log(-2 * safe)))

    def newton(_: Any, eta: Array) -> Array:
        return eta - (log_tails(eta)[0] - log_probability) * mills_ratio(eta)

    return jax.lax.fori_loop(0, 3, newton, jnp.where(log_probability > -5.0, ordinary, tail))


@log_quantile.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    eta = log_quantile(*primals)
    return eta, mills_ratio(eta) * tangents[0]


def mills_ratio(eta: Array) -> Array:
    r"""$\Phi(\eta) / \varphi(\eta)$, in a form that holds far below 0."""
    return sqrt(pi / 2) * scaled_erfc(-eta * sqrt(0.5))


def scaled_erfc(x: Array) -> Array:
    r"""$e^{x^2} \operatorname{erfc}(x)$, by its asymptotic series from 8 on.

    JAX's own is 0 in single precision between 9.2 and the start of its series (jax 0.10).
    """
    far = jnp.maximum(x, 8.0)
    inverse = 0.5 / far**2
    series = jnp.ones_like(far)
    for k in range(_SERIES, 0, -1):
        series = 1 - (2 * k - 1) * inverse * series
    return jnp.where(x < 8.0, erfcx(jnp.minimum(x, 8.0)), series / (far * sqrt(pi)))
