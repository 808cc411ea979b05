"""What the slow variables do to each other."""

import jax.numpy as jnp

from ..._types import Array

NUM_SLOW = 8
FORCING = 10.0


def advection(x: Array) -> Array:
    r"""$-x_{k-1}(x_{k-2} - x_{k+1}) - x_k$, on a ring.

    ```python
    >>> advection(jnp.ones(8)).tolist()
    [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]

    ```
    """
    return -jnp.roll(x, 1) * (jnp.roll(x, 2) - jnp.roll(x, -1)) - x
