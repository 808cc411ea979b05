r"""Tiles of a pair sum: value and both gradients from matrices of $K \times J$ pairs.

Points are held coordinate by coordinate, `(C, d, J)` for `C` tiles at once, and the pair matrix
grows one coordinate at a time, so that the inner loop runs over draws and no array with pairs and
coordinates is made. Squared distances come from differences, never from a Gram matrix: in single
precision that would cancel.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._types import Array, Bool, Float, Scalar
from ..kernels import AbstractKernel, AbstractRadial, Gaussian, radial_of

_UNROLLED = 64  # coordinates beyond this many are added up by a loop, to bound compile time
_CHUNK = 32

PairFunction = AbstractKernel | AbstractRadial


class Points(NamedTuple):
    """Points of some tiles with a weight each: 1 for a real one, 0 for padding."""

    coordinates: Float[Array, "C d J"]
    weights: Float[Array, "C J"]


class TileSum(NamedTuple):
    """Sum over the pairs of the tiles and its gradients at the two sets of points."""

    value: Scalar
    columns: Float[Array, "C d J"] | None
    rows: Float[Array, "C d K"] | None


def tile_sum(
    function: PairFunction,
    columns: Points,
    rows: Points,
    keep: Bool[Array, "K J"] | None,
    *,
    gradient: bool,
) -> TileSum:
    r"""$\sum_{k, j} b_k a_j\, \phi(x_j, z_k)$ over the tiles, without the pairs not to `keep`."""
    radial = radial_of(function)
    if radial is None:
        return _custom(function, columns, rows, keep, gradient)  # pyright: ignore
    squared = _squared_distances(columns.coordinates, rows.coordinates)
    # With nothing to leave out, a choice that always falls the same way: XLA hands sums and
    # products to a library together with the arithmetic before them, which it is slow at; a choice
    # stays outside, and what comes before it with it.
    kept = keep[None] if keep is not None else ~(squared < 0)
    value, slope = (jnp.where(kept, part, jnp.zeros_like(part)) for part in radial(squared))
    if not gradient:
        return TileSum(_total(value, columns, rows), None, None)
    weight_columns, grad_columns = _pull(columns, rows, slope, 1)
    _, grad_rows = _pull(rows, columns, slope, 2)
    if isinstance(function, Gaussian):
        over_slope = function.value_over_slope(value.dtype)
        total = over_slope * jnp.sum(weight_columns * columns.weights)
    else:
        total = _total(value, columns, rows)
    return TileSum(total, grad_columns, grad_rows)


def _total(value: Float[Array, "C K J"], columns: Points, rows: Points) -> Scalar:
    # A sum, not a product with the weights: for several chains at once XLA makes of the product a
    # loop that takes fifteen times as long.
    by_column = jnp.sum(value * rows.weights[:, :, None], axis=1)
    return jnp.sum(by_column * columns.weights)


def _pull(
    at: Points, others: Points, slope: Float[Array, "C K J"], axis: int
) -> tuple[Float[Array, "C J"], Float[Array, "C d J"]]:
    r"""$\sum_k b_k w_{kj}$ and $\sum_k b_k w_{kj} (x_j - z_k)$ from one matrix product.

    Along an axis of the slopes as they are: transposed, they would first be copied.
    """
    weights = others.weights[:, None]
    weighted = jnp.concatenate([weights, others.coordinates * weights], axis=1)
    dimensions = (((2,), (axis,)), ((0,), (0,)))
    sums = jax.lax.dot_general(weighted, slope, dimensions, precision=jax.lax.Precision.HIGHEST)
    return sums[:, 0], at.coordinates * sums[:, :1] - sums[:, 1:]


def _squared_distances(x: Float[Array, "C d J"], z: Float[Array, "C d K"]) -> Float[Array, "C K J"]:
    (tiles, dimension, size) = x.shape
    if dimension <= _UNROLLED:
        return _add_coordinates(None, x, z)
    padding = ((0, 0), (0, -dimension % _CHUNK), (0, 0))
    chunks = [
        jnp.moveaxis(jnp.pad(p, padding).reshape(tiles, -1, _CHUNK, p.shape[2]), 1, 0)
        for p in (x, z)
    ]
    start = jnp.zeros((tiles, z.shape[2], size), x.dtype)
    return jax.lax.scan(
        lambda squared, pair: (_add_coordinates(squared, *pair), None), start, tuple(chunks)
    )[0]


def _add_coordinates(squared: Array | None, x: Array, z: Array) -> Float[Array, "C K J"]:
    for coordinate in range(x.shape[1]):
        difference = x[:, coordinate, None, :] - z[:, coordinate, :, None]
        square = difference * difference
        squared = square if squared is None else squared + square
    assert squared is not None
    return squared


def _custom(
    kernel: AbstractKernel, columns: Points, rows: Points, keep: Array | None, gradient: bool
) -> TileSum:
    """The same for a kernel known only as a function, by differentiating the tiles."""
    real = (rows.weights > 0)[:, :, None] & (columns.weights > 0)[:, None, :]
    kept = real if keep is None else real & keep[None]
    every = jax.vmap(jax.vmap(jax.vmap(_masked(kernel), (1, None, 0)), (None, 1, 0)))

    def value(x: Array, z: Array) -> Scalar:
        return jnp.sum(every(x, z, kept))

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
