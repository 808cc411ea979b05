"""Models in continuous time: many small steps between records, as one loop inside another."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._checks import check_count, check_positive
from .._types import Array, Float, PyTree


def num_steps(interval: float, integration_step: float) -> int:
    """How many equal steps, none longer than `integration_step`, an interval is cut into.

    ```python
    >>> num_steps(0.075, 0.0075), num_steps(0.2, 0.0075)
    (10, 27)

    ```
    """
    check_positive("integration_step", integration_step)
    return max(1, math.ceil(interval / integration_step - 1e-6))


def check_times(num_records: int, interval: float, integration_step: float) -> None:
    """Refuse settings of time that make no sense."""
    check_count("num_records", num_records)
    check_positive("interval", interval)
    check_positive("integration_step", integration_step)
    if integration_step > interval:
        raise ValueError(
            "integration_step must not be longer than the interval between records "
            f"({interval:g}), got {integration_step:g}."
        )


def recorded(
    advance: Callable[[Any, Any], Any],
    start: PyTree,
    noise: PyTree,
    arrange: Callable[[Any], Any] = lambda noise: noise,
) -> PyTree[Float[Array, "records *state"]]:
    """The state at each record, from noise `(records, steps, ...)`; both may be trees of arrays.

    `arrange` makes of a row of `noise` the noise between two records, `(steps, ...)`.

    The loops are not unrolled: on CPU that makes steps of small states slower, and compilation
    much slower (docs/tasks.md has the figures).
    """

    def one_record(x: PyTree, z: PyTree) -> tuple[PyTree, PyTree]:
        x, _ = jax.lax.scan(lambda x, e: (advance(x, e), None), x, arrange(z))
        return x, x

    return jax.lax.scan(one_record, start, noise)[1]


def langevin(
    effects: Float[Array, "reactions species"],
    hazards: Callable[[Array], Array],
    start: Float[Array, " species"],
    noise: Float[Array, "records steps reactions"],
    step: float | Array,
) -> Float[Array, "records species"]:
    r"""The chemical Langevin equation of a set of reactions, by Euler's method.

    $$\mathrm dx = \sum_r v_r \left( h_r(x)\,\mathrm dt + \sqrt{h_r(x)}\,\mathrm dW_r \right)$$

    It is the diffusion that follows the Markov jump process of the same reactions where counts
    are not small, and unlike that process it has derivatives. Counts are kept at 0 or above.

    **Arguments:** `effects`, what each reaction adds to each species ($v_r$); `hazards`, the rates
    at a state; `noise`, standard normal.

    Reference: Gillespie (2000), The chemical Langevin equation, J. Chem. Phys. 113.
    """

    def advance(x: Array, z: Array) -> Array:
        # a floor, because the slope of the root is infinite where a reaction has stopped
        expected = jnp.maximum(hazards(x) * step, 1e-9)
        return jnp.maximum(x + (expected + jnp.sqrt(expected) * z) @ effects, 0.0)

    return recorded(advance, start, noise)
