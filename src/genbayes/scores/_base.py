"""What every scoring rule shares: lower is better, estimated from draws alone."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_positive, is_concrete
from .._types import Array, Float, Observations, Scalar, Simulations, Theta

# "U": means over pairs of different draws, unbiased; "V": over all pairs
Statistic: TypeAlias = Literal["U", "V"]


class Prepared(eqx.Module):
    """Observations with what a score computed from them once (sorting, prefix sums, norms)."""

    values: Observations
    extra: Any = None


class AbstractScore(eqx.Module):
    r"""A scoring rule $S(P, y)$ estimated from draws $x_1, \dots, x_m \sim P$; lower is better.

    Facts of a rule: `strictly_proper`; `unbiased`, whether the estimate, and with it its gradient,
    has the exact score as its expectation; `min_simulations`; `needs_simulations`.

    A rule that only estimates derives from `AbstractSummedScore`; one with a faster way to the sum
    over observations derives from here. Rules add up: `2.0 * EnergyScore() + VariogramScore()`.
    """

    strictly_proper: ClassVar[bool]
    unbiased: ClassVar[bool]
    min_simulations: ClassVar[int]
    needs_simulations: ClassVar[bool]

    @abstractmethod
    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        """One estimate of $S(P, y_i)$ for each observation."""

    @abstractmethod
    def _prepare(self, observations: Observations) -> Any:
        """What depends on the data alone."""

    @abstractmethod
    def _total(self, simulations: Simulations, prepared: Prepared, theta: Theta | None) -> Scalar:
        """The sum of the estimates over the prepared observations."""

    def all_pairs(self) -> "AbstractScore":
        """The same rule estimated over all pairs of draws, each with itself included.

        Means over pairs of *different* draws are unbiased when draws are independent. Draws spread
        more evenly than that (a Sobol set) avoid each other, and then it is the mean over all pairs
        that comes close to the exact score.
        """
        return self

    def prepare(self, observations: Observations) -> Prepared:
        """Do once what depends on the data alone, for many calls of `total`.

        **Arguments:** `observations`, `(n, d)`.
        """
        observations = _as_observations(observations)
        return Prepared(observations, self._prepare(observations))

    def __call__(
        self, simulations: Simulations, observations: Observations, theta: Theta | None = None
    ) -> Float[Array, " n"]:
        r"""The `n` estimates $\hat S(x_{1..m}, y_i)$.

        **Arguments:** `simulations`, `(m, d)`; `observations`, `(n, d)`; `theta`, the parameters,
        which `LogScore` alone looks at.
        """
        observations = _as_observations(observations)
        simulations = self._checked(simulations, observations)
        estimates = self._estimates(simulations, observations.astype(simulations.dtype), theta)
        return self._guarded(estimates, simulations)

    def total(
        self,
        simulations: Simulations,
        observations: Observations | Prepared,
        theta: Theta | None = None,
    ) -> Scalar:
        r"""$\sum_i \hat S(x_{1..m}, y_i)$, by the fastest route the rule has.

        It is infinite or undefined, never finite, where a simulation is not finite.

        **Arguments:** `simulations`, `(m, d)`; `observations`, `(n, d)` or what `prepare` made of
        them; `theta`, the parameters, which `LogScore` alone looks at.
        """
        prepared = (
            observations if isinstance(observations, Prepared) else self.prepare(observations)
        )
        simulations = self._checked(simulations, prepared.values)
        prepared = jax.tree.map(lambda leaf: _cast(leaf, simulations.dtype), prepared)
        return self._guarded(self._total(simulations, prepared, theta), simulations)

    def __add__(self, other: "AbstractScore") -> "WeightedSum":
        if not isinstance(other, AbstractScore):
            return NotImplemented
        return WeightedSum(_terms(self) + _terms(other), _weights(self) + _weights(other))

    def __rmul__(self, weight: float | Scalar) -> "WeightedSum":
        return WeightedSum(_terms(self), tuple(weight * w for w in _weights(self)))

    def _checked(self, simulations: Simulations, observations: Observations) -> Simulations:
        if not self.needs_simulations and simulations is None:
            return jnp.zeros((0, observations.shape[1]), observations.dtype)
        simulations = _as_floats(simulations)
        if simulations.ndim != 2:
            raise ValueError(
                "Expected simulations of shape (m, d), one draw a row, got shape "
                f"{simulations.shape}; scalar draws have shape (m, 1)."
            )
        if simulations.shape[1] != observations.shape[1]:
            raise ValueError(
                "Expected simulations and observations of one dimension d, got shapes "
                f"{simulations.shape} and {observations.shape}; flatten or summarise both alike."
            )
        if simulations.shape[0] < self.min_simulations:
            raise ValueError(
                f"{type(self).__name__} needs at least {self.min_simulations} simulations, got "
                f"{simulations.shape[0]}; raise num_simulations."
            )
        return simulations

    def _guarded(self, value: Array, simulations: Simulations) -> Array:
        """A kernel of an infinite distance is 0: a draw that overflowed must not look fine."""
        if not self.needs_simulations:
            return value
        return jnp.where(jnp.all(jnp.isfinite(simulations)), value, jnp.full_like(value, jnp.inf))


class AbstractSummedScore(AbstractScore):
    """A rule whose total is the plain sum of its estimates; a new one implements `_estimates`."""

    def _prepare(self, observations: Observations) -> Any:
        del observations
        return None

    def _total(self, simulations: Simulations, prepared: Prepared, theta: Theta | None) -> Scalar:
        return jnp.sum(self._estimates(simulations, prepared.values, theta))


class WeightedSum(AbstractScore):
    r"""Weighted sum of scoring rules, $\sum_l c_l S_l$; written `2.0 * a + b`.

    It is strictly proper if all parts are proper and one strictly so, and unbiased if all are.

    **Arguments:** `scores`, a tuple of rules; `weights`, their $c_l > 0$.

    >>> from genbayes.scores import EnergyScore
    >>> x, y = jnp.array([[0.0], [2.0]]), jnp.array([[1.0]])
    >>> float((2.0 * EnergyScore() + EnergyScore()).total(x, y))
    0.0

    Reference: Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and
    estimation, JASA 102.
    """

    scores: tuple[AbstractScore, ...]
    weights: tuple[float | Scalar, ...]

    def __check_init__(self):
        if len(self.scores) != len(self.weights) or not self.scores:
            raise ValueError(
                "A sum of scores needs one weight for each of at least one score, got "
                f"{len(self.scores)} scores and {len(self.weights)} weights."
            )
        for weight in self.weights:
            check_positive("weight of a score", weight)

    @property
    def strictly_proper(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One strictly proper part is enough."""
        return any(score.strictly_proper for score in self.scores)

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Every part must be."""
        return all(score.unbiased for score in self.scores)

    @property
    def min_simulations(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The largest of the parts."""
        return max(score.min_simulations for score in self.scores)

    @property
    def needs_simulations(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether any part does."""
        return any(score.needs_simulations for score in self.scores)

    def all_pairs(self) -> "WeightedSum":
        """Every part over all pairs."""
        return WeightedSum(tuple(score.all_pairs() for score in self.scores), self.weights)

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        return self._sum([s._estimates(simulations, observations, theta) for s in self.scores])

    def _prepare(self, observations: Observations) -> Any:
        return tuple(score._prepare(observations) for score in self.scores)

    def _total(self, simulations: Simulations, prepared: Prepared, theta: Theta | None) -> Scalar:
        parts = [Prepared(prepared.values, extra) for extra in prepared.extra]
        pairs = zip(self.scores, parts, strict=True)
        return self._sum([score._total(simulations, part, theta) for score, part in pairs])

    def _sum(self, values: list[Array]) -> Array:
        weighted = [jnp.asarray(w, v.dtype) * v for w, v in zip(self.weights, values, strict=True)]
        return sum(weighted[1:], weighted[0])


def _terms(score: AbstractScore) -> tuple[AbstractScore, ...]:
    return score.scores if isinstance(score, WeightedSum) else (score,)


def _weights(score: AbstractScore) -> tuple[float | Scalar, ...]:
    return score.weights if isinstance(score, WeightedSum) else (1.0,)


def _as_floats(values: Any) -> Array:
    values = jnp.asarray(values)
    return values if jnp.issubdtype(values.dtype, jnp.floating) else values.astype(float)


def _cast(leaf: Any, dtype: Any) -> Any:
    floating = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
    return leaf.astype(dtype) if floating else leaf


def _as_observations(observations: Any) -> Observations:
    observations = _as_floats(observations)
    if observations.ndim != 2 or observations.shape[0] == 0:
        raise ValueError(
            "Expected observations of shape (n, d), one a row and at least one, got shape "
            f"{observations.shape}; scalar observations have shape (n, 1), one vector (1, d)."
        )
    if is_concrete(observations) and not np.all(np.isfinite(observations)):
        raise ValueError(
            f"Expected finite observations, got {int(np.sum(~np.isfinite(observations)))} values "
            "that are not; leave those observations out or replace the values."
        )
    return observations
