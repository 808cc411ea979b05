r"""Scores of single observations near the minimiser of their sum, at simulations held fixed.

All rules that calibrate a weight start from here: the minimiser $\hat u$, the curvature of each
observation's score and its gradient there. The second derivative along a draw is no estimate of the
curvature of the expected score (for the energy score of a scalar it is zero), so curvature comes
from differences of gradients over about one standard error to both sides.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Key, Scalar
from ..problem import Problem
from ..scores import AbstractScore
from ..targets import ScorePosterior, TargetNoise, sobol_noise, suits_sobol, with_all_pairs

PRIOR_DRAWS = 200  # of which the one that scores best is where the search starts
CLIMB, RATE = 300, 0.1  # steps of Adam and its first step size, in unconstrained coordinates
NEWTON, BOOTSTRAP_NEWTON = 8, 20
FIRST_STEP = 0.1  # of differences, until the standard errors are known
NEAR = 0.1  # standard errors from where the gradient vanishes: converged
FOUND = (
    0.25  # the same for bootstrap minimisers: gradients of frozen draws jump, and errors average
)
FURTHEST = 2.0  # standard errors that one Newton step may go


class Risk(eqx.Module):
    """The score of each observation as a function of `u` alone: its noise is held fixed."""

    target: ScorePosterior
    noise: TargetNoise

    def scores(self, u: Array) -> Array:
        """`(n,)`."""
        target, simulator = self.target, self.target.problem.simulator
        theta, features = target.problem.prior.constrain(u), None
        if not target.is_exact:
            assert simulator is not None
            features = simulator.features(simulator.simulate_from(theta, self.noise.simulator))
        return target.score(features, target.prepared.values, theta)  # pyright: ignore

    def objective(self, u: Array, rows: Array, prior: Scalar | float) -> Scalar:
        """The sum of the scores, weighted by row, less `prior` times the log prior density."""
        density = self.target.problem.prior.log_prob_unconstrained(u)
        return jnp.sum(rows * self.scores(u)) - prior * density


class Fit(NamedTuple):
    """The minimiser `(p,)` and what the scores look like there.

    `gradients` is `(n, p)`, `curvatures` `(n, p, p)`, `steps` the standard errors `(p,)`, and
    `prior_curvature` that of minus the log prior density `(p, p)`.
    """

    risk: Risk
    u: np.ndarray
    gradients: np.ndarray
    curvatures: np.ndarray
    steps: np.ndarray
    prior_curvature: np.ndarray
    calls: int

    @property
    def size(self) -> int:
        """The number of observations."""
        return len(self.gradients)

    @property
    def curvature(self) -> np.ndarray:
        """Of the sum of the scores, `(p, p)`."""
        return self.curvatures.sum(axis=0)

    @property
    def variance(self) -> np.ndarray:
        """Of the gradient of the sum, `(p, p)`."""
        return variance_of(self.gradients)

    @property
    def directions(self) -> np.ndarray:
        r"""The weights that single directions ask for: eigenvalues of $J^{-1} H$, rising."""
        values = np.linalg.eigvals(np.linalg.solve(self.variance, self.curvature))
        return np.sort(values.real)

    @property
    def guess(self) -> float:
        """A first guess of the weight: between those that the directions ask for."""
        return float(len(self.u) / np.sum(1 / self.directions))


def variance_of(gradients: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """The variance of a sum of gradients `(n, p)`, from the spread between them."""
    n = len(gradients)
    counts = np.ones(n) if counts is None else counts
    off = gradients - counts @ gradients / n
    return (off * counts[:, None]).T @ off * n / (n - 1)


def fit(key: Key, problem: Problem, score: AbstractScore, num_simulations: int) -> Fit:
    """Find the minimiser of the summed score, and look around there."""
    target = ScorePosterior(problem, score, num_simulations=num_simulations)
    _check(target)
    key_noise, key_start = jax.random.split(key)
    even = suits_sobol(target)
    target = with_all_pairs(target) if even else target
    noise = sobol_noise(key_noise, target) if even else target.draw_noise(key_noise)
    risk = Risk(target, noise)
    u = np.asarray(_descend(risk, _start(key_start, risk)), float)
    steps, evaluations = np.full(len(u), FIRST_STEP), PRIOR_DRAWS + CLIMB
    moved = np.inf
    for _ in range(NEWTON):
        g, around = _look_around(risk, u, steps)
        evaluations += 2 * len(u) + 1
        h = around.sum(axis=0)
        if not (np.isfinite(h).all() and np.linalg.eigvalsh(h).min() > 0):
            raise ValueError(_NO_MINIMUM)
        inverse = np.linalg.inv(h)
        steps = np.sqrt(np.diag(inverse @ variance_of(g) @ inverse))
        step = -inverse @ g.sum(axis=0)
        moved = np.abs(step / steps).max()
        if moved < NEAR / 4:
            break
        u = u + step * min(1.0, FURTHEST / moved)
    if not moved < NEAR:
        raise ValueError(_NO_MINIMUM)
    g, around = _look_around(risk, u, steps)
    prior = -np.asarray(jax.hessian(problem.prior.log_prob_unconstrained)(jnp.asarray(u, float)))
    calls = (evaluations + 2 * len(u) + 1) * target.simulations_per_estimate
    return Fit(risk, u, g, around, steps, prior.astype(float), calls)


_NO_MINIMUM = (
    "The sum of the scores has no clear minimum (its curvature is not positive there, or the "
    "search ran off): the observations do not determine all parameters by themselves. Give more "
    "observations, fix a parameter, or use match_weight, which needs no minimum."
)


def _check(target: ScorePosterior) -> None:
    simulator, n = target.problem.simulator, target.problem.num_observations
    missing = simulator is not None and not (simulator.differentiable and simulator.traceable)
    if missing and not target.is_exact:
        raise ValueError(
            f"Calibrating a weight follows gradients, and {type(simulator).__name__} has none: use "
            "match_weight, which needs draws alone."
        )
    if n < target.size + 3:
        raise ValueError(
            f"Calibrating a weight compares observations with each other: {target.size} parameters "
            f"need at least {target.size + 3} of them, got {n}. match_weight needs one."
        )


def _start(key: Key, risk: Risk) -> Array:
    prior = risk.target.problem.prior
    u = jax.vmap(prior.unconstrain)(prior.sample(key, PRIOR_DRAWS))
    values = np.asarray(_scores_at(risk, u, 8)).sum(axis=1)
    fine = np.isfinite(values) & np.isfinite(np.asarray(u)).all(axis=1)
    if not fine.any():
        raise ValueError("The score is finite at no prior draw: tighten the prior.")
    return u[int(np.argmin(np.where(fine, values, np.inf)))]


@eqx.filter_jit
def _scores_at(risk: Risk, u: Array, batch: int) -> Array:
    return jax.lax.map(risk.scores, u, batch_size=batch)


def scores_at(risk: Risk, u: np.ndarray) -> np.ndarray:
    """The score of each observation at each point: `(points, n)`."""
    return np.asarray(_scores_at(risk, jnp.asarray(u, float), 8), float)


@eqx.filter_jit
def _descend(risk: Risk, u: Array) -> Array:
    """Adam with steps that fade out; a step whose gradient is not finite is left out."""
    import optax

    adam = optax.adam(optax.cosine_decay_schedule(RATE, CLIMB))
    rows = jnp.ones(risk.target.problem.num_observations)

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        u, state = carry
        gradient = jax.grad(risk.objective)(u, rows, 0.0)
        updates, state = adam.update(
            jnp.where(jnp.all(jnp.isfinite(gradient)), gradient, 0.0), state, u
        )
        return (optax.apply_updates(u, updates), state), None

    return jax.lax.scan(step, (u, adam.init(u)), None, length=CLIMB)[0][0]


def _look_around(risk: Risk, u: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradients `(n, p)` of each observation's score, and curvatures `(n, p, p)`."""
    g, sides = _gradients(risk, jnp.asarray(u, float), jnp.asarray(steps, float))
    sides = np.asarray(sides, float)
    size = len(u)
    rows = (sides[:size] - sides[size:]) / (2 * steps[:, None, None])  # (p, n, p)
    rows = rows.transpose(1, 0, 2)
    return np.asarray(g, float), (rows + rows.transpose(0, 2, 1)) / 2


