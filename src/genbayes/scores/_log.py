"""Logarithmic score of a model whose likelihood is known."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Array, Float, Observations, Scalar, Simulations, Theta
from ._base import AbstractSummedScore


class LogScore(AbstractSummedScore):
    r"""Logarithmic score of a known likelihood: the posterior is then the standard Bayes one.

    $$S(P_\theta, y) = -\ln p(y \mid \theta)$$

    It takes no simulations (they may be `None` or have no rows) and needs `theta`.

    **Arguments:** `log_prob`, a function of the mapping of parameters and one observation, `(d,)`,
    that returns a scalar.

    >>> score = LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mu"]) ** 2))
    >>> float(score.total(None, jnp.array([[1.0], [3.0]]), theta={"mu": jnp.array(1.0)}))
    2.0

    Reference: Good (1952), Rational decisions, JRSS B 14.
    """

    log_prob: Callable[[Theta, Float[Array, " d"]], Scalar] = eqx.field(static=True)
    strictly_proper: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    min_simulations: ClassVar[int] = 0
    needs_simulations: ClassVar[bool] = False

    def __check_init__(self):
        if not callable(self.log_prob):
            raise TypeError(
                f"LogScore expects a function log_prob(theta, y), got {self.log_prob!r}."
            )

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del simulations
        if theta is None:
            raise ValueError(
                "LogScore needs the parameters, got theta=None; call total(simulations, "
                "observations, theta={...}), or use a score of simulations alone."
            )
        return -jax.vmap(lambda y: jnp.reshape(self.log_prob(theta, y), ()))(observations)
