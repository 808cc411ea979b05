"""Distances between simulated and observed data sets, for many parameters at once."""

from collections.abc import Callable
from math import ceil
from typing import Any, Literal, Protocol, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_choice, check_count
from .._types import Array, Bool, Float, Int, Key, Observations, Scalar, Simulations
from ..kernels import AbstractKernel
from ..problem import AbstractBlackBox, AbstractSimulator
from ..scores import energy_distance, mean_distance, mmd
from ..targets import ScorePosterior

NAMED = ("energy", "euclidean")
Distance: TypeAlias = (
    Literal["energy", "euclidean"] | AbstractKernel | Callable[[Array, Array], Array]
)
Summary: TypeAlias = Callable[[Array], Array]
BLOCK = 2**21  # numbers of noise and draws that are held at a time


class Comparison(Protocol):
    """What of a sampler says how data sets are made and compared."""

    @property
    def num_simulations(self) -> int:
        """How many data sets at each parameter."""
        ...

    @property
    def distance(self) -> Distance:
        """By name, by kernel, or as a function of two data sets."""
        ...

    @property
    def summary(self) -> Summary | None:
        """What is compared in place of a data set."""
        ...

    @property
    def data_size(self) -> int | None:
        """How many draws make a data set, if not as many as there are observations."""
        ...


def check_comparison(by: Comparison) -> None:
    """Refuse settings that make no sense."""
    check_count("num_simulations", by.num_simulations, 1, "It counts data sets of a particle.")
    if by.data_size is not None:
        check_count("data_size", by.data_size, 1, "It counts the draws of a simulated data set.")
    if not callable(by.distance):
        check_choice("distance", by.distance, NAMED)
    if by.summary is not None and not callable(by.summary):
        raise TypeError(
            f"summary must be a function of a data set (n, d), got {type(by.summary).__name__}."
        )


def check_fits(by: Comparison, target: ScorePosterior) -> None:
    """Refuse a distance or a summary that cannot take the data; nothing is simulated."""
    y = target.problem.features()
    x = jax.ShapeDtypeStruct((size_of(by, target), y.shape[1]), y.dtype)
    try:
        found = jax.eval_shape(lambda x: compare(by, x, y), x)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"The distance cannot compare a simulated data set of shape {x.shape} with the "
            f"observations, of shape {y.shape}: {error}"
        ) from error
    if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(
            f"The distance of two data sets must be one floating-point number, got {found.dtype} "
            f"of shape {found.shape}."
        )


def size_of(by: Comparison, target: ScorePosterior) -> int:
    """How many draws make a simulated data set."""
    return target.problem.num_observations if by.data_size is None else by.data_size


def compare(by: Comparison, x: Simulations, y: Observations) -> Scalar:
    """The distance of a simulated data set `(size, d)` from the observations `(n, d)`."""
    if by.summary is not None:
        x, y = (jnp.ravel(by.summary(data))[None] for data in (x, y))
    if isinstance(by.distance, AbstractKernel):
        return mmd(x, y, by.distance, unbiased=False)
    if by.distance == "energy":
        return energy_distance(x, y, unbiased=False)
    if by.distance == "euclidean":
        return mean_distance(x, y)
    return by.distance(x, y)  # pyright: ignore[reportCallIssue]


def distances(
    by: Comparison,
    key: Key,
    target: ScorePosterior,
    u: Float[Array, "N p"],
    wanted: Bool[Array, " N"],
) -> tuple[Float[Array, "N M"], Int[Array, ""]]:
    """Distances of fresh data sets at every particle, and how many draws they took.

    Infinity where a draw is not finite. A compiled program simulates all particles alike, in
    blocks; a black box is spared those that are not `wanted`.
    """
    keys = jax.random.split(key, u.shape[0])
    num = by.num_simulations * size_of(by, target)
    if not target.traceable:
        return _of_black_box(by, keys, target, u, wanted, num)

    def at(pair: tuple[Key, Array]) -> Array:
        return _at(by, target, *pair, num)

    found = jax.lax.map(at, (keys, u), batch_size=_block(target, u, num))
    return found, jnp.asarray(u.shape[0] * num, jnp.int32)