@eqx.filter_jit
def _gradients(risk: Risk, u: Array, steps: Array) -> tuple[Array, Array]:
    n, p = risk.target.problem.num_observations, u.shape[0]
    jacobian = (jax.jacfwd if p <= n else jax.jacrev)(risk.scores)
    points = jnp.concatenate([u[None], u[None] + jnp.diag(steps), u[None] - jnp.diag(steps)])
    found = jax.lax.map(jacobian, points)
    return found[0], found[1:]


def minimisers(fit: Fit, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimisers of sums weighted by row `(B, n)`: `(B, p)`, and which of them were found."""
    scaled = rows * (fit.size / rows.sum(axis=1, keepdims=True))
    return newton(fit, scaled, np.zeros(fit.u.shape + fit.u.shape), 0.0)


def newton(
    fit: Fit, rows: np.ndarray, more_curvature: np.ndarray, prior: float
) -> tuple[np.ndarray, np.ndarray]:
    """Minimisers of weighted sums less `prior` times the log prior, by a quasi-Newton method.

    It begins with the curvature of the fit, times the mean weight of a row, plus `more_curvature`.
    """
    inverse = np.linalg.inv(fit.curvature * rows.mean() + more_curvature)
    arrays = [jnp.asarray(a, float) for a in (fit.u, rows, inverse, fit.steps, prior)]
    u, moved = _newton(fit.risk, *arrays)
    u, moved = np.asarray(u, float), np.asarray(moved)
    return u, np.isfinite(u).all(axis=1) & (moved < FOUND)


@eqx.filter_jit
def _newton(
    risk: Risk, u: Array, rows: Array, inverse: Array, scale: Array, prior: Array
) -> tuple[Array, Array]:
    def one(row: Array) -> tuple[Array, Array]:
        def slope(at: Array) -> Array:
            return jax.grad(risk.objective)(at, row, prior)

        def step(carry: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], None]:
            at, g, inverse = carry
            move = -inverse @ g
            size = jnp.max(jnp.abs(move / scale))
            move = move * jnp.minimum(1.0, FURTHEST / jnp.maximum(size, NEAR))
            new = slope(at + move)
            return (at + move, new, _bfgs(inverse, move, new - g)), None

        start = (u, slope(u), inverse)
        at, g, last = jax.lax.scan(step, start, None, length=BOOTSTRAP_NEWTON)[0]
        return at, jnp.max(jnp.abs(last @ g / scale))

    return jax.lax.map(one, rows)


def _bfgs(inverse: Array, move: Array, change: Array) -> Array:
    """The inverse curvature that explains the last change of the gradient, if that is possible."""
    along = move @ change
    lengths = jnp.linalg.norm(move) * jnp.linalg.norm(change)
    fine = along > 1e-3 * lengths
    rho = jnp.where(fine, 1 / jnp.where(fine, along, 1.0), 0.0)
    left = jnp.eye(move.shape[0], dtype=move.dtype) - rho * jnp.outer(move, change)
    return left @ inverse @ left.T + rho * jnp.outer(move, move)
