r"""Sums of a function over all pairs of points, with their gradients in the same pass.

`within` sums $\phi(x_j, x_k)$ over $j \ne k$, `between` sums $\phi(x_j, y_i)$ over all pairs. Both
carry a forward derivative rule that is linear in the tangent, so that forward mode, reverse mode
and `vmap` all follow from it; the gradient is made next to the value, tile by tile, and no array
of all pairs is kept. Derivatives with respect to the function's own parameters go through
ordinary differentiation of the tiles.
"""

from functools import partial
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float, Observations, Scalar, Simulations
from ..kernels import radial_of
from ._tiles import PairFunction, Points, TileSum, tile_sum

_ONE_TILE = 1024  # up to this many points in few dimensions, a single tile is fastest (measured)
_TILE = 512
_FEW_COORDINATES = 16
_PAIRS = 2**19  # pairs of a tile in `between`


@jax.custom_jvp
def within(function: PairFunction, x: Simulations) -> Scalar:
    r"""$\sum_{j \ne k} \phi(x_j, x_k)$ for `(m, d)` points."""
    return _within(function, x, False)[0]


@partial(within.defjvp, symbolic_zeros=True)
def _(primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
    function, x = primals
    value, gradient = _within(function, x, True)
    tangent = _inner(gradient, tangents[1])
    tangent += _parameter_tangent(lambda f: _within(f, x, False)[0], function, tangents[0])
    return value, tangent


@jax.custom_jvp
def between(function: PairFunction, x: Simulations, y: Observations) -> Scalar:
    r"""$\sum_{j, i} \phi(x_j, y_i)$ for `(m, d)` and `(n, d)` points."""
    return _between(function, x, y, False)[0]


@partial(between.defjvp, symbolic_zeros=True)
def _(primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
    function, x, y = primals
    value, grad_x, grad_y = _between(function, x, y, True)
    tangent = _inner(grad_x, tangents[1]) + _inner(grad_y, tangents[2])
    tangent += _parameter_tangent(lambda f: _between(f, x, y, False)[0], function, tangents[0])
    return value, tangent


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


def _inner(gradient: Array, tangent: Any) -> Scalar:
    if _is_zero(tangent):
        return jnp.zeros((), gradient.dtype)
    return jnp.sum(gradient * tangent)


def _parameter_tangent(value: Any, function: PairFunction, tangents: Any) -> Scalar | float:
    leaves = jax.tree.leaves(tangents, is_leaf=_is_zero)
    if all(_is_zero(leaf) for leaf in leaves):
        return 0.0
    filled = [jnp.zeros(t.shape, t.dtype) if _is_zero(t) else t for t in leaves]
    structure = jax.tree.structure(function)
    return jax.jvp(value, (function,), (jax.tree.unflatten(structure, filled),))[1]


def bulk_centre(x: Simulations) -> Float[Array, " d"]:
    """A point in the bulk of the draws that a few wild ones cannot move: a median of medians."""
    nine = x[np.linspace(0, x.shape[0] - 1, 9).astype(int)].reshape(3, 3, -1)
    return jax.lax.stop_gradient(_middle(_middle(nine)))


def _middle(three: Array) -> Array:
    a, b, c = three
    return jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))


def _points(x: Simulations, centre: Array, size: int) -> Points:
    """Coordinates by row, padded to a whole number of tiles by copies of a real point."""
    padding = -x.shape[0] % size
    coordinates = jnp.pad((x - centre[None]).T, ((0, 0), (0, padding)), mode="edge")
    weights = np.r_[np.ones(x.shape[0]), np.zeros(padding)]
    # Held as they are: fused into the pair loop, the transposition would be done for every pair.
    return Points(jax.lax.optimization_barrier(coordinates), jnp.asarray(weights, x.dtype))


def _cut(points: Points, index: Array, size: int) -> Points:
    start = index * size
    return Points(
        jax.lax.dynamic_slice_in_dim(points.coordinates, start, size, axis=1),
        jax.lax.dynamic_slice_in_dim(points.weights, start, size),
    )


def _add(total: Array, index: Array, part: Array) -> Array:
    size = part.shape[1]
    old = jax.lax.dynamic_slice_in_dim(total, index * size, size, axis=1)
    return jax.lax.dynamic_update_slice_in_dim(total, old + part, index * size, axis=1)


def _origin(function: PairFunction, x: Simulations) -> Array:
    """Where distances are measured from; a kernel of unknown form must see points as they are."""
    return jnp.zeros_like(x[0]) if radial_of(function) is None else bulk_centre(x)


