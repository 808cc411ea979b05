"""The same steps one by one, in Python, for simulators that cannot be compiled."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, PyTree
from ..targets import ScorePosterior
from ._program import record


def one_chain(tree: PyTree, c: int) -> PyTree:
    """The part of a stacked tree that belongs to chain `c`."""
    return jax.tree.map(lambda x: x[c] if eqx.is_array(x) else x, tree)


def stacked(trees: list[PyTree]) -> PyTree:
    """The trees of single chains, along a leading axis."""
    return jax.tree.map(lambda *x: jnp.stack(x) if eqx.is_array(x[0]) else x[0], *trees)


def begin(walker: Any, target: ScorePosterior, keys: Array, u: Array) -> PyTree:
    """The states of all chains at their starting points."""
    chains = range(keys.shape[0])
    return stacked([one_chain(walker, c).init(keys[c], target, u[c]) for c in chains])


def advance(
    walker: Any,
    state: PyTree,
    keys: Array,
    target: ScorePosterior,
    first: Array,
    count: Array,
    *,
    capacity: int,
    thinning: int,
    gradients: bool,
    stop: Callable[[], bool],
) -> tuple[PyTree, PyTree, int]:
    """As the compiled program of the same name: states, records padded to `capacity`; their number.

    Fewer than `count` where there is a reason to stop: a single record may take long.
    """
    chains = range(keys.shape[0])
    if int(count) == 0:
        return state, {"u": jnp.zeros((len(chains), capacity, target.size)), "info": {}}, 0
    walkers = [one_chain(walker, c) for c in chains]
    states = [one_chain(state, c) for c in chains]
    rows: list[list[PyTree]] = [[] for _ in chains]
    for i in range(int(count)):
        start = int(first) + i * thinning
        for c in chains:
            states[c], row = _block(
                walkers[c], target, keys[c], states[c], start, thinning, gradients
            )
            rows[c].append(row)
        if stop():
            break
    records = [jax.tree.map(lambda *x: _padded(np.stack(x), capacity), *r) for r in rows]
    return stacked(states), jax.tree.map(lambda *x: np.stack(x), *records), len(rows[0])


def _block(
    walker: Any,
    target: ScorePosterior,
    key: Array,
    state: PyTree,
    first: int,
    thinning: int,
    gradients: bool,
) -> tuple[PyTree, PyTree]:
    infos = []
    for t in range(first, first + thinning):
        state, info = walker.step(jax.random.fold_in(key, t), target, state)
        kept = record(walker, state, info, gradients)["info"]
        infos.append({name: np.asarray(x) for name, x in kept.items()})
    if thinning == 1:
        return state, {"u": np.asarray(state.u), "info": infos[0]}
    last = {name: _summed([i[name] for i in infos]) for name in infos[0]}
    return state, {"u": np.asarray(state.u), "info": last}


def _summed(values: list[np.ndarray]) -> np.ndarray:
    if np.issubdtype(values[0].dtype, np.floating):
        return values[-1]
    return np.asarray(np.sum(values, axis=0, dtype=np.int32))


def _padded(rows: np.ndarray, capacity: int) -> np.ndarray:
    return np.pad(rows, [(0, capacity - rows.shape[0])] + [(0, 0)] * (rows.ndim - 1))
