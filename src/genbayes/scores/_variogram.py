"""Variogram score."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_choice, check_positive, is_concrete
from .._types import Array, Float, Observations, Scalar, Simulations, Theta
from ._base import AbstractScore, Prepared, Statistic

_ENTRIES = 2**22  # of the (m, pairs) matrix that is alive at a time


class _Variogram(NamedTuple):
    """Mean of the variogram over points and mean square around it, one of each per pair."""

    mean: Float[Array, " P"]
    variance: Float[Array, " P"]


class VariogramScore(AbstractScore):
    r"""Variogram score of order $p$, sensitive to the dependence between coordinates.

    $$S(P, y) = \sum_{k, l} w_{kl} \bigl(|y^k - y^l|^p - \mathbb E\,|X^k - X^l|^p\bigr)^2$$

    The square of a sample mean is too large by its variance; that is taken off, so the estimate is
    unbiased (and can be negative). Proper, not strictly: a shift of all coordinates goes unseen.

    **Arguments:** `p`, above 0 (a Python number; 0.5 and 1 are usual); `weights`, `(d, d)`
    non-negative, all 1 by default; `statistic`, `"U"` as above or `"V"`, the plain square, which is
    biased for independent draws.

    >>> x = jnp.array([[0.0, 1.0], [0.0, 3.0]])
    >>> VariogramScore(p=1.0)(x, jnp.array([[0.0, 2.0]])).tolist()
    [-2.0]

    Reference: Scheuerer and Hamill (2015), Variogram-based proper scoring rules for probabilistic
    forecasts of multivariate quantities, Mon. Weather Rev. 143.
    """

    p: float = eqx.field(default=0.5, static=True)
    weights: Float[Array, "d d"] | None = None
    statistic: Statistic = eqx.field(default="U", static=True)
    strictly_proper: ClassVar[bool] = False
    min_simulations: ClassVar[int] = 2
    needs_simulations: ClassVar[bool] = True

    def __check_init__(self):
        check_positive("p", self.p)
        check_choice("statistic", self.statistic, ("U", "V"))
        if self.weights is None or not is_concrete(self.weights):
            return
        shape = np.shape(self.weights)
        if len(shape) != 2 or shape[0] != shape[1] or np.any(np.asarray(self.weights) < 0):
            raise ValueError(
                "weights must be a square matrix (d, d) without negative entries, got shape "
                f"{shape}; leave it out to weight all pairs alike."
            )

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """With the variance of the mean taken off it is."""
        return self.statistic == "U"

    def all_pairs(self) -> "VariogramScore":
        """The plain square: the mean over even draws errs far less than that of independent ones.

        What is taken off for independent draws would be an error of order 1/m.
        """
        return VariogramScore(self.p, self.weights, "V")

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del theta
        model = self._variogram(simulations)
        return jax.lax.map(
            lambda y: self._score(model, _Variogram(*self._variogram(y[None])), simulations),
            observations,
        )

    def _prepare(self, observations: Observations) -> Any:
        return self._variogram(observations)

    def _total(self, simulations: Simulations, prepared: Prepared, theta: Theta | None) -> Scalar:
        del theta
        model = self._variogram(simulations)
        return prepared.values.shape[0] * self._score(model, prepared.extra, simulations)

    def _score(self, model: _Variogram, data: _Variogram, simulations: Simulations) -> Scalar:
        """Mean score over the data: their spread, plus the squared distance of the means."""
        m, d = simulations.shape
        per_pair = data.variance + (data.mean - model.mean) ** 2
        if self.statistic == "U":
            per_pair -= model.variance / (m - 1)
        if self.weights is None:
            return 2 * jnp.sum(per_pair)
        first, second = np.triu_indices(d, 1)
        weights = jnp.asarray(self.weights, simulations.dtype)
        if weights.shape != (d, d):
            raise ValueError(
                f"Expected weights of shape {(d, d)} for data of dimension {d}, got "
                f"{weights.shape}."
            )
        return jnp.sum((weights[first, second] + weights[second, first]) * per_pair)

    def _variogram(self, points: Float[Array, "m d"]) -> _Variogram:
        m, d = points.shape
        if d < 2:
            raise ValueError(
                "VariogramScore scores differences between coordinates: it needs d of at least 2, "
                "got 1; EnergyScore() or KernelScore(...) score a single coordinate."
            )
        pairs = np.stack(np.triu_indices(d, 1), axis=1)
        count = len(pairs)
        chunk = min(count, max(1, _ENTRIES // m))
        pairs = np.pad(pairs, ((0, -count % chunk), (0, 0))).reshape(-1, chunk, 2)

        @jax.checkpoint  # pyright: ignore[reportPrivateImportUsage]
        def moments(columns: Float[Array, "d m"], pair: Array) -> tuple[Array, Array]:
            values = self._power(columns[pair[:, 0]] - columns[pair[:, 1]])
            mean = jnp.mean(values, axis=1)
            return mean, jnp.mean((values - mean[:, None]) ** 2, axis=1)

        columns = points.T
        parts = jax.lax.map(lambda pair: moments(columns, pair), jnp.asarray(pairs))
        return _Variogram(*(part.reshape(-1)[:count] for part in parts))

    def _power(self, difference: Array) -> Array:
        """Its slope is taken as 0 where two coordinates coincide."""
        positive = difference != 0
        size = jnp.where(positive, jnp.abs(difference), jnp.ones_like(difference))
        return jnp.where(positive, size**self.p, jnp.zeros_like(difference))
