"""Even noise: a scrambled Sobol set pushed through the noise's quantile function."""

import math
from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from numpyro import distributions as dist
from scipy.stats import qmc

from .._types import Array, Float, Key
from ..problem import Simulator, TorchSimulator
from ._posterior import ScorePosterior, TargetNoise

LARGEST_SOBOL = 21_201  # dimensions that direction numbers are known for


def noise_distribution(target: ScorePosterior) -> dist.Distribution | None:
    """The distribution of the simulator's noise, where it is known."""
    simulator = target.problem.simulator
    noise = simulator.noise if isinstance(simulator, Simulator | TorchSimulator) else None
    return noise if isinstance(noise, dist.Distribution) else None


def noise_size(target: ScorePosterior) -> int | None:
    """How many numbers one draw of the simulator takes, where that is known."""
    noise = noise_distribution(target)
    return None if noise is None else math.prod(noise.batch_shape + noise.event_shape)


def why_no_sobol(target: ScorePosterior) -> str | None:
    """The reason that Sobol noise does not apply, or nothing if it does."""
    noise = noise_distribution(target)
    if noise is None:
        return "the simulator's noise is not a NumPyro distribution"
    if math.prod(noise.batch_shape + noise.event_shape) > LARGEST_SOBOL:
        return f"the noise has more than {LARGEST_SOBOL:,} dimensions"
    try:
        jax.eval_shape(lambda v: _quantile(noise, v), jnp.zeros((1, *_shape(noise))))
    except (NotImplementedError, ImportError):  # some of NumPyro's need TensorFlow Probability
        return f"{type(noise).__name__} has no quantile function"
    return None


FEW_DIMENSIONS = 16  # up to which a few hundred Sobol points are still much more even than draws


def suits_sobol(target: ScorePosterior) -> bool:
    """Whether Sobol noise applies and pays: known noise of few dimensions."""
    if target.is_exact:
        return False
    size = noise_size(target)
    return size is not None and size <= FEW_DIMENSIONS and why_no_sobol(target) is None


def with_all_pairs(target: ScorePosterior) -> ScorePosterior:
    """The target as even noise wants it: draws that avoid each other are scored over all pairs."""
    return eqx.tree_at(lambda t: t.score, target, target.score.all_pairs())


def sobol_noise(key: Key, target: ScorePosterior) -> TargetNoise:
    """Low-discrepancy noise, scrambled anew by each key: every point has the right distribution."""
    key_scramble, key_rows = jax.random.split(key)
    noise = noise_distribution(target)
    assert noise is not None
    uniforms = scrambled_sobol(key_scramble, target.num_simulations, math.prod(_shape(noise)))
    simulator = _quantile(noise, uniforms.reshape(-1, *_shape(noise)))
    return TargetNoise(simulator, target.draw_noise(key_rows).rows)


def scrambled_sobol(key: Key, num: int, size: int) -> Float[Array, "num size"]:
    """Sobol points in the open unit cube, by Owen's nested scrambling of each coordinate.

    The scrambling is Burley's (2020) hash: bits are flipped by a function of all higher bits.
    """
    seeds = jax.random.bits(key, (1, size), jnp.uint32)
    points = _reverse_bits(_hash(_reverse_bits(jnp.asarray(_sobol(num, size))), seeds))
    width = 24 if jnp.zeros(()).dtype == jnp.float32 else 32
    steps = (points >> (32 - width)).astype(float)
    return (steps + 0.5) / 2.0**width


@lru_cache(maxsize=8)
def _sobol(num: int, size: int) -> np.ndarray:
    levels = max(1, math.ceil(math.log2(num)))
    points = qmc.Sobol(size, scramble=False, bits=32).random_base2(levels)[:num]
    return (points * 2.0**32).astype(np.uint32)


def _hash(x: Array, seed: Array) -> Array:
    x = x + seed
    for multiplier in (0x6C50B47C, 0xB82F1E52, 0xC7AFE638, 0x8D22F6E6):
        x = x ^ (x * jnp.uint32(multiplier))
    return x


def _reverse_bits(x: Array) -> Array:
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        kept = jnp.uint32(mask)
        x = ((x >> shift) & kept) | ((x & kept) << shift)
    return (x >> 16) | (x << 16)


def _shape(noise: dist.Distribution) -> tuple[int, ...]:
    return noise.batch_shape + noise.event_shape


def _quantile(noise: dist.Distribution, uniforms: Array) -> Array:
    """The noise at given quantiles `(num, *shape)`, coordinate by coordinate."""
    if isinstance(noise, dist.Independent | dist.ExpandedDistribution):
        return _quantile(noise.base_dist, uniforms)
    if isinstance(noise, dist.MultivariateNormal):
        spread = jnp.einsum("ij,...j->...i", noise.scale_tril, ndtri(uniforms))
        return jnp.asarray(noise.loc) + spread
    if noise.event_shape:
        raise NotImplementedError(type(noise).__name__)
    return jnp.asarray(noise.icdf(uniforms))