def _at(by: Comparison, target: ScorePosterior, key: Key, u: Array, num: int) -> Float[Array, " M"]:
    simulator = _simulator(target)
    theta = target.problem.prior.constrain(u)
    return _of_draws(by, target, simulator.simulate_from(theta, simulator.draw_noise(key, num)))


def _simulator(target: ScorePosterior) -> AbstractSimulator:
    assert target.problem.simulator is not None
    return target.problem.simulator


def _black_box(target: ScorePosterior) -> AbstractBlackBox:
    simulator = _simulator(target)
    if isinstance(simulator, AbstractBlackBox):
        return simulator
    raise TypeError(
        f"{type(simulator).__name__} can neither be compiled nor called for many parameters at "
        "once: derive it from genbayes.problem.AbstractBlackBox."
    )


def _of_draws(by: Comparison, target: ScorePosterior, draws: Array) -> Float[Array, " M"]:
    x, y = _simulator(target).features(draws), target.problem.features()
    sets = x.reshape(by.num_simulations, -1, x.shape[1])
    found = jax.vmap(lambda x: compare(by, x, y))(sets).astype(x.dtype)
    finite = jnp.all(jnp.isfinite(sets), axis=(1, 2)) & jnp.isfinite(found)
    return jnp.where(finite, found, jnp.inf)


def _block(target: ScorePosterior, u: Array, num: int) -> int:
    """Particles that are simulated at a time: as many as fit, in blocks of nearly equal size."""
    simulator, prior = _simulator(target), target.problem.prior

    def one(key: Key, u: Array) -> Any:
        noise = simulator.draw_noise(key, 1)
        return noise, simulator.simulate_from(prior.constrain(u), noise)

    shapes = eqx.filter_eval_shape(one, jax.random.key(0), u[0])
    numbers = num * sum(int(np.prod(x.shape)) for x in jax.tree.leaves(shapes))
    blocks = ceil(u.shape[0] * numbers / BLOCK)
    return ceil(u.shape[0] / min(max(blocks, 1), u.shape[0]))


def _of_black_box(
    by: Comparison, keys: Array, target: ScorePosterior, u: Array, wanted: Array, num: int
) -> tuple[Array, Array]:
    """Draws made outside of compiled programs, with what surrounds them compiled."""
    thetas = {k: np.asarray(x) for k, x in _constrained(target, u).items()}
    seeds = np.asarray(_seeds(target, keys, num))
    shape = target.problem.observations.shape[1:]
    size = max(1, BLOCK // (num * int(np.prod(shape, dtype=int))))
    found: list[Array] = []
    inside = np.asarray(wanted)
    for start in range(0, u.shape[0], size):
        # full to the end, so that every block has the same compiled distances
        draws = np.full((min(size, u.shape[0]), num, *shape), np.nan, np.dtype(u.dtype))
        rows = start + np.flatnonzero(inside[start : start + size])
        if rows.size:
            each = {k: jnp.asarray(np.repeat(x[rows], num, axis=0)) for k, x in thetas.items()}
            made = _black_box(target).simulate_many(each, seeds[rows].ravel())
            draws[rows - start] = np.asarray(made).reshape(rows.size, num, *shape)
        found.append(_compared(by, target, jnp.asarray(draws)))
    calls = jnp.asarray(int(np.sum(inside)) * num, jnp.int32)
    return jnp.concatenate(found)[: u.shape[0]], calls


@eqx.filter_jit
def _constrained(target: ScorePosterior, u: Array) -> dict[str, Array]:
    return jax.vmap(target.problem.prior.constrain)(u)


@eqx.filter_jit
def _seeds(target: ScorePosterior, keys: Array, num: int) -> Any:
    return jax.vmap(lambda key: _simulator(target).draw_noise(key, num))(keys)


@eqx.filter_jit
def _compared(by: Comparison, target: ScorePosterior, draws: Array) -> Float[Array, "N M"]:
    return jax.vmap(lambda x: _of_draws(by, target, x))(draws)
