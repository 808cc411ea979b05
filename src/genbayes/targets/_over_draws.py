"""Simulations at each of many parameters, in one compiled program that bounds its memory."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Key, PyTree, Theta
from ._posterior import ScorePosterior
from ._sobol import sobol_noise, suits_sobol

_NUMBERS = 2**20  # simulated numbers that are held at a time


def over_draws(
    function: Callable[[Theta, Array | None], Array],
    target: ScorePosterior,
    theta: dict[str, np.ndarray],
    keys: Array,
    num: int,
    *,
    even: bool = False,
    batch_size: int | None = None,
) -> np.ndarray:
    """`function(theta_s, simulations_s)` for each of S parameters, stacked.

    The simulations are `(num, *event)`, or `None` where `num` is 0. `even` takes Sobol noise where
    it suits the simulator. `batch_size` is how many parameters go side by side; absent, as many as
    the simulations leave room for. `function` must be an `equinox.Module` or hashable, so that
    one compiled program serves all calls.
    """
    tree = {name: jnp.asarray(x, float) for name, x in theta.items()}
    if not target.traceable:
        one = eqx.filter_jit(function)
        rows = [
            np.asarray(one(at, _draws(target, at, key, num, False)))
            for key, at in zip(keys, _rows(tree, len(keys)), strict=True)
        ]
        return np.stack(rows)
    even = even and suits_sobol(target)
    size = max(1, num * math.prod(target.problem.observations.shape[1:]))
    batch = int(np.clip(_NUMBERS // size if batch_size is None else batch_size, 1, len(keys)))
    return np.asarray(_mapped(function, target, tree, keys, num, even, batch))


def _rows(tree: dict[str, Array], size: int) -> list[dict[str, Array]]:
    return [{name: x[s] for name, x in tree.items()} for s in range(size)]


def _draws(target: ScorePosterior, theta: Theta, key: Key, num: int, even: bool) -> Array | None:
    simulator = target.problem.simulator
    if simulator is None or num == 0:
        return None
    if even:
        sized = eqx.tree_at(lambda t: t.num_simulations, target, num)
        return simulator.simulate_from(theta, sobol_noise(key, sized).simulator)
    return simulator.simulate_from(theta, simulator.draw_noise(key, num))


@eqx.filter_jit
def _mapped(
    function: Any, target: ScorePosterior, theta: PyTree, keys: Array, num: int, even: bool,
    batch: int,
) -> Array:  # fmt: skip
    def one(item: tuple[Key, PyTree]) -> Array:
        key, at = item
        return function(at, _draws(target, at, key, num, even))

    return jax.lax.map(one, (keys, theta), batch_size=batch)
