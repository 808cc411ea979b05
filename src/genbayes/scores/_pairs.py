r"""Sums of a function over all pairs of points, with their gradients in the same pass.

`within` sums $\phi(x_j, x_k)$ over $j \ne k$, `between` sums $\phi(x_j, y_i)$ over all pairs. Both
carry a forward derivative rule that is linear in the tangent, so that forward mode, reverse mode
and `vmap` all follow from it; the gradient is made next to the value, tile by tile, and no array
of all pairs is kept. Derivatives with respect to the function's own parameters go through
ordinary differentiation of the tiles.
"""

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float, Observations, Scalar, Simulations
from ..kernels import radial_of
from ._tiles import PairFunction, Points, TileSum, tile_sum

_TILE = 128  # points along a side: a tile stays in the nearest cache (measured)
_TILES = 15  # tiles at once, no more: an odd number
_CUSTOM_TILE = 32  # for a function that is differentiated, with all that this keeps
_PAIRS = 2**17  # of a tile in `between`
_FEW = 32  # fewer points do not go along the inner loop


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


def _blocks(x: Simulations, centre: Array, number: int) -> Points:
    """Coordinates by row, in blocks of one size, padded by copies of a real point."""
    (m, d), size = x.shape, ceil(x.shape[0] / number)
    padding = number * size - m
    coordinates = jnp.pad((x - centre[None]).T, ((0, 0), (0, padding)), mode="edge")
    coordinates = jnp.swapaxes(coordinates.reshape(d, number, size), 0, 1)
    weights = np.r_[np.ones(m), np.zeros(padding)].reshape(number, size)
    # Held as they are: fused into the pair loop, the transposition would be done for every pair.
    return Points(jax.lax.optimization_barrier(coordinates), jnp.asarray(weights, x.dtype))


def _points(blocks: Array, m: int) -> Array:
    """Of blocks again `m` points."""
    return jnp.swapaxes(blocks, 0, 1).reshape(blocks.shape[1], -1)[:, :m].T


def _cut(blocks: Points, start: Array, number: int) -> Points:
    return Points(*(jax.lax.dynamic_slice_in_dim(part, start, number) for part in blocks))


def _add(total: Array, start: Array, part: Array) -> Array:
    old = jax.lax.dynamic_slice_in_dim(total, start, part.shape[0])
    return jax.lax.dynamic_update_slice_in_dim(total, old + part, start, axis=0)


def _loop(body: Callable[[Any, Array], Any], carried: Any, over: Array) -> tuple[Any, Array]:
    """A scan; none over a single number, which the compiler then knows."""
    if over.shape[0] > 1:
        return jax.lax.scan(body, carried, over)
    carried, value = body(carried, over[0])
    return carried, value[None]


def _origin(function: PairFunction, x: Simulations) -> Array:
    """Where distances are measured from; a kernel of unknown form must see points as they are."""
    return jnp.zeros_like(x[0]) if radial_of(function) is None else bulk_centre(x)


@partial(jax.jit, static_argnums=2)
def _within(function: PairFunction, x: Simulations, gradient: bool) -> tuple[Scalar, Any]:
    r"""Blocks in a circle, an odd number $B$: each meets itself and the next $(B - 1) / 2$."""
    least = ceil(x.shape[0] / (_CUSTOM_TILE if radial_of(function) is None else _TILE))
    turns = ceil(least / _TILES) | 1
    tiles = ceil(least / turns) | 1
    blocks = turns * tiles
    once = _blocks(x, _origin(function, x), blocks)
    points = Points(*(jnp.concatenate([part, part]) for part in once))
    other = jnp.asarray(~np.eye(points.weights.shape[1], dtype=bool))

    def turn(totals: Any, number: Array) -> tuple[Any, Array]:
        start = tiles * number
        columns = _cut(points, start, tiles)  # out of the inner loop: cut there, it is slower

        def meet(totals: Any, place: Array) -> tuple[Any, Scalar]:
            rows = _cut(points, place, tiles)
            part = tile_sum(function, columns, rows, other | (place > start), gradient=gradient)
            visits = jnp.where(place > start, 2, 1).astype(x.dtype)
            if part.columns is not None and part.rows is not None:
                totals = _add(totals, start, visits * part.columns)
                totals = _add(totals, place, visits * part.rows)
            return totals, visits * part.value

        # Places, not distances: what depends on these alone JAX takes out of both loops and keeps.
        return _loop(meet, totals, start + jnp.arange((blocks + 1) // 2))

    totals = jnp.zeros_like(points.coordinates) if gradient else None
    totals, values = _loop(turn, totals, jnp.arange(turns))
    value = jnp.sum(values)
    if totals is None:
        return value, None
    return value, _points(totals[:blocks] + totals[blocks:], x.shape[0])


@partial(jax.jit, static_argnums=3)
def _between(
    function: PairFunction, x: Simulations, y: Observations, gradient: bool
) -> tuple[Scalar, Any, Any]:
    origin = _origin(function, x)
    # A tile's columns go along the inner loop. Of two long sets the longer one is cut into rows:
    # XLA makes slow loops of columns that begin at a place known only when it runs.
    few = min(x.shape[0], y.shape[0]) < _FEW
    if (x.shape[0] < y.shape[0]) == few:
        value, grad_y, grad_x = _rectangle(function, y, x, origin, gradient)
    else:
        value, grad_x, grad_y = _rectangle(function, x, y, origin, gradient)
    return value, grad_x, grad_y


def _rectangle(
    function: PairFunction, x: Array, z: Array, origin: Array, gradient: bool
) -> tuple[Scalar, Any, Any]:
    (m, _), n = x.shape, z.shape[0]
    limit = _PAIRS if radial_of(function) is not None else _PAIRS // 8
    wide = ceil(m * min(n, _FEW) / limit)
    high = ceil(n * ceil(m / wide) / limit)
    columns, rows = _blocks(x, origin, wide), _blocks(z, origin, high)

    def column(totals: Any, i: Array) -> tuple[Any, Array]:
        cut = _cut(columns, i, 1)

        def meet(totals: Any, j: Array) -> tuple[Any, Scalar]:
            part: TileSum = tile_sum(function, cut, _cut(rows, j, 1), None, gradient=gradient)
            if part.columns is not None and part.rows is not None:
                totals = (_add(totals[0], i, part.columns), _add(totals[1], j, part.rows))
            return totals, part.value

        return _loop(meet, totals, jnp.arange(high))

    totals = (jnp.zeros_like(columns.coordinates), jnp.zeros_like(rows.coordinates))
    (grad_columns, grad_rows), values = _loop(
        column, totals if gradient else (None, None), jnp.arange(wide)
    )
    if grad_columns is None or grad_rows is None:
        return jnp.sum(values), None, None
    return jnp.sum(values), _points(grad_columns, m), _points(grad_rows, n)


def between_each(function: PairFunction, x: Simulations, y: Observations) -> Float[Array, " n"]:
    r"""$\sum_j \phi(x_j, y_i)$ for each of the `n` points, in batches that bound the memory."""
    batch = max(1, _PAIRS // x.shape[0])
    return jax.lax.map(
        lambda point: between(function, x, point[None]), y, batch_size=min(batch, y.shape[0])
    )
