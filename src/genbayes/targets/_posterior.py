"""The generalised posterior, seen through simulation noise."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .._checks import check_choice, check_count, check_nonnegative, kind
from .._types import Array, Key, Noise, Scalar, Theta, Unconstrained
from ..problem import Prior, Problem
from ..scores import AbstractScore, Prepared
from ._gradient import gradient_mode, value_and_grad


class TargetNoise(NamedTuple):
    """All the randomness of one estimate: the simulator's, and the rows of the data it uses."""

    simulator: Noise
    rows: Array | None


class ScorePosterior(eqx.Module):
    r"""$\pi_S(\theta \mid y) \propto \pi(\theta) \exp\{-w \sum_i S(P_\theta, y_i)\}$.

    The weight $w$ multiplies the **sum** over observations, not their mean. Samplers walk on

    $$\log \pi(\theta(u)) + \log |\partial \theta / \partial u|
        - w \sum_i \hat S(x_{1..m}(\theta, z), y_i),$$

    an estimate that depends on noise $z$. With the noise held fixed it is a deterministic
    function of $u$.

    **Arguments:**

    - `problem`: the `Problem`.
    - `score`: a scoring rule, such as `EnergyScore()`.
    - `weight`: $w \ge 0$; 0 leaves the prior.
    - `num_simulations`: $m$, how many draws of the simulator each estimate takes.
    - `batch_size`: estimate the sum from that many observations, chosen at random and scaled up.
    - `gradient`: `"reverse"`, `"forward"`, or `"auto"`: forward for few parameters and a
        simulator that loops, else reverse.

    ```python
    >>> import genbayes as gb, jax, jax.numpy as jnp
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), weight=1.0, num_simulations=100)
    >>> noise = target.draw_noise(jax.random.key(0))
    >>> target.grad(jnp.zeros(1), noise).shape
    (1,)

    ```
    """

    problem: Problem
    score: AbstractScore
    weight: float
    num_simulations: int
    batch_size: int | None
    gradient: Literal["auto", "forward", "reverse"]
    prepared: Prepared

    def __init__(
        self,
        problem: Problem,
        score: AbstractScore,
        *,
        weight: float = 1.0,
        num_simulations: int = 500,
        batch_size: int | None = None,
        gradient: Literal["auto", "forward", "reverse"] = "auto",
    ):
        _check(problem, score, weight, num_simulations, batch_size, gradient)
        self.problem = problem
        self.score = score
        self.weight = weight
        self.num_simulations = num_simulations
        self.batch_size = batch_size
        self.gradient = gradient
        self.prepared = score.prepare(problem.features())

    @property
    def size(self) -> int:
        """The number of unconstrained coordinates."""
        return self.problem.prior.size

    @property
    def is_exact(self) -> bool:
        """Whether the log density is known without simulation."""
        return not self.score.needs_simulations

    @property
    def traceable(self) -> bool:
        """Whether an estimate may be part of a compiled program."""
        simulator = self.problem.simulator
        return self.is_exact or simulator is None or simulator.traceable

    @property
    def simulations_per_estimate(self) -> int:
        """How many draws of the simulator one estimate costs."""
        return 0 if self.is_exact else self.num_simulations

    def draw_noise(self, key: Key) -> TargetNoise:
        """Fresh noise for one estimate."""
        key_simulator, key_rows = jax.random.split(key)
        simulator = None if self.is_exact else self._draw(key_simulator, self.num_simulations)
        return TargetNoise(simulator, self._draw_rows(key_rows))

    def refresh_group(self, key: Key, noise: TargetNoise, groups: int) -> TargetNoise:
        """Fresh noise for one of `groups` nearly equal groups of simulations, chosen at random.

        The rows of the data, where only some are used, are all chosen anew.
        """
        m = self.num_simulations
        key_group, key_noise, key_rows = jax.random.split(key, 3)
        group = jax.random.randint(key_group, (), 0, groups)
        start, stop = group * m // groups, (group + 1) * m // groups
        rows = start + jnp.arange(-(-m // groups))
        rows = jnp.where(rows < stop, rows, m)  # beyond the end: dropped below
        fresh = self._draw(key_noise, rows.shape[0])
        kept = jax.tree.map(lambda z, new: z.at[rows].set(new, mode="drop"), noise.simulator, fresh)
        return TargetNoise(kept, self._draw_rows(key_rows))

    def _draw_rows(self, key: Key) -> Array | None:
        if self.batch_size is None:
            return None
        return jax.random.choice(
            key, self.problem.num_observations, (self.batch_size,), replace=False
        )

    def _draw(self, key: Key, num: int) -> Noise:
        assert self.problem.simulator is not None
        return self.problem.simulator.draw_noise(key, num)

    def log_density(self, u: Unconstrained, noise: TargetNoise) -> Scalar:
        """The estimated log density at $u$; minus infinity where a draw is not finite."""
        if self.traceable:
            theta = self.problem.prior.constrain(u)
            return self._value(u, theta, self._features(theta, noise), noise.rows)
        # what surrounds a simulator that cannot be compiled can be
        theta = _constrain(self.problem.prior, u)
        return _value(self, u, theta, self._features(theta, noise), noise.rows)

    def _features(self, theta: Theta, noise: TargetNoise) -> Array:
        simulator = self.problem.simulator
        if self.is_exact or simulator is None:
            return jnp.zeros((0, self.prepared.values.shape[1]), self.prepared.values.dtype)
        return simulator.features(simulator.simulate_from(theta, noise.simulator))

    def _value(self, u: Unconstrained, theta: Theta, features: Array, rows: Array | None) -> Scalar:
        prepared, scale = self.prepared, 1.0
        if rows is not None:
            prepared = self.score.prepare(self.prepared.values[rows])
            scale = self.problem.num_observations / rows.shape[0]
        total = scale * self.score.total(features, prepared, theta)
        value = self.problem.prior.log_prob_unconstrained(u) - self.weight * total
        finite = jnp.all(jnp.isfinite(features)) & jnp.isfinite(value)
        return jnp.where(finite, value, -jnp.inf)

    def value_and_grad(self, u: Unconstrained, noise: TargetNoise) -> tuple[Scalar, Unconstrained]:
        """The estimated log density and its gradient, from the same noise."""
        mode = gradient_mode(self, u, noise) if self.gradient == "auto" else self.gradient
        return value_and_grad(lambda v: self.log_density(v, noise), u, mode)

    def grad(self, u: Unconstrained, noise: TargetNoise) -> Unconstrained:
        """The gradient of the estimated log density."""
        return self.value_and_grad(u, noise)[1]

    def freeze(self, noise: TargetNoise) -> Callable[[Unconstrained], Scalar]:
        """A deterministic log density of $u$ alone, for any other package: the noise held fixed.

        Its derivative is taken in this target's own mode, whatever asks for it.
        """

        @jax.custom_vjp
        def log_density(u: Unconstrained) -> Scalar:
            return self.log_density(u, noise)

        log_density.defvjp(
            lambda u: self.value_and_grad(u, noise), lambda grad, cotangent: (cotangent * grad,)
        )
        return log_density


@eqx.filter_jit
def _constrain(prior: Prior, u: Unconstrained) -> dict[str, Array]:
    return prior.constrain(u)


@eqx.filter_jit
def _value(
    target: ScorePosterior, u: Unconstrained, theta: Theta, features: Array, rows: Array | None
) -> Scalar:
    return target._value(u, theta, features, rows)


def _check(
    problem: Any, score: Any, weight: Any, num_simulations: Any, batch_size: Any, gradient: Any
) -> None:
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a genbayes.Problem, got {type(problem).__name__}.")
    if not isinstance(score, AbstractScore):
        raise TypeError(f"score must be a scoring rule such as EnergyScore(), got {kind(score)}.")
    check_nonnegative("weight", weight, "It multiplies the sum of the scores; 0 leaves the prior.")
    check_count(
        "num_simulations", num_simulations, max(2, score.min_simulations),
        f"{type(score).__name__} is estimated from that many draws of the simulator.",
    )  # fmt: skip
    if batch_size is not None:
        check_count("batch_size", batch_size)
        if batch_size > problem.num_observations:
            raise ValueError(
                f"batch_size must be at most the number of observations "
                f"({problem.num_observations}), got {batch_size}."
            )
    check_choice("gradient", gradient, ("auto", "forward", "reverse"))
    if gradient == "forward" and problem.simulator and problem.simulator.calls_back:
        raise ValueError(
            f"{type(problem.simulator).__name__} has derivatives in reverse mode alone, got "
            'gradient="forward". Say "reverse", or leave it out.'
        )
    if problem.simulator is None and score.needs_simulations:
        raise ValueError(
            f"{type(score).__name__} is estimated from draws, and the problem has no simulator. "
            "Give the problem a Simulator, or use LogScore with a known likelihood."
        )
