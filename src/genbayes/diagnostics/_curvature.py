r"""Curvature of the summed score and variance of its gradient, at one point.

$$H = w \sum_i \nabla^2 S(P_\theta, y_i), \qquad J = w^2 \sum_i (g_i - \bar g)(g_i - \bar g)^\top,
  \qquad g_i = \nabla S(P_\theta, y_i)$$

in unconstrained coordinates. The second derivative of a *path* (a draw as a function of the
parameter) is no unbiased estimate of the curvature of its expectation: for the energy score of a
scalar it is zero. Gradients are unbiased, so $H$ is taken from their differences.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Key
from ..targets import ScorePosterior, TargetNoise, sobol_noise, suits_sobol, with_all_pairs
from ._draws import Scores


class Information(NamedTuple):
    """Curvature `(p, p)` of the weighted sum of scores, and variance `(p, p)` of its gradient.

    `error` is the Monte Carlo error of the curvature; `gradients` are `(rows, p)`, not weighted.
    """

    curvature: np.ndarray
    error: np.ndarray
    variance: np.ndarray
    gradients: np.ndarray


def information(
    key: Key,
    target: ScorePosterior,
    u: np.ndarray,
    steps: np.ndarray,
    *,
    num_repeats: int,
    num_draws: int | None,
) -> Information:
    """Both at `u` `(p,)`, with differences over `steps` `(p,)`, averaged over `num_repeats` noises.

    The variance is that over the observations, or over `num_draws` draws of the simulator at `u`.
    """
    target = eqx.tree_at(lambda t: t.batch_size, target, None, is_leaf=lambda x: x is None)
    key_curvature, key_scores, key_draws = jax.random.split(key, 3)
    num = 1 if target.is_exact else num_repeats
    point, number = jnp.asarray(u, float), target.problem.num_observations
    each = np.asarray(
        _curvatures(target, point, jnp.asarray(steps, float), jax.random.split(key_curvature, num)),
        float,
    )
    rows = (
        target.prepared.values
        if num_draws is None
        else _simulated(key_draws, target, point, num_draws)
    )
    g = np.asarray(_gradients(target, rows, point, jax.random.split(key_scores, num)), float)
    off = float(target.weight) * (g - g.mean(axis=0))
    error = each.std(axis=0, ddof=1) / np.sqrt(num) if num > 1 else np.zeros_like(each[0])
    return Information(each.mean(axis=0), error, number * off.T @ off / (len(g) - 1), g)


def _noise(key: Key, target: ScorePosterior) -> TargetNoise:
    return sobol_noise(key, target) if suits_sobol(target) else target.draw_noise(key)


@eqx.filter_jit
def _curvatures(target: ScorePosterior, u: Array, steps: Array, keys: Array) -> Array:
    """An estimate of the curvature for each key, by central differences at the same noise."""
    even = with_all_pairs(target) if suits_sobol(target) else target
    prior = target.problem.prior
    size = u.shape[0]
    sides = jnp.concatenate([jnp.diag(steps), -jnp.diag(steps)])

    def one(key: Key) -> Array:
        noise = _noise(key, even)

        def gradient(at: Array) -> Array:  # of the weighted scores alone
            return jax.grad(prior.log_prob_unconstrained)(at) - even.grad(at, noise)

        g = jax.lax.map(gradient, u[None] + sides)
        rows = (g[:size] - g[size:]) / (2 * steps[:, None])
        return (rows + rows.T) / 2

    return jax.lax.map(one, keys)


@eqx.filter_jit
def _gradients(target: ScorePosterior, rows: Array, u: Array, keys: Array) -> Array:
    """The gradient of the score of each row `(rows, p)`, averaged over the keys."""
    scores = Scores(target, rows)

    def add(total: Array, key: Key) -> tuple[Array, None]:
        noise = _noise(key, target).simulator
        simulator = target.problem.simulator

        def each(at: Array) -> Array:
            theta = target.problem.prior.constrain(at)
            draws = (
                None
                if noise is None or simulator is None
                else simulator.simulate_from(theta, noise)
            )
            return scores(theta, draws)

        return total + _jacobian(each, u), None

    zero = jnp.zeros((rows.shape[0], u.shape[0]), u.dtype)
    return jax.lax.scan(add, zero, keys)[0] / keys.shape[0]


def _jacobian(fn: Callable[[Array], Array], u: Array) -> Array:
    """The derivative `(rows, p)`, one direction at a time: all at once take p times the memory."""
    rows = jax.eval_shape(fn, u).shape[0]
    if u.shape[0] <= rows:
        return jax.lax.map(lambda e: jax.jvp(fn, (u,), (e,))[1], jnp.eye(u.shape[0])).T
    _, pull = jax.vjp(fn, u)
    return jax.lax.map(lambda e: pull(e)[0], jnp.eye(rows))


@eqx.filter_jit
def _simulated(key: Key, target: ScorePosterior, u: Array, num: int) -> Array:
    simulator = target.problem.simulator
    assert simulator is not None
    theta = target.problem.prior.constrain(u)
    return simulator.features(simulator.simulate_from(theta, simulator.draw_noise(key, num)))