@partial(jax.jit, static_argnums=2)
def _within(function: PairFunction, x: Simulations, gradient: bool) -> tuple[Scalar, Any]:
    m, d = x.shape
    size = m if m <= _ONE_TILE and d <= _FEW_COORDINATES else ceil(m / ceil(m / _TILE))
    if radial_of(function) is None:
        size = ceil(m / ceil(m / 128))
    points = _points(x, _origin(function, x), size)
    if size == m:
        part = tile_sum(function, points, points, diagonal=True, gradient=gradient)
        return part.value, None if part.columns is None else 2 * part.columns.T
    totals = jnp.zeros_like(points.coordinates) if gradient else None

    def step(totals: Any, pair: tuple[Array, Array], diagonal: bool) -> tuple[Any, Scalar]:
        i, j = pair
        columns, rows = _cut(points, i, size), _cut(points, j, size)
        part = tile_sum(function, columns, rows, diagonal=diagonal, gradient=gradient)
        if part.columns is not None and part.rows is not None:
            totals = _add(totals, i, part.columns)
            totals = totals if diagonal else _add(totals, j, part.rows)
        return totals, part.value

    number = points.weights.shape[0] // size
    i, j = (jnp.asarray(index) for index in np.triu_indices(number, 1))
    same = jnp.arange(number)
    totals, on = jax.lax.scan(partial(step, diagonal=True), totals, (same, same))
    totals, off = jax.lax.scan(partial(step, diagonal=False), totals, (i, j))
    value = jnp.sum(on) + 2 * jnp.sum(off)
    return value, None if totals is None else 2 * totals[:, :m].T


@partial(jax.jit, static_argnums=3)
def _between(
    function: PairFunction, x: Simulations, y: Observations, gradient: bool
) -> tuple[Scalar, Any, Any]:
    (m, _), n = x.shape, y.shape[0]
    origin = _origin(function, x)
    if n > m:  # the longer set along the inner loop
        value, grad_y, grad_x = _rectangle(function, y, x, origin, gradient)
    else:
        value, grad_x, grad_y = _rectangle(function, x, y, origin, gradient)
    return value, grad_x, grad_y


def _rectangle(
    function: PairFunction, x: Array, z: Array, origin: Array, gradient: bool
) -> tuple[Scalar, Any, Any]:
    (m, _), n = x.shape, z.shape[0]
    limit = _PAIRS if radial_of(function) is not None else _PAIRS // 32
    height = ceil(n / ceil(n / _TILE))
    width = ceil(m / ceil(m * height / limit))
    columns, rows = _points(x, origin, width), _points(z, origin, height)
    wide, high = columns.weights.shape[0] // width, rows.weights.shape[0] // height
    if wide == high == 1:
        part = tile_sum(function, columns, rows, diagonal=False, gradient=gradient)
        return _transposed(part.value, part.columns, part.rows, m, n)
    totals = (jnp.zeros_like(columns.coordinates), jnp.zeros_like(rows.coordinates))

    def step(totals: Any, pair: tuple[Array, Array]) -> tuple[Any, Scalar]:
        i, j = pair
        part: TileSum = tile_sum(
            function,
            _cut(columns, i, width),
            _cut(rows, j, height),
            diagonal=False,
            gradient=gradient,
        )
        if part.columns is not None and part.rows is not None:
            totals = (_add(totals[0], i, part.columns), _add(totals[1], j, part.rows))
        return totals, part.value

    i, j = (jnp.asarray(index.ravel()) for index in np.indices((wide, high)))
    (grad_columns, grad_rows), values = jax.lax.scan(
        step, totals if gradient else (None, None), (i, j)
    )
    return _transposed(jnp.sum(values), grad_columns, grad_rows, m, n)


def _transposed(value: Scalar, columns: Any, rows: Any, m: int, n: int) -> tuple[Scalar, Any, Any]:
    if columns is None or rows is None:
        return value, None, None
    return value, columns[:, :m].T, rows[:, :n].T


def between_each(function: PairFunction, x: Simulations, y: Observations) -> Float[Array, " n"]:
    r"""$\sum_j \phi(x_j, y_i)$ for each of the `n` points, in batches that bound the memory."""
    batch = max(1, _PAIRS // x.shape[0])
    return jax.lax.map(
        lambda point: between(function, x, point[None]), y, batch_size=min(batch, y.shape[0])
    )
