"""What every scoring rule shares: lower is better, estimated from draws alone."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._types import Array, Float, Observations, Scalar, Simulations, Theta


class Prepared(eqx.Module):
    """Observations with what a score computed from them once (sorting, prefix sums, norms)."""

    values: Observations
    extra: Any = None


class AbstractScore(eqx.Module):
    r"""A scoring rule $S(P, y)$ estimated from draws $x_1, \dots, x_m \sim P$.

    A new rule implements `_estimates`; one with a faster sum over observations also `_total`
    and `_prepare`.
    """

    strictly_proper: ClassVar[bool]
    unbiased: ClassVar[bool]
    min_simulations: ClassVar[int] = 2

    @abstractmethod
    def _estimates(self, simulations: Simulations, observations: Observations) -> Float[Array, " n"]:
        """One estimate of $S(P, y_i)$ for each observation."""

    def _prepare(self, observations: Observations) -> Any:
        """What depends on the data alone."""
        del observations
        return None

    def _total(self, simulations: Simulations, prepared: Prepared) -> Scalar:
        return jnp.sum(self._estimates(simulations, prepared.values))

    def prepare(self, observations: Observations) -> Prepared:
        """Do once what depends on the data alone, for many calls of `total`."""
        observations = jnp.asarray(observations, float)
        return Prepared(observations, self._prepare(observations))

    def __call__(self, simulations: Simulations, observations: Observations) -> Float[Array, " n"]:
        """The `n` estimates of $S(P, y_i)$."""
        return self._estimates(jnp.asarray(simulations, float), jnp.asarray(observations, float))

    def total(
        self, simulations: Simulations, observations: Observations | Prepared, theta: Theta | None = None
    ) -> Scalar:
        r"""$\sum_i \hat S(x_{1..m}, y_i)$, by the fastest route the rule has."""
        del theta
        if not isinstance(observations, Prepared):
            observations = self.prepare(observations)
        return self._total(simulations, observations)
