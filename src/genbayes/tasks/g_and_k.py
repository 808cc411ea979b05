r"""The g-and-k distribution: four parameters for location, scale, skewness and tails.

$$x = A + B \left[1 + 0.8 \tanh(g z / 2)\right] (1 + z^2)^k z, \qquad z \sim N(0, 1)$$

Prangle (2017), *gk: an R package for the g-and-k and generalised g-and-h distributions*.
"""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from .._types import Array, Key, Theta
from ..problem import Prior, Simulator
from ._task import Task

TRUTH = {"A": 3.0, "B": 1.5, "g": 0.5, "k": 1.5}
DIMENSION = 5


def quantile(theta: Theta, z: Array) -> Array:
    """The quantile function in terms of a standard normal quantile.

    ```python
    >>> float(quantile({"A": 3.0, "B": 1.5, "g": 0.5, "k": 1.5}, jnp.zeros(())))
    3.0

    ```
    """
    skew = 1 + 0.8 * jnp.tanh(theta["g"] * z / 2)
    return theta["A"] + theta["B"] * skew * (1 + z**2) ** theta["k"] * z


def correlated(theta: Theta, z: Array) -> Array:
    """Coordinates tied by a normal copula: neighbours have correlation `rho`.

    ```python
    >>> correlated(TRUTH | {"rho": -0.3}, jnp.zeros(5)).shape
    (5,)

    ```
    """
    return quantile(theta, _tridiagonal_factor(theta["rho"]) @ z)


def _tridiagonal_factor(rho: Array) -> Array:
    neighbours = jnp.eye(DIMENSION, k=1) + jnp.eye(DIMENSION, k=-1)
    return jnp.linalg.cholesky(jnp.eye(DIMENSION) + rho * neighbours)


def _task(
    name: str, prior: Prior, simulator: Simulator, truth: dict, event: tuple, cauchy: bool
) -> Task:
    def standard_cauchy(key: Key, num: int) -> Array:
        return jax.random.cauchy(key, (num, *event))

    return Task(
        name=name + (", Cauchy data" if cauchy else ""),
        prior=prior,
        simulator=simulator,
        truth={n: jnp.asarray(v) for n, v in truth.items()},
        source=standard_cauchy if cauchy else None,
    )


def univariate(*, cauchy: bool = False) -> Task:
    """Four parameters, uniform on [0, 4]; with `cauchy`, data that the model cannot give.

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.g_and_k.univariate().generate(seed=0, num_observations=10).shape
    (10,)

    ```
    """
    prior = Prior({name: dist.Uniform(0.0, 4.0) for name in TRUTH})
    simulator = Simulator(quantile, noise=dist.Normal(0.0, 1.0))
    return _task("univariate g-and-k", prior, simulator, TRUTH, (), cauchy)


def multivariate(*, cauchy: bool = False) -> Task:
    r"""Five coordinates whose neighbours have correlation $\rho \in (-\sqrt 3 / 3, \sqrt 3 / 3)$.

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.g_and_k.multivariate().generate(seed=0, num_observations=10).shape
    (10, 5)

    ```
    """
    limit = 3**0.5 / 3
    prior = Prior(
        {name: dist.Uniform(0.0, 4.0) for name in TRUTH} | {"rho": dist.Uniform(-limit, limit)}
    )
    noise = dist.Normal(0.0, 1.0).expand((DIMENSION,)).to_event(1)
    simulator = Simulator(correlated, noise=noise)
    return _task(
        "multivariate g-and-k", prior, simulator, TRUTH | {"rho": -0.3}, (DIMENSION,), cauchy
    )
