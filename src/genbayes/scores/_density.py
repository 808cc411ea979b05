r"""Gaussian kernel density estimates of single coordinates, on the log scale.

Where an observation is far from all draws the distribution function is within rounding of 0 or 1;
$\Phi^{-1}$ is therefore taken of the logarithm of the smaller tail.
"""

from functools import cache
from math import log, pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import erfcx

from .._types import Array, Float, Observations, Simulations

_ROOT_TWO_PI = sqrt(2 * pi)
_FIT = {True: (9, 4.25), False: (22, 5.75)}  # degree and centre that suit single precision, double


def margins(
    simulations: Simulations, observations: Observations
) -> tuple[Float[Array, "d n"], Float[Array, "d n"]]:
    r"""$\ln \hat f_k(y^k)$ and $\Phi^{-1}(\hat F_k(y^k))$, one coordinate at a time.

    The `(n, m)` matrix of a coordinate is made again in the backward pass, not kept.
    """
    one = jax.checkpoint(_margin)  # pyright: ignore[reportPrivateImportUsage]
    pairs = (simulations.T, observations.T)
    log_density, log_tail, side = jax.lax.map(lambda pair: one(*pair), pairs)
    return log_density, side * log_quantile(log_tail)


def _margin(
    x: Float[Array, " m"], y: Float[Array, " n"]
) -> tuple[Float[Array, " n"], Float[Array, " n"], Float[Array, " n"]]:
    m = x.shape[0]
    # Seen from one of the draws: an offset common to all would swallow the digits of a sum.
    x, y = x - jax.lax.stop_gradient(x[:1]), y - jax.lax.stop_gradient(x[:1])
    variance = jnp.sum((x - jnp.mean(x)) ** 2) / (m - 1)
    bandwidth = (0.75 * m) ** -0.2 * jnp.sqrt(variance)
    log_bells, log_tail, side = log_sums((y[:, None] - x[None, :]) / bandwidth)
    return log_bells - jnp.log(bandwidth) - log(m * _ROOT_TWO_PI), log_tail - log(m), side


@jax.custom_jvp
def log_sums(t: Float[Array, "n m"]) -> tuple[Array, Array, Array]:
    r"""Of rows, $\ln\sum e^{-t^2/2}$, $\ln$ of the smaller of $\sum\Phi(\pm t)$, and its sign."""
    return _log_sums(t)[0]


@log_sums.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Any, Any]:
    (t,), (step,) = primals, tangents
    (log_bells, log_tail, side), bell, relative = _log_sums(t)
    slope = -jnp.sum(t * bell * step, axis=1) / jnp.sum(bell, axis=1)
    tail_slope = side * relative * jnp.sum(bell * step, axis=1)
    return (log_bells, log_tail, side), (slope, tail_slope, jnp.zeros_like(side))


def _log_sums(t: Float[Array, "n m"]) -> tuple[tuple[Array, Array, Array], Array, Array]:
    r"""The sums, all terms relative to the largest bell so that none is lost; slopes from bells."""
    size = jnp.abs(t)
    nearest = jnp.min(size, axis=1)
    # As a product, never below 0: of two squares compiled apart one may be rounded and one not.
    bell = jnp.exp(-0.5 * (size - nearest[:, None]) * (size + nearest[:, None]))
    tail = bell * tail_over_bell(size)
    right, zero = t >= 0, jnp.zeros_like(t)
    lower, upper = (jnp.sum(jnp.where(c, tail, zero), axis=1) for c in (~right, right))
    left_of = jnp.sum(right, axis=1).astype(t.dtype)  # draws to the left of the observation
    right_of, scale = t.shape[1] - left_of, jnp.exp(-0.5 * nearest**2)
    below = (left_of - scale * upper) + scale * lower
    above = (right_of - scale * lower) + scale * upper
    low = below < above
    tail, alone = jnp.where(low, lower, upper), jnp.where(low, left_of, right_of) == 0
    small = jnp.where(low, below, above)
    log_tail = jnp.where(alone, jnp.log(tail) - 0.5 * nearest**2, jnp.log(small))
    relative = jnp.where(alone, 1 / tail, scale / small) / _ROOT_TWO_PI
    log_bells = jnp.log(jnp.sum(bell, axis=1)) - 0.5 * nearest**2
    return (log_bells, log_tail, jnp.where(low, 1.0, -1.0).astype(t.dtype)), bell, relative


@jax.custom_jvp
def log_quantile(log_probability: Array) -> Array:
    r"""$\Phi^{-1}(e^l)$ for $l \le \ln\tfrac12$, however far down, by Newton on the log scale.

    It starts within 4.5e-4, from formula 26.2.23 of Abramowitz and Stegun (1964), Handbook of
    mathematical functions; three steps are enough for double precision.
    """
    r = jnp.sqrt(-2 * log_probability)
    numerator = 2.515517 + r * (0.802853 + r * 0.010328)
    eta = numerator / (1 + r * (1.432788 + r * (0.189269 + r * 0.001308))) - r
    for _ in range(3):
        tail = tail_over_bell(-eta)
        off = jnp.log(tail) - 0.5 * eta**2 - log_probability
        eta = eta - off * tail * _ROOT_TWO_PI
    return eta


@log_quantile.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    eta = log_quantile(*primals)
    return eta, _ROOT_TWO_PI * tail_over_bell(-eta) * tangents[0]


def tail_over_bell(t: Array) -> Array:
    r"""$\Phi(-t)\,e^{t^2/2}$ for $t \ge 0$, within a few units of the last place.

    A polynomial in $(t - c)/(t + c)$ over $1 + 2t/c$: neither grows, however large $t$.
    """
    centre, polynomial = _polynomial(t.dtype == jnp.float32)
    z = (t - centre) / (t + centre)
    value = jnp.full_like(t, polynomial[-1])
    for coefficient in polynomial[-2::-1]:
        value = value * z + coefficient
    return value / (1 + t * (2 / centre))


@cache
def _polynomial(single: bool) -> tuple[float, list[float]]:
    """By Chebyshev interpolation of SciPy's scaled complementary error function."""
    degree, centre = _FIT[single]
    z = np.cos((np.arange(400) + 0.5) * pi / 400)
    t = centre * (1 + z) / (1 - z)
    value = 0.5 * erfcx(t / sqrt(2)) * (1 + 2 * t / centre)
    fit = np.polynomial.chebyshev.chebfit(z, value, degree)
    return centre, np.polynomial.chebyshev.cheb2poly(fit).tolist()
