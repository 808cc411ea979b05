"""Scores from a Gaussian copula over kernel density estimates: semiBSL and its copula part."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from .._types import Array, Float, Observations, Scalar, Simulations, Theta
from ._base import AbstractSummedScore
from ._density import margins
from ._moments import check_enough, quadratic_form
from ._sorted import balance


class GaussianCopulaScore(AbstractSummedScore):
    r"""Score of the dependence alone: minus the log density of a Gaussian copula.

    $$\hat S = \tfrac12 \ln\det\hat R + \tfrac12 \hat\eta^\top (\hat R^{-1} - I)\,\hat\eta, \qquad
      \hat\eta^k = \Phi^{-1}\bigl(\hat F_k(y^k)\bigr)$$

    $\hat R$ is the Gaussian rank correlation of the draws and $\hat F_k$ the integral of a Gaussian
    kernel density estimate. Proper among models whose margins are right, not strictly: alone it
    does not judge margins, so add a rule that does.
    Ranks are locally constant, so gradients reach the draws through $\hat\eta$ only.

    **Arguments:** none; it needs two dimensions or more, and more simulations than dimensions.

    >>> x = jnp.array([[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])
    >>> GaussianCopulaScore()(x, jnp.array([[1.5, 1.5]]))
    Array([-0.59416...], dtype=float32)

    Reference: An, Nott and Drovandi (2020), Robust Bayesian synthetic likelihood via a
    semi-parametric approach, Stat. Comput. 30; Boudt et al. (2012), Metrika 75.
    """

    strictly_proper: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    min_simulations: ClassVar[int] = 2
    needs_simulations: ClassVar[bool] = True

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del theta
        if simulations.shape[1] < 2:
            raise ValueError(
                "GaussianCopulaScore scores the dependence between coordinates: it needs d of at "
                "least 2, got 1; EnergyScore() or KernelScore(...) score a single coordinate."
            )
        check_enough("GaussianCopulaScore", simulations, simulations.shape[1])
        _, normal = margins(simulations, observations)
        return copula_score(rank_correlation(simulations), normal)


class SemiparametricSyntheticLikelihood(AbstractSummedScore):
    r"""Semiparametric synthetic likelihood: kernel density margins and a Gaussian copula.

    $$\hat S = \tfrac12 \ln\det\hat R + \tfrac12 \hat\eta^\top (\hat R^{-1} - I)\,\hat\eta
      - \sum_k \ln \hat f_k(y^k), \qquad \hat\eta^k = \Phi^{-1}\bigl(\hat F_k(y^k)\bigr)$$

    Bandwidths are Silverman's factor $(3m/4)^{-1/5}$ times the standard deviation with divisor
    $m - 1$; $\hat F_k$ is the exact integral of $\hat f_k$; nothing is clipped, and tails are
    computed on the log scale. Draws that are equal share their mean rank. Proper, not strictly.
    Gradients reach the draws through the margins; ranks are locally constant.

    **Arguments:** none; it needs more simulations than dimensions.

    >>> x = jnp.array([[-1.0], [0.0], [1.0]])
    >>> SemiparametricSyntheticLikelihood()(x, jnp.array([[0.0]]))
    Array([1.16143...], dtype=float32)

    Reference: An, Nott and Drovandi (2020), Robust Bayesian synthetic likelihood via a
    semi-parametric approach, Stat. Comput. 30.
    """

    strictly_proper: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    min_simulations: ClassVar[int] = 2
    needs_simulations: ClassVar[bool] = True

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del theta
        check_enough("SemiparametricSyntheticLikelihood", simulations, simulations.shape[1])
        log_density, normal = margins(simulations, observations)
        margin = -jnp.sum(log_density, axis=0)
        if simulations.shape[1] == 1:  # nothing to depend on
            return margin
        return margin + copula_score(rank_correlation(simulations), normal)


def rank_correlation(simulations: Simulations) -> Float[Array, "d d"]:
    r"""Correlation of the normal scores $\Phi^{-1}(r / (m + 1))$ of the ranks."""
    m = simulations.shape[0]
    # at every half of a rank, for draws that are equal
    scores = jnp.asarray(ndtri(np.linspace(1, m, 2 * m - 1) / (m + 1)), simulations.dtype)
    fixed = jax.lax.stop_gradient(simulations)
    ranked = jax.vmap(lambda x: scores[balance(x) + (m - 1)], 1)(fixed)
    ranked = ranked / jnp.sqrt(jnp.sum(ranked**2, axis=1, keepdims=True))
    return jnp.matmul(ranked, ranked.T, precision=jax.lax.Precision.HIGHEST)


def copula_score(
    correlation: Float[Array, "d d"], normal: Float[Array, "d n"]
) -> Float[Array, " n"]:
    """Minus the log density of the Gaussian copula at normal scores."""
    factor = jnp.linalg.cholesky(correlation)
    half: Scalar = jnp.sum(jnp.log(jnp.diagonal(factor)))
    return half + 0.5 * (quadratic_form(factor, normal.T) - jnp.sum(normal**2, axis=0))
