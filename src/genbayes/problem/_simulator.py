"""Simulators whose randomness is explicit: fix the noise and the draws are fixed."""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution, ExpandedDistribution, Independent

from .._checks import check_count
from .._types import Array, Key, Noise, Theta


class AbstractSimulator(eqx.Module):
    r"""Draws $x = h_\theta(z)$, with all randomness in the noise $z$."""

    traceable: ClassVar[bool]  # whether draws may be part of a compiled program
    differentiable: ClassVar[bool]
    calls_back: ClassVar[bool] = False  # whether compiled draws call Python: no forward mode then
    summary: eqx.AbstractVar[Callable[[Array], Array] | None]

    @abstractmethod
    def draw_noise(self, key: Key, num: int) -> Noise:
        """Noise for `num` draws: every leaf has a leading axis of length `num`."""

    @abstractmethod
    def simulate_from(self, theta: Theta, noise: Noise) -> Array:
        """One draw for each row of the noise: `(num, *event)`."""

    def simulate(self, key: Key, theta: Theta, num: int) -> Array:
        """`num` independent draws at one parameter: `(num, *event)`."""
        check_count("num", num)
        theta = {name: jnp.asarray(value, float) for name, value in theta.items()}
        return self.simulate_from(theta, self.draw_noise(key, num))

    def features(self, draws: Array) -> Array:
        """What a score sees of some draws or observations: `(num, d)`, summarised and flat."""
        if self.summary is not None:
            draws = jax.vmap(self.summary)(draws)
        return draws.reshape(draws.shape[0], -1)


class Simulator(AbstractSimulator):
    r"""A simulator written in JAX.

    **Arguments:**

    - `fn`: `fn(theta, z)` returns one draw, an array of fixed shape; `theta` is a mapping from
        parameter name to array. Without `noise` it is `fn(theta, key)`, with a JAX key. An object
        that has a method `many(theta, noise)` too makes all draws by it, from noise with a leading
        axis to `(num, *event)`: for models that are faster so than by `jax.vmap(fn)`.
    - `noise`: a NumPyro distribution of $z$, or a function from a key to $z$.
    - `summary`: maps one draw to what the score is to see; it is applied to the observations too.

    ```python
    >>> import genbayes as gb, jax, numpyro.distributions as dist
    >>> simulator = gb.Simulator(lambda theta, z: theta["mean"] + z, noise=dist.Normal(0, 1))
    >>> simulator.simulate(jax.random.key(0), {"mean": 2.0}, num=3).shape
    (3,)

    ```
    """

    fn: Callable[[Theta, Any], Array]
    noise: Distribution | Callable[[Key], Any] | None
    summary: Callable[[Array], Array] | None
    traceable: ClassVar[bool] = True
    differentiable: ClassVar[bool] = True

    def __init__(
        self,
        fn: Callable[[Theta, Any], Array],
        noise: Distribution | Callable[[Key], Any] | None = None,
        summary: Callable[[Array], Array] | None = None,
    ):
        if not callable(fn):
            raise TypeError(
                f"A simulator needs a function fn(theta, noise), got {type(fn).__name__}."
            )
        if not (noise is None or isinstance(noise, Distribution) or callable(noise)):
            raise TypeError(
                "noise must be a NumPyro distribution, a function of a key, or absent (then "
                f"fn(theta, key) gets a key); got {type(noise).__name__}."
            )
        self.fn = fn
        self.noise = noise
        self.summary = summary

    def draw_noise(self, key: Key, num: int) -> Noise:
        if isinstance(self.noise, Distribution):
            return _sampled(self.noise, key, num)
        keys = jax.random.split(key, num)
        return keys if self.noise is None else jax.vmap(self.noise)(keys)

    def simulate_from(self, theta: Theta, noise: Noise) -> Array:
        many = getattr(self.fn, "many", None)
        if many is not None:
            return many(theta, noise)
        return jax.vmap(self.fn, in_axes=(None, 0))(theta, noise)


def _sampled(noise: Distribution, key: Key, num: int) -> Array:
    """`num` draws of the noise; those of one scalar law along one axis, then put into shape.

    The numbers are the same, but to count along four axes takes JAX's generator longer than to
    make them (docs/tasks.md has the figures).
    """
    one = noise
    while isinstance(one, Independent | ExpandedDistribution):
        one = one.base_dist
    if one is noise or one.batch_shape or one.event_shape:
        return jnp.asarray(noise.sample(key, (num,)))
    shape = (num, *noise.batch_shape, *noise.event_shape)
    return jnp.reshape(jnp.asarray(one.sample(key, (math.prod(shape),))), shape)
