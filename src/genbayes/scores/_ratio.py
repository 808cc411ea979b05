"""Ratio estimation by penalised logistic regression."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_choice, check_count, check_positive, is_concrete
from .._types import Array, Float, Key, Observations, Scalar, Simulations, Theta
from ._base import AbstractSummedScore
from ._logistic import Rows, cross_validated, differentiable, fit

_FINAL_STEPS = 600  # of the fit that counts; fits of the cross-validation take fewer
_PATH_STEPS = 80
_GRID = 10


class RatioEstimation(AbstractSummedScore):
    r"""Minus the log ratio of a draw's density at $\theta$ to the prior predictive, as fitted.

    $$\hat S(x_{1..m}, y) = -\hat h(y), \qquad
      \hat h = \arg\min_h \operatorname{mean}_j \ln(1 + e^{-h(x_j)})
      + \operatorname{mean}_l \ln(1 + e^{h(x^r_l)}) + \text{penalty}$$

    $h$ is linear in all coordinates, their squares and pairwise products, standardised by the
    reference draws; classes weigh the same whatever their sizes. Gradients come from the implicit
    function theorem, the chosen penalty taken as given; they are biased.

    **Arguments:**

    - `reference`: draws from the prior predictive, `(M, d)`; see `from_problem`.
    - `penalty`: `"lasso"` or `"ridge"`.
    - `strength`: the penalty's factor, or `None` to choose it by cross-validation at every call,
        which costs some fifty fits.
    - `num_folds`: of the cross-validation; 2 or more.

    >>> import jax
    >>> reference = 2.0 * jax.random.normal(jax.random.key(0), (200, 1))
    >>> x = jax.random.normal(jax.random.key(1), (200, 1))
    >>> near, far = RatioEstimation(reference)(x, jnp.array([[0.0], [4.0]]))
    >>> bool(near < 0 < far)
    True

    Reference: Thomas et al. (2022), Likelihood-free inference by ratio estimation, Bayesian
    Anal. 17.
    """

    reference: Simulations
    penalty: str = eqx.field(default="lasso", static=True)
    strength: float | Scalar | None = None
    num_folds: int = eqx.field(default=5, static=True)
    strictly_proper: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    min_simulations: ClassVar[int] = 10
    needs_simulations: ClassVar[bool] = True

    def __check_init__(self):
        check_choice("penalty", self.penalty, ("lasso", "ridge"))
        check_count("num_folds", self.num_folds, 2)
        if self.strength is not None:
            check_positive("strength", self.strength)
        if not is_concrete(self.reference):
            return
        if np.ndim(self.reference) != 2 or np.shape(self.reference)[0] < 10:
            raise ValueError(
                "Expected reference draws of shape (M, d) with M of at least 10, got shape "
                f"{np.shape(self.reference)}; RatioEstimation.from_problem makes them."
            )
        if not np.all(np.isfinite(self.reference)):
            raise ValueError(
                "Expected finite reference draws, got some that are not; leave those rows out."
            )

    @classmethod
    def from_problem(
        cls, key: Key, problem: Any, *, num_reference: int = 1000, **settings: Any
    ) -> "RatioEstimation":
        """With reference draws from the prior predictive of a problem.

        Draws that are not finite are left out; it is an error if more than half are.

        **Arguments:** `key`; `problem`, with `prior` and `simulator`; `num_reference`, the number
        of draws; `settings`, as for the class.

        >>> import genbayes as gb, jax, numpyro.distributions as dist
        >>> simulator = gb.Simulator(lambda theta, z: theta["a"] + z, noise=dist.Normal(0, 1))
        >>> problem = gb.Problem(gb.Prior(a=dist.Normal(0, 1)), simulator, [0.5, 1.0])
        >>> score = RatioEstimation.from_problem(jax.random.key(0), problem, num_reference=50)
        >>> score.reference.shape
        (50, 1)
        """
        check_count("num_reference", num_reference, 10)
        draws = _prior_predictive(key, problem, num_reference)
        finite = np.all(np.isfinite(draws), axis=1)
        if 2 * np.sum(finite) < num_reference:
            raise ValueError(
                f"Expected finite draws from the prior predictive, got {int(np.sum(~finite))} of "
                f"{num_reference} that are not; narrow the prior or mend the simulator."
            )
        return cls(jnp.asarray(draws[finite]), **settings)

    def _estimates(
        self, simulations: Simulations, observations: Observations, theta: Theta | None
    ) -> Float[Array, " n"]:
        del theta
        lasso = self.penalty == "lasso"
        reference = jnp.asarray(self.reference, simulations.dtype)
        if reference.shape[1] != simulations.shape[1]:
            raise ValueError(
                f"Expected reference draws of dimension {simulations.shape[1]}, got shape "
                f"{reference.shape}; summarise them as the simulations are."
            )
        features = _standardiser(reference)
        rows = _labelled(features(simulations), features(reference))
        fixed = jax.lax.stop_gradient(rows)
        strength = self._strength(fixed, simulations.shape[0])
        start = jnp.zeros_like(fixed.features[0])
        solution = fit(fixed, start, strength, lasso, _FINAL_STEPS)
        return -features(observations) @ differentiable(solution, rows, strength, lasso)

    def _strength(self, rows: Rows, num_simulations: int) -> Scalar:
        if self.strength is not None:
            return jnp.asarray(self.strength, rows.weights.dtype)
        others = rows.weights.shape[0] - num_simulations
        folds = np.r_[np.arange(num_simulations), np.arange(others)] % self.num_folds
        return cross_validated(rows, folds, _GRID, self.penalty == "lasso", _PATH_STEPS)


def _prior_predictive(key: Key, problem: Any, num: int) -> np.ndarray:
    def one(key: Key) -> Array:
        key_prior, key_noise = jax.random.split(key)
        theta = problem.prior.sample(key_prior)
        draw = problem.simulator.simulate(key_noise, theta, 1)
        seen = getattr(problem.simulator, "features", lambda d: jnp.reshape(d, (1, -1)))
        return seen(draw)[0]

    keys = jax.random.split(key, num)
    if getattr(problem.simulator, "traceable", True):
        return np.asarray(jax.jit(jax.vmap(one))(keys))
    return np.stack([np.asarray(one(k)) for k in keys])


def _standardiser(reference: Float[Array, "M d"]) -> Any:
    """Map points to a 1 and all monomials up to degree 2, scaled by the reference draws."""
    centre, scale = jnp.mean(reference, axis=0), _safe_scale(reference)
    first, second = np.triu_indices(reference.shape[1])

    def monomials(points: Array) -> Array:
        standard = (points - centre[None]) / scale[None]
        return jnp.concatenate([standard, standard[:, first] * standard[:, second]], axis=1)

    raw = monomials(reference)
    mean, spread = jnp.mean(raw, axis=0), _safe_scale(raw)

    def features(points: Array) -> Array:
        scaled = (monomials(points) - mean[None]) / spread[None]
        return jnp.concatenate([jnp.ones_like(scaled[:, :1]), scaled], axis=1)

    return features


def _safe_scale(points: Float[Array, "M q"]) -> Float[Array, " q"]:
    spread = jnp.std(points, axis=0)
    return jnp.where(spread > 0, spread, jnp.ones_like(spread))


def _labelled(simulated: Float[Array, "m q"], reference: Float[Array, "M q"]) -> Rows:
    m, others = simulated.shape[0], reference.shape[0]
    labels = np.r_[np.ones(m), -np.ones(others)]
    weights = np.r_[np.full(m, 0.5 / m), np.full(others, 0.5 / others)]
    dtype = simulated.dtype
    features = jnp.concatenate([simulated, reference])
    return Rows(features, jnp.asarray(labels, dtype), jnp.asarray(weights, dtype))
