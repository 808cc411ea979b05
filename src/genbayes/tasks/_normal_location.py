"""Normal location, clean or contaminated."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from .._checks import check_nonnegative
from .._types import Array, Key, Theta
from ..problem import Prior, Simulator
from ._task import Task


def shifted(theta: Theta, z: Array) -> Array:
    r"""$x = \theta + z$."""
    return theta["mean"] + z


def normal_location(*, contamination: float = 0.0, outlier: float = 10.0) -> Task:
    r"""$x = \theta + z$ with $z \sim N(0, 1)$, $\theta \sim N(0, 1)$, and the truth at 1.

    **Arguments:** `contamination` is the share of the observations that come from
    $N(\mathrm{outlier}, 1)$ instead; they are the last rows.

    ```python
    >>> import genbayes as gb
    >>> task = gb.tasks.normal_location(contamination=0.1, outlier=10.0)
    >>> bool((task.generate(0, 100)[-10:] > 5).all())
    True

    ```
    """
    check_nonnegative("contamination", contamination)
    if contamination > 1:
        raise ValueError(f"contamination is a share, at most 1; got {contamination}.")

    def contaminated(key: Key, num: int) -> Array:
        outliers = round(contamination * num)
        centre = jnp.where(jnp.arange(num) < num - outliers, 1.0, outlier)
        return centre + jax.random.normal(key, (num,))

    return Task(
        name="normal location",
        prior=Prior(mean=dist.Normal(0.0, 1.0)),
        simulator=Simulator(shifted, noise=dist.Normal(0.0, 1.0)),
        truth={"mean": jnp.asarray(1.0)},
        source=contaminated,
    )
