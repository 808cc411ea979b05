"""Kernel score, maximum mean discrepancy and the MMD-Bayes weight."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .._checks import check_choice, check_count, check_positive
from .._types import Array, Float, Observations, Scalar, Simulations, Theta
from ..kernels import AbstractKernel, as_kernel
from ._base import AbstractScore, Prepared, Statistic, WeightedSum
from ._energy import two_samples
from ._pairs import between, between_each, within


class KernelScore(AbstractScore):
    r"""Kernel score of a positive-definite kernel.

    $$\hat S(x_{1..m}, y) = \frac{1}{m(m-1)} \sum_{j \ne k} k(x_j, x_k)
      - \frac 2m \sum_j k(x_j, y)$$

    It is strictly proper where the kernel is characteristic.

    **Arguments:** `kernel`, one of `genbayes.kernels` or a function `k(x, y)` of two points;
    `statistic`, `"U"` as above or `"V"`, the mean over all pairs, which is biased for independent
    draws.

    >>> from genbayes import kernels
    >>> x, y = jnp.array([[0.0], [0.0]]), jnp.array([[0.0]])
    >>> KernelScore(kernels.Gaussian(1.0))(x, y).tolist()
    [-1.0]

    Reference: Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and
    estimation, JASA 102, section 5.
    """

    kernel: AbstractKernel = eqx.field(converter=as_kernel)
    statistic: Statistic = eqx.field(default="U", static=True)
    min_simulations: ClassVar[int] = 2
    needs_simulations: ClassVar[bool] = True

    def __check_init__(self):
        check_choice("statistic", self.statistic, ("U", "V"))

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The mean over different draws is."""
        return self.statistic == "U"

    def all_pairs(self) -> "KernelScore":
        """The V-statistic."""
        return KernelScore(self.kernel, "V")

    def _within(self, simulations: Simulations) -> Scalar:
        """Mean of the kernel over pairs of draws."""
        return _mean_within(self.kernel, simulations, self.statistic == "U")

    @property
    def strictly_proper(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the kernel tells any two distributions apart."""
        return self.kernel.characteristic

    @staticmethod
    def mmd_bayes(
        kernel: AbstractKernel | Callable[[Array, Array], Scalar], beta: float, n: int
    ) -> WeightedSum:
        r"""The kernel score weighted by $\beta / n$, whose posterior is MMD-Bayes.

        $$\pi(\theta \mid y) \propto \pi(\theta) \exp\{-\beta\, D_k(P_\theta, \hat P_n)\}$$

        The squared distance to the empirical measure is the mean of the scores plus a constant,
        so keep the target's own weight at 1.

        **Arguments:** `kernel`; `beta`, the temperature, above 0; `n`, the number of observations.

        >>> from genbayes import kernels
        >>> KernelScore.mmd_bayes(kernels.Gaussian(1.0), beta=5.0, n=10).weights
        (0.5,)

        Reference: Chérief-Abdellatif and Alquier (2020), MMD-Bayes, AABI.
        """
        check_positive("beta", beta)
        check_count("n", n)
        return (beta / n) * KernelScore(kernel)  # pyright: ignore[reportArgumentType]

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del theta
        m = simulations.shape[0]
        return self._within(simulations) - 2 / m * between_each(
            self.kernel, simulations, observations
        )

    def _prepare(self, observations: Observations) -> Any:
        del observations
        return None

    def _total(self, simulations: Simulations, prepared: Prepared, theta: Theta | None) -> Scalar:
        del theta
        m, n = simulations.shape[0], prepared.values.shape[0]
        cross = between(self.kernel, simulations, prepared.values)
        return n * self._within(simulations) - 2 / m * cross


def mmd(
    x: Simulations,
    y: Observations,
    kernel: AbstractKernel | Callable[[Array, Array], Scalar],
    *,
    unbiased: bool = True,
) -> Scalar:
    r"""Squared maximum mean discrepancy of two samples.

    $$D_k = \overline{k(x_j, x_k)} + \overline{k(y_i, y_l)} - 2\,\overline{k(x_j, y_i)}$$

    **Arguments:** `x`, `(m, d)`; `y`, `(n, d)`; `kernel`; `unbiased`, means over pairs of
    different points (the U-statistic, which may be negative) or over all pairs (V-statistic).

    >>> from genbayes import kernels
    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(mmd(x, x, kernels.Gaussian(1.0), unbiased=False))
    0.0

    Reference: Gretton et al. (2012), A kernel two-sample test, JMLR 13.
    """
    kernel = as_kernel(kernel)
    x, y = two_samples(x, y, 2 if unbiased else 1)
    m, n = x.shape[0], y.shape[0]
    cross = between(kernel, x, y) / float(m * n)
    parts = _mean_within(kernel, x, unbiased) + _mean_within(kernel, y, unbiased)
    return parts - 2 * cross


def _mean_within(kernel: AbstractKernel, x: Array, unbiased: bool) -> Scalar:
    m = x.shape[0]
    pairs = within(kernel, x)
    if unbiased:
        return pairs / float(m * (m - 1))
    return (pairs + jnp.sum(jax.vmap(kernel)(x, x))) / float(m**2)
