r"""Penalised logistic regression in compiled code, with the penalty chosen by cross-validation.

Loss: weighted mean of $\ln(1 + e^{-t h})$, both classes weighing the same, plus
$\lambda \sum |b|$ (lasso) or $\tfrac\lambda2 \sum b^2$ (ridge); the intercept is free. The fit is
accelerated proximal gradient along a falling path of $\lambda$, each start the last solution.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._types import Array, Float, Scalar


class Rows(NamedTuple):
    """Features with a leading 1, labels -1 or 1, and weights that sum to 1."""

    features: Float[Array, "N q"]
    labels: Float[Array, " N"]
    weights: Float[Array, " N"]


def logistic_loss(coefficients: Float[Array, " q"], rows: Rows) -> Scalar:
    """Weighted mean deviance, halved."""
    return jnp.sum(rows.weights * jax.nn.softplus(-rows.labels * (rows.features @ coefficients)))


def fit(
    rows: Rows, start: Float[Array, " q"], strength: Scalar, lasso: bool, steps: int
) -> Float[Array, " q"]:
    """Accelerated proximal gradient, restarted whenever momentum points uphill."""
    curvature = (rows.features * rows.weights[:, None]).T @ rows.features / 4
    # A trace bounds the largest eigenvalue; the norm below is closer and as safe.
    bound = jnp.max(jnp.sum(jnp.abs(curvature), axis=1))
    ridge = jnp.asarray(0 if lasso else 1, start.dtype) * strength
    rate = 1 / (bound + ridge)
    slope = jax.grad(logistic_loss)

    def step(_: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        now, ahead, momentum = state
        free = jnp.concatenate([jnp.zeros_like(ahead[:1]), ahead[1:]])
        moved = ahead - rate * (slope(ahead, rows) + ridge * free)
        new = _shrink(moved, rate * strength) if lasso else moved
        grown = (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2
        uphill = jnp.sum((ahead - new) * (new - now)) > 0
        grown = jnp.where(uphill, jnp.ones_like(grown), grown)
        push = jnp.where(uphill, jnp.zeros_like(grown), (momentum - 1) / grown)
        return new, new + push * (new - now), grown

    return jax.lax.fori_loop(0, steps, step, (start, start, jnp.ones((), start.dtype)))[0]


def strengths(rows: Rows, lasso: bool, number: int) -> Float[Array, " g"]:
    """A falling grid that starts where the lasso keeps no feature."""
    none = jnp.zeros_like(rows.features[0])
    top = jnp.max(jnp.abs(jax.grad(logistic_loss)(none, rows)[1:]))
    top = jnp.maximum(top, 1e-6) * (1 if lasso else 10)
    return top * jnp.logspace(0, -3 if lasso else -5, number, dtype=top.dtype)


def cross_validated(rows: Rows, folds: Array, number: int, lasso: bool, steps: int) -> Scalar:
    """The strength of the least held-out loss; `folds` names the fold that leaves a row out."""
    grid = strengths(rows, lasso, number)

    def held_out(fold: Array) -> Float[Array, " g"]:
        inside = (folds != fold).astype(rows.weights.dtype)
        kept = rows._replace(weights=_normalised(rows.weights * inside))
        out = rows._replace(weights=_normalised(rows.weights * (1 - inside)))

        def along(coefficients: Array, strength: Scalar) -> tuple[Array, Scalar]:
            coefficients = fit(kept, coefficients, strength, lasso, steps)
            return coefficients, logistic_loss(coefficients, out)

        return jax.lax.scan(along, jnp.zeros_like(rows.features[0]), grid)[1]

    count = int(folds.max()) + 1
    losses = jnp.mean(jax.vmap(held_out)(jnp.arange(count)), axis=0)
    return grid[jnp.argmin(losses)]


def differentiable(
    solution: Float[Array, " q"], rows: Rows, strength: Scalar, lasso: bool
) -> Float[Array, " q"]:
    r"""The solution, with the derivative the implicit function theorem gives it.

    One Newton step at the solution, in which only the slope of the loss is differentiated.
    """
    solution, strength = jax.lax.stop_gradient((solution, strength))
    frozen = jax.lax.stop_gradient(rows)
    hessian = jax.hessian(logistic_loss)(solution, frozen)
    free = jnp.concatenate([jnp.ones(1, bool), (solution[1:] != 0) | (not lasso)])
    free = free.astype(solution.dtype)
    penalty = (0 if lasso else 1) * strength * jnp.concatenate([jnp.zeros(1, free.dtype), free[1:]])
    damping = 1e-6 * jnp.trace(hessian) / solution.shape[0]
    system = hessian * free[:, None] * free[None, :] + jnp.diag(penalty + (1 - free) + damping)
    slope = jax.grad(logistic_loss)(solution, rows)
    change = slope - jax.lax.stop_gradient(slope)
    return solution - free * jnp.linalg.solve(system, free * change)


def _shrink(coefficients: Array, by: Scalar) -> Array:
    penalised = jnp.sign(coefficients) * jnp.maximum(jnp.abs(coefficients) - by, 0)
    return jnp.concatenate([coefficients[:1], penalised[1:]])


def _normalised(weights: Array) -> Array:
    return weights / jnp.sum(weights)
