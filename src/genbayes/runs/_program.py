"""The one inner loop: many steps of many chains as one compiled program."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from .._types import Array, Key, PyTree
from ..samplers import AbstractSampler, AbstractStochasticGradient, AbstractWarmup
from ..targets import ScorePosterior

Walker = AbstractSampler | AbstractWarmup


def record(walker: Walker, state: Any, info: Any, gradients: bool) -> PyTree:
    """What is kept of a step: position, infos, and if asked the gradient estimate there."""
    infos = info._asdict()
    if gradients and isinstance(walker, AbstractStochasticGradient):
        infos["gradient"] = walker.met_gradient(state)
    return {"u": state.u, "info": infos}


def _count(flags: Array) -> Array:
    return jnp.sum(flags, axis=0, dtype=jnp.int32)


def _block(
    walker: Walker,
    target: ScorePosterior,
    key: Key,
    state: PyTree,
    first: Array,
    thinning: int,
    gradients: bool,
) -> tuple[PyTree, PyTree]:
    """`thinning` steps and one record: flags and counts are summed, numbers are the last."""

    def one(state: PyTree, t: Array) -> tuple[PyTree, PyTree]:
        state, info = walker.step(jax.random.fold_in(key, t), target, state)
        return state, record(walker, state, info, gradients)

    if thinning == 1:
        return one(state, first)
    state, records = jax.lax.scan(one, state, first + jnp.arange(thinning, dtype=first.dtype))
    last = jax.tree.map(
        lambda r: r[-1] if jnp.issubdtype(r.dtype, jnp.floating) else _count(r), records
    )
    return state, last


def _advance_one(
    walker: Walker,
    state: PyTree,
    key: Key,
    target: ScorePosterior,
    first: Array,
    count: Array,
    capacity: int,
    thinning: int,
    gradients: bool,
) -> tuple[PyTree, PyTree]:
    """`count` blocks of one chain from step `first`, recorded in a buffer of fixed capacity."""

    def block(state: PyTree, i: Array) -> tuple[PyTree, PyTree]:
        return _block(walker, target, key, state, first + i * thinning, thinning, gradients)

    shapes = jax.eval_shape(lambda s: block(s, first)[1], state)
    buffer = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), shapes)

    def body(i: Array, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        state, buffer = carry
        state, record = block(state, i)
        return state, jax.tree.map(lambda b, r: b.at[i].set(r), buffer, record)

    # the number of trips is data: chunks of any length, one compilation
    return jax.lax.fori_loop(jnp.zeros((), first.dtype), count, body, (state, buffer))


def _advance_all(
    walker: Walker,
    state: PyTree,
    keys: Array,
    target: ScorePosterior,
    first: Array,
    count: Array,
    capacity: int,
    thinning: int,
    gradients: bool,
) -> tuple[PyTree, PyTree]:
    if keys.shape[0] == 1:  # unbatched, where a condition runs one of its branches and not both
        take = lambda x: x[0] if eqx.is_array(x) else x  # noqa: E731
        walker, state = jax.tree.map(take, (walker, state))
        found = _advance_one(
            walker, state, keys[0], target, first, count, capacity, thinning, gradients
        )
        return jax.tree.map(lambda x: x[None] if eqx.is_array(x) else x, found)
    along = eqx.filter_vmap(
        _advance_one, in_axes=(eqx.if_array(0), eqx.if_array(0), 0, *[None] * 6)
    )
    return along(walker, state, keys, target, first, count, capacity, thinning, gradients)


@eqx.filter_jit
def advance(
    walker: Walker,
    state: PyTree,
    keys: Array,
    target: ScorePosterior,
    first: Array,
    count: Array,
    *,
    capacity: int,
    thinning: int,
    gradients: bool,
) -> tuple[PyTree, PyTree]:
    """All chains side by side; walker, state and keys have a leading chain axis."""
    return _advance_all(walker, state, keys, target, first, count, capacity, thinning, gradients)


@eqx.filter_jit
def advance_parallel(
    walker: Walker,
    state: PyTree,
    keys: Array,
    target: ScorePosterior,
    first: Array,
    count: Array,
    *,
    capacity: int,
    thinning: int,
    gradients: bool,
) -> tuple[PyTree, PyTree]:
    """All chains over the devices of this process, an equal share on each."""
    chains = keys.shape[0]
    devices = next(d for d in range(jax.device_count(), 0, -1) if chains % d == 0)
    mesh = Mesh(jax.devices()[:devices], ("chain",))
    arrays, static = eqx.partition((walker, state, keys), eqx.is_array)
    shared, shared_static = eqx.partition(target, eqx.is_array)

    def shard(arrays: PyTree, shared: PyTree, first: Array, count: Array) -> PyTree:
        walker, state, keys = eqx.combine(arrays, static)
        target = eqx.combine(shared, shared_static)
        return _advance_all(
            walker, state, keys, target, first, count, capacity, thinning, gradients
        )

    along, whole = PartitionSpec("chain"), PartitionSpec()
    mapped = jax.shard_map(
        shard, mesh=mesh, in_specs=(along, whole, whole, whole), out_specs=along, check_vma=False
    )
    return mapped(arrays, shared, first, count)


@eqx.filter_jit
def begin(walker: Walker, target: ScorePosterior, keys: Array, u: Array) -> PyTree:
    """The states of all chains at their starting points."""

    def one(walker: Walker, key: Key, u: Array) -> PyTree:
        return walker.init(key, target, u)

    return eqx.filter_vmap(one, in_axes=(eqx.if_array(0), 0, 0))(walker, keys, u)


@eqx.filter_jit
def finish(walker: AbstractWarmup, state: PyTree) -> tuple[AbstractSampler, PyTree]:
    """The adapted sampler of every chain, and its state."""
    return eqx.filter_vmap(lambda w, s: w.finish(s), in_axes=(eqx.if_array(0), eqx.if_array(0)))(
        walker, state
    )


@eqx.filter_jit
def constrain(target: ScorePosterior, u: Array) -> dict[str, Array]:
    """Named parameters from unconstrained draws `(chain, draw, ..., p)`."""
    constrain = target.problem.prior.constrain
    for _ in range(u.ndim - 1):
        constrain = jax.vmap(constrain)
    return constrain(u)


def try_start(target: ScorePosterior, key: Key, u: Array | None) -> tuple[Array, Array]:
    """A candidate starting point, a prior draw unless given, and its estimated log density."""
    return _compiled_try(target, key, u) if target.traceable else _try(target, key, u)


def _try(target: ScorePosterior, key: Key, u: Array | None) -> tuple[Array, Array]:
    key_draw, key_noise = jax.random.split(key)
    if u is None:
        u = target.problem.prior.unconstrain(target.problem.prior.sample(key_draw))
    value = target.log_density(u, target.draw_noise(key_noise))
    return u, jnp.where(jnp.all(jnp.isfinite(u)), value, -jnp.inf)


_compiled_try = eqx.filter_jit(_try)
