"""Simulators that JAX cannot see into: any Python function of parameters and a generator."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Key, Noise, Theta
from ._simulator import AbstractSimulator


class BlackBox(AbstractSimulator):
    r"""A simulator in NumPy or any other Python.

    **Arguments:**

    - `fn`: `fn(theta, rng)` returns one draw; `theta` maps parameter names to floats or NumPy
        arrays, `rng` is a `numpy.random.Generator` with a seed of its own for each draw.
    - `summary`: maps one draw to what the score is to see, as for `Simulator`.

    Its noise is a vector of seeds, so correlated pseudo-marginal sampling works. It has no
    gradients: of the samplers, `PseudoMarginal` takes it.

    ```python
    >>> import genbayes as gb, jax
    >>> simulator = gb.BlackBox(lambda theta, rng: rng.normal(theta["mean"], 1.0))
    >>> simulator.simulate(jax.random.key(0), {"mean": 2.0}, num=3).shape
    (3,)

    ```
    """

    fn: Callable[[Mapping[str, Any], np.random.Generator], Any]
    summary: Callable[[Array], Array] | None = None
    traceable: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False

    def __check_init__(self):
        if not callable(self.fn):
            raise TypeError(
                f"A simulator needs a function fn(theta, rng), got {type(self.fn).__name__}."
            )

    def draw_noise(self, key: Key, num: int) -> Noise:
        return jax.random.bits(key, (num,), jnp.uint32)

    def simulate_from(self, theta: Theta, noise: Noise) -> Array:
        plain = {name: _plain(value) for name, value in theta.items()}
        draws = [self.fn(plain, np.random.default_rng(int(seed))) for seed in np.asarray(noise)]
        return jnp.asarray(np.stack([np.asarray(x, float) for x in draws]), float)


def _plain(value: Array) -> Any:
    array = np.asarray(value)
    return float(array) if array.ndim == 0 else array
