"""Stochastic volatility."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions.transforms import AffineTransform

from .._checks import check_count
from .._types import Array, Theta
from ..problem import Prior, Simulator
from ._task import Task


def returns(theta: Theta, z: Array) -> Array:
    r"""$x_t = e^{h_t / 2} \epsilon_t$ from noise `(length, 2)`, with $h_0$ from its own law."""
    mean, phi, sigma = theta["mean"], theta["persistence"], theta["sigma"]

    def step(deviation: Array, eta: Array) -> tuple[Array, Array]:
        deviation = phi * deviation + sigma * eta
        return deviation, deviation

    first = sigma / jnp.sqrt(1 - phi**2) * z[0, 0]
    _, later = jax.lax.scan(step, first, z[1:, 0])
    h = mean + jnp.concatenate([first[None], later])
    return jnp.exp(h / 2) * z[:, 1]


def stochastic_volatility(*, length: int = 100) -> Task:
    r"""Returns whose log-variance wanders: $x_t = e^{h_t/2} \epsilon_t$, a series of `length`.

    $$h_t = \mu + \phi (h_{t-1} - \mu) + \sigma \eta_t$$

    Priors: `mean` $\mu \sim N(0, 1)$, `persistence` $(\phi + 1)/2 \sim$ Beta(20, 1.5), `sigma`
    half-normal with scale 0.5. The truth is (-1, 0.95, 0.3).

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.stochastic_volatility().prior.names
    ('mean', 'persistence', 'sigma')

    ```

    Reference: Kim, Shephard and Chib (1998), Stochastic volatility: likelihood inference and
    comparison with ARCH models, Review of Economic Studies 65.
    """
    check_count("length", length, 2)
    persistence = dist.TransformedDistribution(dist.Beta(20.0, 1.5), AffineTransform(-1.0, 2.0))
    truth = {"mean": -1.0, "persistence": 0.95, "sigma": 0.3}
    return Task(
        name="stochastic volatility",
        prior=Prior(
            mean=dist.Normal(0.0, 1.0), persistence=persistence, sigma=dist.HalfNormal(0.5)
        ),
        simulator=Simulator(returns, noise=dist.Normal(0.0, 1.0).expand((length, 2)).to_event(2)),
        truth={n: jnp.asarray(v) for n, v in truth.items()},
    )
