r"""Sums of absolute differences on the line in $O((m + n)\log)$, by sorting.

With $y$ sorted and summed once, $\sum_i |x - y_i| = x\,(2r - n) - 2 P_r + P_n$ where $r$ counts the
$y_i$ below $x$ and $P$ are partial sums: a step costs one binary search a draw.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import is_concrete
from .._types import Array, Float, Int, Scalar
from ._pairs import bulk_centre

_ALL_PAIRS = 1024  # below this comparing all beats XLA's sort on a CPU (measured)


class SortedSample(eqx.Module):
    """Sorted values less their median, with partial sums that start at 0."""

    centre: Scalar
    values: Float[Array, " n"]
    sums: Float[Array, " n+1"]


def sorted_sample(values: Float[Array, " n"]) -> SortedSample:
    """Sort and sum once; in double precision when outside a compiled program."""
    ordered = jnp.sort(values)
    centre = ordered[values.shape[0] // 2]
    centred = ordered - centre
    if is_concrete(centred):
        sums = np.cumsum(np.asarray(centred, np.float64))
        sums = jnp.asarray(sums.astype(centred.dtype))
    else:
        sums = jnp.cumsum(centred)
    return SortedSample(centre, centred, jnp.concatenate([jnp.zeros_like(sums[:1]), sums]))


@jax.custom_jvp
def absolute_between(x: Float[Array, " m"], sample: SortedSample) -> Scalar:
    r"""$\sum_{j, i} |x_j - y_i|$."""
    return _absolute_between(x, sample)[0]


@partial(absolute_between.defjvp, symbolic_zeros=True)
def _(primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
    x, sample = primals
    value, signs = _absolute_between(x, sample)
    leaves = jax.tree.leaves(tangents)
    zero = [isinstance(t, jax.custom_derivatives.SymbolicZero) for t in leaves]
    tangent = jnp.zeros((), x.dtype) if zero[0] else jnp.sum(signs * leaves[0])
    if not all(zero[1:]):
        structure = jax.tree.structure(sample)
        filled = [
            jnp.zeros(t.shape, t.dtype) if z else t for t, z in zip(leaves, zero, strict=True)
        ]
        sample_tangent = jax.tree.unflatten(structure, filled[1:])
        tangent += jax.jvp(lambda s: _absolute_between(x, s)[0], (sample,), (sample_tangent,))[1]
    return value, tangent


@jax.jit
def _absolute_between(x: Float[Array, " m"], sample: SortedSample) -> tuple[Scalar, Array]:
    n = sample.values.shape[0]
    centred = x - sample.centre
    below = jnp.searchsorted(sample.values, centred)
    balance = (2 * below - n).astype(x.dtype)
    value = jnp.sum(centred * balance - 2 * sample.sums[below] + sample.sums[n])
    # On an observation any slope between the two sides is a subgradient: take the middle one.
    tied = sample.values[jnp.minimum(below, n - 1)] == centred
    return value, balance + tied.astype(x.dtype)


@jax.custom_jvp
def absolute_within(x: Float[Array, " m"]) -> Scalar:
    r"""$\sum_{j \ne k} |x_j - x_k|$."""
    return _absolute_within(x)[0]


@absolute_within.defjvp
def _(primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
    value, gradient = _absolute_within(*primals)
    return value, jnp.sum(gradient * tangents[0])


@jax.jit
def _absolute_within(x: Float[Array, " m"]) -> tuple[Scalar, Array]:
    r"""With $b_j$ the draws below $x_j$ less those above, the sum is $2 \sum_j x_j b_j$."""
    centred = jax.lax.optimization_barrier(x - bulk_centre(x[:, None])[0])
    found = balance(centred).astype(x.dtype)
    return 2 * jnp.sum(centred * found), 2 * found


def balance(x: Float[Array, " m"]) -> Int[Array, " m"]:
    """The draws below each draw less those above."""
    if x.shape[0] <= _ALL_PAIRS:
        return _compared(x)
    # As whole numbers in the same order, which XLA sorts five times as fast: sign and magnitude.
    bits = jnp.int64 if x.dtype == jnp.float64 else jnp.int32
    key = jax.lax.bitcast_convert_type(x.astype(jnp.promote_types(x.dtype, jnp.float32)), bits)
    key = jnp.where(key < 0, -(key & jnp.iinfo(bits).max), key)
    ordered = jnp.sort(key)
    below, beside = (jnp.searchsorted(ordered, key, side=side) for side in ("left", "right"))
    return below + beside - x.shape[0]


def _compared(x: Float[Array, " m"]) -> Int[Array, " m"]:
    """The draws below each draw less those above, by comparing all.

    A row at a time: as one product with the matrix of signs, XLA takes two hundred times as long
    once there are several chains. One comparison a pair does where no two draws are equal; only
    where some are, equal ones are counted too, by a loop that otherwise makes no trip.
    """
    m = x.shape[0]
    unroll = min(20, -(-m // 2))
    # Whole trips, and two at least: what stays outside a loop is fused with what made the draws,
    # which then come out in two roundings, and a draw is above itself.
    padded = jnp.concatenate([x, jnp.full(-m % unroll, jnp.inf, x.dtype)])
    size = padded.shape[0]

    def count(compare: Any) -> Any:
        return lambda j, found: found + compare(padded, padded[j]).astype(jnp.int32)

    zero = jnp.zeros(size, jnp.int32)
    below = jax.lax.fori_loop(0, size, count(jnp.greater), zero, unroll=unroll)[:m]
    tied = jnp.sum(below) < m * (m - 1) // 2
    trips = jnp.where(tied, m, 0)
    equal = jax.lax.fori_loop(0, trips, count(jnp.equal), zero + jnp.where(tied, 0, 1))[:m]
    return 2 * below + equal - m
