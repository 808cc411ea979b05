"""Simulators written in PyTorch, which the samplers differentiate through."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from .._checks import check_choice, is_concrete
from .._types import Array, Key, Noise, Theta
from ._callback import call_numpy
from ._simulator import AbstractSimulator
from ._torch_bridge import Bridge


class TorchSimulator(AbstractSimulator):
    r"""A simulator written in PyTorch, with gradients.

    **Arguments:**

    - `fn`: `fn(theta, z)` returns one draw, a floating-point tensor of fixed shape; `theta` maps
        parameter names to tensors, in JAX's precision. Without `noise` it is `fn(theta,
        generator)`, with a `torch.Generator` that has a seed of its own for each draw.
    - `noise`: a NumPyro distribution of $z$, or a function from a JAX key to $z$, as for
        `Simulator`; $z$ reaches `fn` as a tensor.
    - `vectorized`: `fn` takes all draws at once: $z$ has a leading axis, and so has the result.
        Otherwise `fn` is mapped over the draws by `torch.func.vmap`, and called for one after the
        other where that fails (branches on values, `.item()`), which is far slower.
    - `summary`: maps one draw to what the score is to see, a function in JAX.

    Compiled steps call back to PyTorch for draws, and again for the product of a vector with their
    derivative, so `fn` must be built of operations that PyTorch differentiates (in reverse mode).
    Where parameters are not finite, or a matrix decomposition fails, the draws are NaN.

    ```python
    >>> import genbayes as gb, jax, numpyro.distributions as dist
    >>> simulator = gb.TorchSimulator(
    ...     lambda theta, z: theta["mean"] + z.exp(), noise=dist.Normal(0, 1)
    ... )
    >>> simulator.simulate(jax.random.key(0), {"mean": 2.0}, num=3).shape
    (3,)

    ```
    """

    fn: Callable[[Mapping[str, Any], Any], Any]
    noise: Distribution | Callable[[Key], Any] | None
    summary: Callable[[Array], Array] | None
    vectorized: bool
    bridge: Bridge = eqx.field(repr=False)
    traceable: ClassVar[bool] = True
    differentiable: ClassVar[bool] = True
    calls_back: ClassVar[bool] = True

    def __init__(
        self,
        fn: Callable[[Mapping[str, Any], Any], Any],
        noise: Distribution | Callable[[Key], Any] | None = None,
        *,
        vectorized: bool = False,
        summary: Callable[[Array], Array] | None = None,
    ):
        if not callable(fn):
            raise TypeError(
                f"A simulator needs a function fn(theta, noise), got {type(fn).__name__}."
            )
        if not (noise is None or isinstance(noise, Distribution) or callable(noise)):
            raise TypeError(
                "noise must be a NumPyro distribution, a function of a key, or absent (then "
                f"fn(theta, generator) gets a torch.Generator); got {type(noise).__name__}."
            )
        check_choice("vectorized", vectorized, (True, False))
        if vectorized and noise is None:
            raise ValueError(
                "vectorized=True needs the noise as a distribution or a function of a key: a "
                "torch.Generator belongs to one draw. Give noise=numpyro.distributions.Normal(0, 1)"
                " or the like."
            )
        self.fn = fn
        self.noise = noise
        self.summary = summary
        self.vectorized = vectorized
        self.bridge = Bridge(fn, vectorized=vectorized, seeds=noise is None)

    def draw_noise(self, key: Key, num: int) -> Noise:
        if self.noise is None:
            return jax.random.bits(key, (num,), jnp.uint32)
        if isinstance(self.noise, Distribution):
            return self.noise.sample(key, (num,))
        return jax.vmap(self.noise)(jax.random.split(key, num))

    def simulate_from(self, theta: Theta, noise: Noise) -> Array:
        if not isinstance(noise, jax.Array | np.ndarray):
            raise TypeError(
                "The noise of a TorchSimulator must be one array per draw, got "
                f"{type(noise).__name__}: let the function of a key return one array."
            )
        theta = {name: jnp.asarray(value, float) for name, value in theta.items()}
        if all(map(is_concrete, (*theta.values(), noise))):
            self.bridge.learn({n: np.asarray(x) for n, x in theta.items()}, np.asarray(noise))
        if self.bridge.shape is None:
            raise ValueError(
                "The shape of a draw of this TorchSimulator is not known yet: make a Problem of "
                "it, or call simulate once, before it becomes part of a compiled program."
            )
        return _draws(self.bridge, theta, noise)


class _Saved(NamedTuple):
    """What the derivative needs."""

    theta: dict[str, Array]
    noise: Array
    noise_moves: tuple[()] | None  # in the structure, since it is no data


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _draws(bridge: Bridge, theta: dict[str, Array], noise: Array) -> Array:
    assert bridge.shape is not None
    result = jax.ShapeDtypeStruct((noise.shape[0], *bridge.shape), jnp.result_type(float))
    return call_numpy(bridge.draws, [result], *_by_name(bridge, theta), noise)[0]


def _forward(bridge: Bridge, theta: dict[str, Any], noise: Any) -> tuple[Array, _Saved]:
    """The draws; each argument comes with whether it is differentiated (`symbolic_zeros`)."""
    values = {name: x.value for name, x in theta.items()}
    saved = _Saved(values, noise.value, () if noise.perturbed else None)
    return _draws(bridge, values, noise.value), saved


def _backward(bridge: Bridge, saved: _Saved, cotangent: Array) -> tuple[dict[str, Array], Any]:
    inputs = [*_by_name(bridge, saved.theta), saved.noise]
    moves = saved.noise_moves is not None
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (inputs if moves else inputs[:-1])]
    pull = bridge.pull_both if moves else bridge.pull_theta
    pulled = call_numpy(pull, results, *inputs, jnp.asarray(cotangent))
    return dict(zip(bridge.names, pulled, strict=False)), pulled[-1] if moves else None


def _by_name(bridge: Bridge, theta: dict[str, Array]) -> list[Array]:
    return [theta[name] for name in bridge.names]


_draws.defvjp(_forward, _backward, symbolic_zeros=True)
