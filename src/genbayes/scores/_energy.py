"""Energy score."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._checks import check_between, check_choice
from .._types import Array, Float, Observations, Scalar, Simulations, Theta
from ..kernels import AbstractRadial, safe_root
from ._base import AbstractScore, Prepared, Statistic
from ._pairs import between, between_each, within
from ._sorted import absolute_between, absolute_within, sorted_sample


class DistancePower(AbstractRadial):
    r"""$\lVert x - y \rVert^\beta$, with slope 0 where the points coincide."""

    beta: float = eqx.field(static=True)

    def radial(self, squared: Array) -> tuple[Array, Array]:
        """Value and slope at squared distances of any shape."""
        if self.beta == 1:
            return safe_root(squared)
        positive = squared > 0
        safe = jnp.where(positive, squared, jnp.ones_like(squared))
        ratio = safe ** (self.beta / 2 - 1)
        zero = jnp.zeros_like(squared)
        return jnp.where(positive, ratio * safe, zero), jnp.where(positive, self.beta * ratio, zero)


class EnergyScore(AbstractScore):
    r"""Energy score, in the convention without the factor 1/2.

    $$\hat S(x_{1..m}, y) = \frac 2m \sum_j \lVert x_j - y\rVert^\beta
      - \frac{1}{m(m-1)} \sum_{j \ne k} \lVert x_j - x_k\rVert^\beta$$

    For scalar data and $\beta = 1$ the total takes $O((m + n)\log)$ operations; the observations
    are sorted once, in `prepare`.

    **Arguments:** `beta`, strictly between 0 and 2 (a Python number: each value is compiled);
    `statistic`, `"U"` as above or `"V"`, with $m^2$ in place of $m(m-1)$, which is biased for
    independent draws.

    >>> x, y = jnp.array([[0.0], [2.0]]), jnp.array([[1.0], [4.0]])
    >>> EnergyScore()(x, y).tolist()
    [0.0, 4.0]

    Reference: Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and
    estimation, JASA 102; Rizzo and Székely (2016), Energy distance, WIREs Comput. Stat. 8.
    """

    beta: float = eqx.field(default=1.0, static=True)
    strictly_proper: ClassVar[bool] = True
    statistic: Statistic = eqx.field(default="U", static=True)
    min_simulations: ClassVar[int] = 2
    needs_simulations: ClassVar[bool] = True

    def __check_init__(self):
        check_between("beta", self.beta, 0, 2)
        check_choice("statistic", self.statistic, ("U", "V"))

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The mean over different draws is."""
        return self.statistic == "U"

    def all_pairs(self) -> "EnergyScore":
        """The V-statistic."""
        return EnergyScore(self.beta, "V")

    def _pairs(self, m: int) -> float:
        return float(m * (m - 1) if self.statistic == "U" else m * m)  # own distances are 0

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del theta
        m, power = simulations.shape[0], DistancePower(self.beta)
        spread = within(power, simulations) / self._pairs(m)
        return 2 / m * between_each(power, simulations, observations) - spread

    def _prepare(self, observations: Observations) -> Any:
        line = observations.shape[1] == 1 and self.beta == 1
        return sorted_sample(observations[:, 0]) if line else None

    def _total(self, simulations: Simulations, prepared: Prepared, theta: Theta | None) -> Scalar:
        del theta
        m, n = simulations.shape[0], prepared.values.shape[0]
        if prepared.extra is not None:
            cross = absolute_between(simulations[:, 0], prepared.extra)
            spread = absolute_within(simulations[:, 0])
        else:
            power = DistancePower(self.beta)
            cross = between(power, simulations, prepared.values)
            spread = within(power, simulations)
        return 2 / m * cross - n / self._pairs(m) * spread


def energy_distance(
    x: Simulations, y: Observations, *, beta: float = 1.0, unbiased: bool = True
) -> Scalar:
    r"""Squared energy distance of two samples.

    $$D = 2\,\overline{\lVert x_j - y_i\rVert^\beta} - \overline{\lVert x_j - x_k\rVert^\beta}
      - \overline{\lVert y_i - y_l\rVert^\beta}$$

    **Arguments:** `x`, `(m, d)`; `y`, `(n, d)`; `beta` in (0, 2); `unbiased`, means over pairs of
    different points (the U-statistic, which may be negative) or over all pairs (V-statistic).

    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(energy_distance(x, x + 3.0, unbiased=False))
    5.0

    Reference: Rizzo and Székely (2016), Energy distance, WIREs Comput. Stat. 8.
    """
    check_between("beta", beta, 0, 2)
    x, y = two_samples(x, y, 2 if unbiased else 1)
    power = DistancePower(beta)
    m, n = x.shape[0], y.shape[0]
    less = 1 if unbiased else 0
    # floats, because a whole number of pairs soon exceeds 32 bits
    spread = within(power, x) / float(m * (m - less)) + within(power, y) / float(n * (n - less))
    return 2 / (m * n) * between(power, x, y) - spread


def mean_distance(x: Simulations, y: Observations) -> Scalar:
    r"""Mean Euclidean distance over all pairs of two samples, $\overline{\lVert x_j - y_i\rVert}$.

    **Arguments:** `x`, `(m, d)`; `y`, `(n, d)`.

    >>> float(mean_distance(jnp.array([[0.0]]), jnp.array([[1.0], [2.0]])))
    1.5
    """
    x, y = two_samples(x, y, 1)
    return between(DistancePower(1.0), x, y) / float(x.shape[0] * y.shape[0])


def two_samples(x: Array, y: Array, at_least: int) -> tuple[Array, Array]:
    """Two samples `(m, d)` and `(n, d)` of one floating type, or a refusal."""
    x, y = jnp.asarray(x), jnp.asarray(y)
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(
            f"Expected two samples of shapes (m, d) and (n, d), got {x.shape} and {y.shape}; a "
            "sample of scalars has shape (m, 1)."
        )
    if min(x.shape[0], y.shape[0]) < at_least:
        raise ValueError(
            f"Expected at least {at_least} points in each sample, got {x.shape[0]} and "
            f"{y.shape[0]}; unbiased=False needs only one."
        )
    dtype = jnp.promote_types(jnp.promote_types(x.dtype, y.dtype), jnp.bfloat16)
    return x.astype(dtype), y.astype(dtype)
