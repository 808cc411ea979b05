"""The moving average of order two, with a prior on the triangle where it is identified."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import ParameterFreeTransform, biject_to

from .._checks import check_count
from .._types import Array, Theta
from ..problem import Prior, Simulator
from ._task import Task


class _InsideTriangle(constraints.ParameterFreeConstraint):
    event_dim = 1

    def __call__(self, x: Array) -> Array:
        return (x[..., 1] < 1) & (jnp.abs(x[..., 0]) < 1 + x[..., 1])

    def feasible_like(self, prototype: Array) -> Array:
        return jnp.zeros_like(prototype)


triangle = _InsideTriangle()


class _ToTriangle(ParameterFreeTransform):
    """From two free numbers to the triangle: the second first, the first within its bounds."""

    domain = constraints.real_vector  # pyright: ignore
    codomain = triangle  # pyright: ignore

    def __call__(self, x: Array) -> Array:
        s = jnp.tanh(x)
        return jnp.stack([s[..., 0] * (1 + s[..., 1]), s[..., 1]], axis=-1)

    def _inverse(self, y: Array) -> Array:
        return jnp.arctanh(jnp.stack([y[..., 0] / (1 + y[..., 1]), y[..., 1]], axis=-1))

    def log_abs_det_jacobian(self, x: Array, y: Array, intermediates: Any = None) -> Array:
        del intermediates
        # log(1 - tanh^2), without cancellation far out
        slopes = 2 * (jnp.log(2.0) - x - jax.nn.softplus(-2 * x))
        return jnp.sum(slopes, axis=-1) + jnp.log1p(y[..., 1])


@biject_to.register(_InsideTriangle)
def _(constraint: constraints.Constraint) -> _ToTriangle:
    del constraint
    return _ToTriangle()


class UniformOnTriangle(dist.Distribution):
    r"""Uniform where the model is identified: $|\theta_2| < 1$, $|\theta_1| < 1 + \theta_2$.

    ```python
    >>> bool(jnp.exp(UniformOnTriangle().log_prob(jnp.zeros(2))) == 0.25)
    True

    ```
    """

    arg_constraints = {}  # noqa: RUF012
    support = triangle  # pyright: ignore

    def __init__(self, *, validate_args: bool | None = None):
        super().__init__(batch_shape=(), event_shape=(2,), validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws `(*sample_shape, 2)`."""
        key_second, key_first = jax.random.split(key)
        second = 2 * jnp.sqrt(jax.random.uniform(key_second, sample_shape)) - 1
        first = jax.random.uniform(key_first, sample_shape, minval=-1.0) * (1 + second)
        return jnp.stack([first, second], axis=-1)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The logarithm of 1/4 inside."""
        del intermediates
        return jnp.where(triangle(value), -jnp.log(4.0), -jnp.inf)


def moving_average_draw(theta: Theta, z: Array) -> Array:
    r"""$x_t = z_t + \theta_1 z_{t-1} + \theta_2 z_{t-2}$."""
    first, second = theta["theta"]
    return z[2:] + first * z[1:-1] + second * z[:-2]


def moving_average(*, length: int = 50) -> Task:
    r"""MA(2): $x_t = z_t + \theta_1 z_{t-1} + \theta_2 z_{t-2}$, a series of `length` values.

    The prior is uniform on the triangle where the parameters are identified, the truth (0.6, 0.2).
    Its likelihood is known (a normal one), so that results can be checked.

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.moving_average().generate(seed=0, num_observations=10).shape
    (10, 50)

    ```

    Reference: Marin, Pudlo, Robert and Ryder (2012), Approximate Bayesian computational methods,
    Statistics and Computing 22.
    """
    check_count("length", length)
    return Task(
        name="MA(2)",
        prior=Prior(UniformOnTriangle()),
        simulator=Simulator(
            moving_average_draw, noise=dist.Normal(0.0, 1.0).expand((length + 2,)).to_event(1)
        ),
        truth={"theta": jnp.asarray([0.6, 0.2])},
    )
