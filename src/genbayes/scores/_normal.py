"""Scores that look at a normal fit: Dawid-Sebastiani and Bayesian synthetic likelihood."""

from math import lgamma, log, pi
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._types import Array, Float, Observations, Simulations, Theta
from ._base import AbstractSummedScore
from ._moments import NormalFit, Shrinkage, check_enough, check_shrinkage, normal_fit


class DawidSebastiani(AbstractSummedScore):
    r"""Dawid-Sebastiani score at the sample mean and covariance (divisor $m$).

    $$\hat S(x_{1..m}, y) = \ln\det\hat\Sigma + (y - \hat\mu)^\top \hat\Sigma^{-1} (y - \hat\mu)$$

    Proper, strictly so only among distributions that two moments determine; it is
    `2 * SyntheticLikelihood()` less $d \ln 2\pi$.

    **Arguments:** none; it needs more simulations than dimensions.

    >>> x, y = jnp.array([[-1.0], [1.0]]), jnp.array([[0.0], [2.0]])
    >>> DawidSebastiani()(x, y).tolist()
    [0.0, 4.0]

    Reference: Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and
    estimation, JASA 102, equation 25.
    """

    strictly_proper: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    min_simulations: ClassVar[int] = 2
    needs_simulations: ClassVar[bool] = True

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del theta
        check_enough("DawidSebastiani", simulations, simulations.shape[1])
        fit = normal_fit(simulations)
        return fit.log_determinant() + fit.mahalanobis(observations)


class SyntheticLikelihood(AbstractSummedScore):
    r"""Bayesian synthetic likelihood: minus the log normal density at the sample moments.

    $$\hat S(x_{1..m}, y) = \tfrac d2 \ln 2\pi + \tfrac12 \ln\det\hat\Sigma
      + \tfrac12 (y - \hat\mu)^\top \hat\Sigma^{-1} (y - \hat\mu)$$

    The covariance has divisor $m$, as in the published code of the method. Proper, not strictly.

    **Arguments:**

    - `shrinkage`: `None`; `"ledoit-wolf"`, towards a multiple of the identity by the estimated
      optimal amount; or a number in (0, 1], the weight of the identity in the correlation matrix
      (Warton's $\gamma$ is one minus it). With shrinkage `m` may be less than `d`.
    - `unbiased_density`: use the unbiased estimate of the normal density instead of the plug-in
      one; it is zero, and the score infinite, far outside the draws. Needs $m > d + 3$. The
      density is then unbiased, not its logarithm: the rule counts as biased in any case.

    >>> x, y = jnp.array([[-1.0], [1.0]]), jnp.array([[0.0]])
    >>> float(SyntheticLikelihood()(x, y)[0])
    0.9189...

    Reference: Price et al. (2018), Bayesian synthetic likelihood, JCGS 27; Ledoit and Wolf (2004),
    J. Multivariate Anal. 88; Warton (2008), JASA 103; Ghurye and Olkin (1969), Ann. Math. Stat. 40.
    """

    shrinkage: Shrinkage = eqx.field(default=None, static=True)
    unbiased_density: bool = eqx.field(default=False, static=True)
    strictly_proper: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    min_simulations: ClassVar[int] = 2
    needs_simulations: ClassVar[bool] = True

    def __check_init__(self):
        check_shrinkage(self.shrinkage)
        if self.unbiased_density and self.shrinkage is not None:
            raise ValueError(
                "unbiased_density=True needs the plain sample covariance, got "
                f"shrinkage={self.shrinkage!r}; choose one of the two."
            )

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del theta
        d = simulations.shape[1]
        if self.shrinkage is None:
            more_than = d + 3 if self.unbiased_density else d
            check_enough("SyntheticLikelihood", simulations, more_than)
        fit = normal_fit(simulations, self.shrinkage)
        if self.unbiased_density:
            return -_log_unbiased_density(fit, observations, simulations.shape[0])
        deviance = fit.log_determinant() + fit.mahalanobis(observations)
        return 0.5 * deviance + 0.5 * d * log(2 * pi)


def _log_unbiased_density(fit: NormalFit, observations: Observations, m: int) -> Float[Array, " n"]:
    r"""Ghurye and Olkin's estimate; with $q = r^\top M^{-1} r\, m/(m-1)$ and scatter matrix $M$,

    $\ln \hat p = c - \tfrac12 \ln\det M + \tfrac{m-d-3}2 \ln(1 - q)$, minus infinity if $q \ge 1$.
    """
    d = observations.shape[1]
    share = fit.mahalanobis(observations) / (m - 1)  # the scatter matrix is m times the covariance
    inside = share < 1
    remainder = jnp.log1p(-jnp.where(inside, share, jnp.zeros_like(share)))
    gammas = sum(lgamma((m - i) / 2) - lgamma((m - i - 1) / 2) for i in range(1, d + 1))
    constant = gammas - d / 2 * (log(pi) + log(1 - 1 / m) + log(m))
    density = constant - 0.5 * fit.log_determinant() + (m - d - 3) / 2 * remainder
    return jnp.where(inside, density, jnp.full_like(density, -jnp.inf))
