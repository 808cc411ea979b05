"""Where chains start, and the keys they live by."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from .._tree import floats_to_arrays
from .._types import Array, Key
from ..targets import ScorePosterior
from ._program import try_start

ATTEMPTS = 100


class ChainKeys(NamedTuple):
    """The keys of each chain: functions of the seed and the chain's number alone."""

    start: Array
    init: Array
    steps: Array  # step t uses fold_in(steps, t)


@runtime_checkable
class Starter(Protocol):
    """Anything that finds a starting point, such as an optimiser."""

    def find_start(self, key: Key, target: ScorePosterior) -> Array:
        """A starting point in unconstrained coordinates."""
        ...


def chain_keys(seed: int | Key, num_chains: int) -> ChainKeys:
    """Independent keys for each chain; adding chains leaves the others as they are."""
    root = jax.random.key(seed) if isinstance(seed, (int, np.integer)) else seed
    chains = jax.vmap(lambda c: jax.random.fold_in(root, c))(jnp.arange(num_chains))
    split = jax.vmap(lambda key: jax.random.split(key, 3))(chains)
    return ChainKeys(split[:, 0], split[:, 1], split[:, 2])


def starting_points(target: ScorePosterior, start: Any, keys: Array) -> Array:
    """A starting point for each chain, `(chain, p)`, where the estimate is finite."""
    if isinstance(start, str) and start == "prior":
        return jnp.stack([_from_prior(target, key) for key in keys])
    return jnp.stack([_given(target, start, key) for key in keys])


def start_at(target: ScorePosterior, start: Any, key: Key) -> Array:
    """The starting point of one chain, `(p,)`."""
    return starting_points(floats_to_arrays(target), start, key[None])[0]


def _from_prior(target: ScorePosterior, key: Key) -> Array:
    for attempt in range(ATTEMPTS):
        u, value = try_start(target, jax.random.fold_in(key, attempt), None)
        if jnp.isfinite(value):
            return u
    raise ValueError(
        f"No starting point: the estimate was not finite at any of {ATTEMPTS} draws from the "
        "prior. Look at simulator draws under prior draws (genbayes.check), tighten the prior, or "
        "give start={...} at a point where the simulator is known to work."
    )


def _given(target: ScorePosterior, start: Any, key: Key) -> Array:
    prior = target.problem.prior
    if isinstance(start, str) and start == "zero":
        u = jnp.zeros(target.size)
    elif isinstance(start, Mapping):
        prior.check_inside(start)
        u = prior.unconstrain(start)
    elif isinstance(start, Starter):
        u = start.find_start(key, target)
    else:
        raise ValueError(
            'start must be "prior", "zero" (the origin of unconstrained space), a mapping from '
            f"parameter name to value, or a tuner such as tuning.Optimise(); got {start!r}."
        )
    tries = [try_start(target, jax.random.fold_in(key, a), u)[1] for a in range(3)]
    if not any(bool(jnp.isfinite(value)) for value in tries):
        where = {name: np.asarray(v).tolist() for name, v in prior.constrain(u).items()}
        raise ValueError(
            f"The estimate is not finite at the starting point {where}: the simulator's draws "
            "there overflow or the score cannot take them. Start somewhere else."
        )
    return u
