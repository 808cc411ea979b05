"""What the slow variables do to each other."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ..._types import Array

NUM_SLOW = 8
FORCING = 10.0


def advection(x: Array) -> Array:
    r"""$-x_{k-1}(x_{k-2} - x_{k+1}) - x_k$, on a ring: the first axis of an array.

    ```python
    >>> advection(jnp.ones(8)).tolist()
    [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]

    ```
    """
    # slices of a longer ring: of rolls XLA makes loops that choose at each number
    ring = jax.lax.optimization_barrier(jnp.concatenate([x[-2:], x, x[:1]]))
    return -ring[1:-2] * (ring[:-3] - ring[3:]) - x


def advection_by_variable(x: Sequence[Array]) -> tuple[Array, ...]:
    """The same, from and to an array for each variable."""
    size = len(x)
    return tuple(-x[k - 1] * (x[k - 2] - x[(k + 1) % size]) - x[k] for k in range(size))
