"""Weight by the bootstrap distribution of minimisers, in closed form."""

import time
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Key
from ..problem import Problem
from ..scores import AbstractScore
from ._match_information import (
    CalibratedWeight,
    calls_of,
    check_bootstrap,
    names_of,
    need_minimisers,
    over_observations,
)
from ._prior_draws import as_key, check_problem, rng_of
from ._risk import Fit, Risk, fit, minimisers


@dataclass(frozen=True, eq=False)
class MinimisersWeight(CalibratedWeight):
    """The weight whose posterior is nearest to the bootstrap distribution of minimisers."""

    @property
    def rule(self) -> str:
        """What the weight matches, in a few words."""
        return "bootstrap distribution of minimisers"


def match_minimisers(
    problem: Problem,
    score: AbstractScore,
    *,
    num_bootstrap: int = 200,
    num_simulations: int = 500,
    level: float = 0.95,
    seed: int | Key = 0,
) -> MinimisersWeight:
    r"""The weight whose posterior is nearest to the bootstrap minimisers in Fisher divergence.

    $$w = \max\left(0,\ \frac{\sum_b \nabla \log\pi(u_b) \cdot \nabla L(u_b) + \Delta L(u_b)}
      {\sum_b \lVert \nabla L(u_b) \rVert^2}\right), \qquad L(u) = \sum_i S(P_u, y_i)$$

    with $u_b$ the minimisers for observations drawn with replacement, and $\pi$ the prior, in
    unconstrained coordinates. It minimises the mean of
    $\lVert\nabla \log\pi_w(u_b) - \nabla\log p(u_b)\rVert^2$ over $w$, $p$ being the density of the
    minimisers, which score matching makes known up to a constant. Where $n$ is large it tends to
    $\operatorname{tr} H / \operatorname{tr} J$.

    **Arguments:** as for `match_information`; `num_bootstrap` drawn with replacement.

    The published rule replaces a value above 1 by 1; here it stays. As a trace it depends on the
    choice of coordinates where there are several. It needs what `match_information` needs.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=40)
    >>> found = gb.tuning.match_minimisers(problem, score, num_bootstrap=100)
    >>> bool(found.interval[0] < 1 / problem.observations.var() < found.interval[1])
    True

    ```

    Reference: Matsubara, Knoblauch, Briol and Oates (2022), Robust generalised Bayesian inference
    for intractable likelihoods, JRSS B 84; Hyvärinen (2005), JMLR 6.
    """
    begun = time.perf_counter()
    check_problem(problem)
    check_bootstrap(num_bootstrap, level)
    key = as_key(seed)
    found = fit(key, problem, score, num_simulations)
    return minimisers_of(found, num_bootstrap, level, rng_of(key), begun)


def minimisers_of(
    fit: Fit, num_bootstrap: int, level: float, rng: np.random.Generator, begun: float
) -> MinimisersWeight:
    """The same from a fit."""
    rows = rng.multinomial(fit.size, np.full(fit.size, 1 / fit.size), num_bootstrap).astype(float)
    u, good = minimisers(fit, rows)
    need_minimisers(good)
    arrays = (jnp.asarray(u[good], float), jnp.asarray(fit.steps, float))
    prior, slope, laplacian = (np.asarray(a, float) for a in _at_minimisers(fit.risk, *arrays))
    value = max(0.0, (np.sum(prior * slope) + laplacian.sum()) / np.sum(slope**2))
    asymptotic = _asymptotic(fit.curvature, fit.variance)
    low, high = over_observations(fit, _asymptotic, level, rng)
    calls = calls_of(fit, num_bootstrap) + len(prior) * (2 * len(fit.u) + 1) * (
        fit.risk.target.simulations_per_estimate
    )
    return MinimisersWeight(
        float(value), (low * value / asymptotic, high * value / asymptotic), level, calls,
        time.perf_counter() - begun, u[good], float(np.mean(~good)), fit.u, names_of(fit),
        asymptotic, fit.directions, fit.curvature,
    )  # fmt: skip


def _asymptotic(h: np.ndarray, j: np.ndarray) -> float:
    return float(np.trace(h) / np.trace(j))


@eqx.filter_jit
def _at_minimisers(risk: Risk, u: Array, steps: Array) -> tuple[Array, Array, Array]:
    """Gradients of log prior and summed score `(B, p)`, and the Laplacian of the latter `(B,)`."""
    rows = jnp.ones(risk.target.problem.num_observations)

    def slope(at: Array) -> Array:
        return jax.grad(risk.objective)(at, rows, 0.0)

    def one(at: Array) -> tuple[Array, Array, Array]:
        sides = jnp.diag(steps)
        up, down = jax.lax.map(slope, at[None] + sides), jax.lax.map(slope, at[None] - sides)
        laplacian = jnp.sum(jnp.diag(up - down) / (2 * steps))
        prior = jax.grad(risk.target.problem.prior.log_prob_unconstrained)(at)
        return prior, slope(at), laplacian

    return jax.lax.map(one, u)
