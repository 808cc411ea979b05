"""The M/G/1 queue."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from .._checks import check_count
from .._types import Array, Theta
from ..problem import Prior, Simulator
from ._task import Task


def departures(theta: Theta, z: Array) -> Array:
    r"""Times between departures, from uniform noise `(customers, 2)`.

    The service of customer $i$ takes $s_i$, and it arrives at $v_i$; the departures are
    $d_i = \max_{j \le i} (v_j + s_j + \dots + s_i)$, which needs no loop.

    ```python
    >>> theta = {"shortest": 1.0, "width": 4.0, "rate": 0.2}
    >>> departures(theta, jnp.zeros((3, 2))).tolist()
    [1.0, 1.0, 1.0]

    ```
    """
    service = theta["shortest"] + theta["width"] * z[:, 0]
    arrival = jnp.cumsum(-jnp.log1p(-z[:, 1]) / theta["rate"])
    total = jnp.cumsum(service)
    departure = total + jax.lax.cummax(arrival - total + service)
    return jnp.diff(departure, prepend=0.0)


def queue(*, customers: int = 50) -> Task:
    r"""M/G/1: one server, uniform service times, Poisson arrivals; the times between departures.

    Services take between `shortest` and `shortest + width`, both uniform on [0, 10] a priori;
    arrivals have a rate uniform on [0, 1/3]. The truth is (1, 4, 0.2).

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.queue().generate(seed=0, num_observations=10).shape
    (10, 50)

    ```

    Reference: Shestopaloff and Neal (2014), On Bayesian inference for the M/G/1 queue with
    efficient MCMC sampling.
    """
    check_count("customers", customers)
    return Task(
        name="M/G/1 queue",
        prior=Prior(
            shortest=dist.Uniform(0.0, 10.0),
            width=dist.Uniform(0.0, 10.0),
            rate=dist.Uniform(0.0, 1 / 3),
        ),
        simulator=Simulator(
            departures, noise=dist.Uniform(0.0, 1.0).expand((customers, 2)).to_event(2)
        ),
        truth={n: jnp.asarray(v) for n, v in {"shortest": 1.0, "width": 4.0, "rate": 0.2}.items()},
    )
