r"""Sums of the Stein kernel over all pairs of points, block by block.

With gradients $s = \nabla \log \pi$ and the kernel $k(x, y) = (c^2 + \lVert x - y\rVert^2)^\beta$,
the Stein kernel of coordinate $j$ is

$$k^0_j(x, y) = s_j(x) s_j(y) k + 2\beta q^{\beta - 1} (s_j(y) - s_j(x)) (x_j - y_j)
    - 2\beta q^{\beta - 1} - 4\beta(\beta - 1)(x_j - y_j)^2 q^{\beta - 2},
    \qquad q = c^2 + \lVert x - y\rVert^2 .$$

A block of pairs holds three matrices, the powers of $q$; everything else is a product of one of
them with a few columns, so that all coordinates cost little more than their sum.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float, Scalar

BLOCK = 256  # measured: of 256, 512 and 1024 the fastest in few dimensions
_BY_DIFFERENCES = 16  # up to so many coordinates, distances are summed one coordinate at a time

Points = Float[Array, "N p"]


class Rows(NamedTuple):
    """Points of a block, their gradients, and a weight each: 0 for padding."""

    x: Points
    s: Points
    weight: Float[Array, " N"]


def _squared_distances(x: Points, y: Points) -> Float[Array, "K J"]:
    p = x.shape[1]
    if p > _BY_DIFFERENCES:  # rounding is of the order of |x|^2, and what counts is c^2 + distance
        norms = jnp.sum(x * x, axis=1)[:, None] + jnp.sum(y * y, axis=1)[None, :]
        return jnp.maximum(norms - 2 * _dot(x, y.T), 0)
    total = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
    for j in range(p):
        difference = x[:, j][:, None] - y[:, j][None, :]
        total = total + difference * difference
    return total


def _dot(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


def _block(rows: Rows, at: Rows, c: Scalar, beta: float, triangle: bool) -> Points:
    r"""$\sum_a w_a k^0_j(x_a, x_b)$ for each point $b$ of the second block, by coordinate $j$."""
    q = c * c + _squared_distances(rows.x, at.x)
    value = jax.lax.rsqrt(q) if beta == -0.5 else q**beta
    if triangle:  # pairs of a block with itself: each once
        value = jnp.where(np.triu(np.ones(q.shape, bool), 1), value, jnp.zeros_like(value))
    slope = value / q
    p, one = at.x.shape[1], rows.weight[:, None]
    ws, wx = one * rows.s, one * rows.x
    m0 = _dot(value.T, ws)
    m1 = _dot(slope.T, jnp.concatenate([one, ws, wx, ws * rows.x], axis=1))
    m2 = _dot((slope / q).T, jnp.concatenate([one, wx, wx * rows.x], axis=1))
    one1, s1, x1, sx1 = m1[:, :1], m1[:, 1 : p + 1], m1[:, p + 1 : 2 * p + 1], m1[:, 2 * p + 1 :]
    one2, x2, xx2 = m2[:, :1], m2[:, 1 : p + 1], m2[:, p + 1 :]
    cross = at.s * x1 - at.s * at.x * one1 - sx1 + at.x * s1
    square = xx2 - 2 * at.x * x2 + at.x * at.x * one2
    return at.s * m0 + 2 * beta * (cross - one1) - 4 * beta * (beta - 1) * square


@partial(jax.jit, static_argnums=2)
def _contributions(all_rows: Rows, c: Scalar, beta: float) -> tuple[Array, Array]:
    """What each point adds to the double sum over it and those before it; its own pair."""
    size = BLOCK
    number = all_rows.x.shape[0] // size

    def cut(i: Array) -> Rows:
        return jax.tree.map(lambda v: jax.lax.dynamic_slice_in_dim(v, i * size, size), all_rows)

    def column(j: Array) -> Array:
        at = cut(j)
        own = _block(at, at, c, beta, True)
        before = jax.lax.fori_loop(
            0, j, lambda i, total: total + _block(cut(i), at, c, beta, False), own
        )
        return 2 * at.weight[:, None] * before

    columns = jax.lax.map(column, jnp.arange(number)).reshape(all_rows.x.shape)
    own = all_rows.s**2 * c ** (2 * beta) - 2 * beta * c ** (2 * beta - 2)
    own = all_rows.weight[:, None] ** 2 * own
    return columns + own, own


def contributions(
    points: np.ndarray, gradients: np.ndarray, weights: np.ndarray | None, c: float, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""By point $b$ and coordinate: $w_b^2 k^0(b, b) + 2 w_b \sum_{a < b} w_a k^0(a, b)$.

    The first part alone is given as well. Sums of the first $n$ rows are the double sums over
    the first $n$ points, for all $n$ at once. Nothing larger than a block of pairs is kept.
    """
    dtype = jnp.zeros(()).dtype
    x = np.asarray(points, float)
    n = len(x)
    weight = np.ones(n) if weights is None else np.asarray(weights, float)
    padding = -n % BLOCK  # so that few shapes are compiled
    rows = [
        jnp.asarray(np.pad(v, [(0, padding)] + [(0, 0)] * (v.ndim - 1)), dtype)
        for v in (x - np.median(x, axis=0), np.asarray(gradients, float), weight)
    ]
    both, own = _contributions(Rows(*rows), jnp.asarray(c, dtype), beta)
    return np.asarray(both, np.float64)[:n], np.asarray(own, np.float64)[:n]
