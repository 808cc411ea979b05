r"""One tile of a pair sum: value and both gradients from a matrix of $K \times J$ pairs.

Points are held coordinate by coordinate, `(d, J)`, and the pair matrix grows one coordinate at a
time, so that the inner loop runs over draws and no `(K, J, d)` array is made. Squared distances
come from differences, never from a Gram matrix: in single precision that would cancel.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, Float, Scalar
from ..kernels import AbstractKernel, AbstractRadial, Gaussian, radial_of

_UNROLLED = 64  # coordinates beyond this many are added up by a loop, to bound compile time
_CHUNK = 32

PairFunction = AbstractKernel | AbstractRadial


class Points(NamedTuple):
    """Points with a weight each: 1 for a real one, 0 for padding."""

    coordinates: Float[Array, "d J"]
    weights: Float[Array, " J"]


class TileSum(NamedTuple):
    """Sum over the pairs of a tile and its gradients at the two sets of points."""

    value: Scalar
    columns: Float[Array, "d J"] | None
    rows: Float[Array, "d K"] | None


def tile_sum(
    function: PairFunction, columns: Points, rows: Points, *, diagonal: bool, gradient: bool
) -> TileSum:
    r"""$\sum_{k, j} b_k a_j\, \phi(x_j, z_k)$ over one tile, without the diagonal if asked."""
    radial = radial_of(function)
    if radial is None:
        return _custom(function, columns, rows, diagonal, gradient)  # pyright: ignore
    squared = _squared_distances(columns.coordinates, rows.coordinates)
    value, slope = radial(squared)
    if diagonal:
        off = ~np.eye(squared.shape[0], dtype=bool)
        value = jnp.where(off, value, jnp.zeros_like(value))
        slope = jnp.where(off, slope, jnp.zeros_like(slope))
    if not gradient:
        # A sum, not a product with the weights: for several chains at once XLA makes of the product
        # a loop that takes fifteen times as long.
        by_column = jnp.sum(value * rows.weights[:, None], axis=0)
        return TileSum(_dot(by_column, columns.weights), None, None)
    # Without the barrier the compiler evaluates the kernel again for each reduction.
    slope = jax.lax.optimization_barrier(slope)
    weight_columns, grad_columns = _pull(columns, rows, slope)
    _, grad_rows = _pull(rows, columns, slope.T)
    if isinstance(function, Gaussian):
        total = _dot(weight_columns, columns.weights) * function.value_over_slope(value.dtype)
    else:
        total = _dot(_dot(rows.weights, value), columns.weights)
    return TileSum(total, grad_columns, grad_rows)


def _pull(
    at: Points, others: Points, slope: Float[Array, "K J"]
) -> tuple[Float[Array, " J"], Float[Array, "d J"]]:
    r"""$\sum_k b_k w_{kj}$ and $\sum_k b_k w_{kj} (x_j - z_k)$ from one matrix product."""
    weighted = others.coordinates * others.weights[None]
    sums = _dot(jnp.concatenate([others.weights[None], weighted]), slope)
    return sums[0], at.coordinates * sums[:1] - sums[1:]


def _dot(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


def _squared_distances(x: Float[Array, "d J"], z: Float[Array, "d K"]) -> Float[Array, "K J"]:
    dimension = x.shape[0]
    if dimension <= _UNROLLED:
        return _add_coordinates(None, x, z)
    padding = ((0, -dimension % _CHUNK), (0, 0))
    chunks = [jnp.pad(p, padding).reshape(-1, _CHUNK, p.shape[1]) for p in (x, z)]
    start = jnp.zeros((z.shape[1], x.shape[1]), x.dtype)
    return jax.lax.scan(
        lambda squared, pair: (_add_coordinates(squared, *pair), None), start, tuple(chunks)
    )[0]


def _add_coordinates(squared: Array | None, x: Array, z: Array) -> Float[Array, "K J"]:
    for coordinate in range(x.shape[0]):
        difference = x[coordinate][None, :] - z[coordinate][:, None]
        square = difference * difference
        squared = square if squared is None else squared + square
    assert squared is not None
    return squared


def _custom(
    kernel: AbstractKernel, columns: Points, rows: Points, diagonal: bool, gradient: bool
) -> TileSum:
    """The same for a kernel known only as a function, by differentiating the tile."""
    keep = (rows.weights > 0)[:, None] & (columns.weights > 0)[None, :]
    if diagonal:
        keep = keep & ~np.eye(keep.shape[0], dtype=bool)
    every = jax.vmap(jax.vmap(_masked(kernel), (1, None, 0)), (None, 1, 0))

    def value(x: Array, z: Array) -> Scalar:
        return jnp.sum(every(x, z, keep))

    if not gradient:
        return TileSum(value(columns.coordinates, rows.coordinates), None, None)
    total, grads = jax.value_and_grad(value, (0, 1))(columns.coordinates, rows.coordinates)
    return TileSum(total, *grads)


def _masked(kernel: AbstractKernel) -> Callable[[Array, Array, Bool[Array, ""]], Scalar]:
    def pair(x: Array, z: Array, keep: Bool[Array, ""]) -> Scalar:
        # A pair left out is moved apart first: many kernels have no gradient where points meet,
        # and 0 * nan is nan.
        apart = jnp.where(keep, z, jax.lax.stop_gradient(x) + 1)
        value = kernel(x, apart)
        return jnp.where(keep, value, jnp.zeros_like(value))

    return pair
