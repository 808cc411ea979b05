"""A starting point by stochastic optimisation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from .._checks import check_count, check_positive
from .._types import Array, Key, Unconstrained
from ..runs import start_at
from ..targets import ScorePosterior


class Optimise(eqx.Module):
    """Start near the mode: Adam on the estimated log density.

    **Arguments:** `steps`, `learning_rate`; `start`, where to begin, as for `gb.sample`: the origin
    of $u$ unless given. A step whose gradient is not finite is left out.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=100)
    >>> sampler, start = gb.PseudoMarginal(0.5), gb.tuning.Optimise(steps=100, learning_rate=0.05)
    >>> run = gb.sample(target, sampler, num_samples=10, start=start, progress=False)
    >>> bool(abs(run.draws["mean"][0, 0] - 1) < 1.5)
    True

    ```
    """

    steps: int = 250
    learning_rate: float = 0.01
    start: Any = "zero"

    def __check_init__(self):
        check_count("steps", self.steps)
        check_positive("learning_rate", self.learning_rate)

    def find_start(self, key: Key, target: ScorePosterior) -> Unconstrained:
        """Where the optimiser ends."""
        if target.problem.simulator is not None and not target.problem.simulator.differentiable:
            raise ValueError(
                'Optimise follows gradients, and this simulator has none: start at "prior" or at a '
                "mapping instead."
            )
        key_start, key_climb = jax.random.split(key)
        u = start_at(target, self.start, key_start)
        return _climb(target, key_climb, u, self.steps, self.learning_rate)


@eqx.filter_jit
def _climb(target: ScorePosterior, key: Key, u: Array, steps: int, learning_rate: float) -> Array:
    adam = optax.adam(learning_rate)

    def step(carry: tuple[Array, optax.OptState], key: Key) -> tuple[tuple, None]:
        u, state = carry
        value, grad = target.value_and_grad(u, target.draw_noise(key))
        fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(grad))
        updates, moved = adam.update(jnp.where(fine, -grad, 0.0), state, u)
        kept = jax.tree.map(
            lambda new, old: jnp.where(fine, new, old),
            (optax.apply_updates(u, updates), moved),
            (u, state),
        )
        return kept, None

    (u, _), _ = jax.lax.scan(step, (u, adam.init(u)), jax.random.split(key, steps))
    return u
