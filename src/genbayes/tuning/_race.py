"""Several settings of one sampler, walking side by side as one compiled program."""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._tree import floats_to_arrays
from .._types import Array, Key, PyTree
from ..samplers import AbstractSampler, AbstractWarmup
from ..targets import ScorePosterior

CHUNK = 64  # steps between two looks at the clock, where the budget is in seconds


class Leg(NamedTuple):
    """What the arms did: draws `(arm, draw, p)`, steps taken, refused steps by arm."""

    draws: np.ndarray
    steps: int
    refused: np.ndarray
    seconds: float


class Field:
    """Arms with a leading axis, where each stands, and the keys that they live by."""

    def __init__(self, key: Key, target: ScorePosterior, arms: list[AbstractSampler], u: Array):
        key_init, key_steps = jax.random.split(key)
        self.target = floats_to_arrays(target)
        self.arms = arms
        self.walker: Any = _stacked(arms)
        self.init_keys = jax.random.split(key_init, len(arms))
        self.keys = jax.random.split(key_steps, len(arms))
        self.start = jnp.broadcast_to(u, (len(arms), *u.shape))
        self.state: PyTree = None
        self.step = 0

    def warm_up(self, num_warmup: int) -> None:
        """Let the arms adapt whatever they adapt, and put them on their marks."""
        adapting = [arm.warmup(num_warmup) for arm in self.arms]
        if adapting[0] is not None:
            self.walker = _stacked(adapting)
        self.state = _begin(self.walker, self.target, self.init_keys, self.start)
        self.advance(num_warmup, keep=1)
        if adapting[0] is not None:
            self.walker, self.state = _finish(self.walker, self.state)

    def keep_only(self, arms: np.ndarray) -> None:
        """Go on with some of the arms."""
        index = jnp.asarray(arms)
        parts = (self.walker, self.state, self.keys)
        self.walker, self.state, self.keys = jax.tree.map(
            lambda x: x[index] if eqx.is_array(x) else x, parts
        )

    def advance(self, steps: int, keep: int) -> Leg:
        """So many steps of every arm; at most `keep` draws of each, evenly spaced."""
        began = time.perf_counter()
        thinning = max(1, steps // keep)
        count = steps // thinning
        self.state, (u, refused) = _walk(
            self.walker, self.state, self.keys, self.target, jnp.asarray(self.step, jnp.int32),
            count, jnp.asarray(thinning, jnp.int32),
        )  # fmt: skip
        self.step += count * thinning
        seconds = time.perf_counter() - began
        return Leg(np.asarray(u), count * thinning, np.asarray(refused), seconds)

    def advance_for(self, seconds: float, keep: int) -> Leg:
        """As many steps as fit into a time: reproducible only in its number of arms."""
        self.advance(CHUNK, CHUNK)  # what is compiled and warmed up is not on the clock
        began, legs = time.perf_counter(), []
        while not legs or time.perf_counter() - began < seconds:
            legs.append(self.advance(CHUNK, CHUNK))
        draws = np.concatenate([leg.draws for leg in legs], axis=1)
        rows = np.unique(np.linspace(0, draws.shape[1] - 1, keep).astype(int))
        steps, refused = sum(leg.steps for leg in legs), sum(leg.refused for leg in legs)
        return Leg(draws[:, rows], steps, np.asarray(refused), time.perf_counter() - began)


def _stacked(arms: list[Any]) -> Any:
    """One sampler whose numbers have a leading axis of arms."""
    return jax.tree.map(
        lambda *x: jnp.stack(x) if eqx.is_array(x[0]) else x[0],
        *[floats_to_arrays(arm) for arm in arms],
    )


@eqx.filter_jit
def _begin(
    walker: AbstractSampler | AbstractWarmup, target: ScorePosterior, keys: Array, u: Array
) -> PyTree:
    def one(walker: AbstractSampler, key: Key, u: Array) -> PyTree:
        return walker.init(key, target, u)

    return eqx.filter_vmap(one, in_axes=(eqx.if_array(0), 0, 0))(walker, keys, u)


@eqx.filter_jit
def _finish(walker: AbstractWarmup, state: PyTree) -> tuple[AbstractSampler, PyTree]:
    def one(walker: AbstractWarmup, state: PyTree) -> tuple[AbstractSampler, PyTree]:
        sampler, state = walker.finish(state)
        return floats_to_arrays(sampler), state

    axes = (eqx.if_array(0), eqx.if_array(0))
    return eqx.filter_vmap(one, in_axes=axes)(walker, state)


@eqx.filter_jit
def _walk(
    walker: AbstractSampler | AbstractWarmup,
    state: PyTree,
    keys: Array,
    target: ScorePosterior,
    first: Array,
    count: int,
    thinning: Array,
) -> tuple[PyTree, tuple[Array, Array]]:
    def one(walker: AbstractSampler, state: PyTree, key: Key) -> tuple[PyTree, tuple[Array, Array]]:
        def step(t: Array, carry: tuple[PyTree, Array]) -> tuple[PyTree, Array]:
            state, refused = carry
            state, info = walker.step(jax.random.fold_in(key, t), target, state)
            return state, refused + getattr(info, "refused", jnp.asarray(False))

        def record(carry: tuple[PyTree, Array], i: Array) -> tuple[tuple[PyTree, Array], Array]:
            start = first + i * thinning
            carry = jax.lax.fori_loop(start, start + thinning, step, carry)
            return carry, carry[0].u

        rows = jnp.arange(count, dtype=jnp.int32)
        (state, refused), u = jax.lax.scan(record, (state, jnp.zeros((), jnp.int32)), rows)
        return state, (u, refused)

    axes = (eqx.if_array(0), eqx.if_array(0), 0)
    return eqx.filter_vmap(one, in_axes=axes)(walker, state, keys)
