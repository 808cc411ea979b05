"""Calling NumPy from compiled programs, with whatever axes `jax.vmap` adds.

`jax.pure_callback` puts the arguments on a device from a thread of its own. That has two
consequences here. The thread does not know a precision that was set for the calling thread alone
(`jax.enable_x64` as a context) and would cut 64-bit numbers down, so they travel as pairs of 32-bit
words. And where the callbacks of several devices wait for their arguments at once, none is left to
bring them: simulators that call back are refused there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array

Shape = jax.ShapeDtypeStruct
Function = Callable[..., Sequence[np.ndarray]]


def call_numpy(fn: Function, results: Sequence[Shape], *arrays: Array) -> list[Array]:
    """`fn(*arrays)` on NumPy arrays, part of a compiled program; under `vmap`, for each in turn.

    `fn` must not call JAX, and must give the same result for the same arguments.
    """
    call = _Call(fn, tuple((np.dtype(x.dtype).name, x.ndim) for x in arrays))
    words = [Shape((*s.shape, 2), jnp.uint32) if _is_wide(s.dtype) else s for s in results]
    given = [
        jax.lax.bitcast_convert_type(x, jnp.uint32) if _is_wide(x.dtype) else x for x in arrays
    ]
    found = jax.pure_callback(call, words, *given, vmap_method="expand_dims")
    return [
        jax.lax.bitcast_convert_type(x, s.dtype) if _is_wide(s.dtype) else x
        for x, s in zip(found, results, strict=True)
    ]


def _is_wide(dtype: Any) -> bool:
    return np.dtype(dtype).itemsize == 8


@dataclass(frozen=True)
class _Call:
    """What the compiled program calls; equal calls are compiled once."""

    fn: Function
    arguments: tuple[tuple[str, int], ...]  # type and number of axes of each

    def __call__(self, *given: Any) -> list[np.ndarray]:
        arrays = [
            np.ascontiguousarray(x).view(dtype)[..., 0] if _is_wide(dtype) else np.asarray(x)
            for x, (dtype, _) in zip(given, self.arguments, strict=True)
        ]
        leads = [
            x.shape[: x.ndim - axes] for x, (_, axes) in zip(arrays, self.arguments, strict=True)
        ]
        lead = np.broadcast_shapes(*leads)
        each = [
            np.broadcast_to(x, lead + x.shape[len(own) :]).reshape(-1, *x.shape[len(own) :])
            for x, own in zip(arrays, leads, strict=True)
        ]
        found = zip(*(self.fn(*one) for one in zip(*each, strict=True)), strict=True)
        stacked = [np.stack(parts).reshape((*lead, *parts[0].shape)) for parts in found]
        return [x[..., None].view(np.uint32) if _is_wide(x.dtype) else x for x in stacked]
