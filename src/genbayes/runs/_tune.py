"""Settings that are found before a run: a tuner in a sampler's field is asked for a number."""

import math
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._types import Key
from ..samplers import AbstractSampler, Tuned, settings_to_tune
from ..targets import ScorePosterior
from ._start import chain_keys, start_at

NO_CHAIN = np.uint32(2**32 - 1)  # tuning has a stream of its own: chains are numbered from 0


def tuned(
    target: ScorePosterior, sampler: AbstractSampler, start: Any, seed: int | Key
) -> tuple[AbstractSampler, dict[str, Tuned]]:
    """The sampler with numbers in place of tuners, and what was found, by setting."""
    names = settings_to_tune(sampler)
    if not names:
        return sampler, {}
    if len(names) > 1:
        raise ValueError(
            f"{type(sampler).__name__} has a tuner for each of {', '.join(names)}: one setting can "
            "be tuned at a time. Give numbers for the others."
        )
    (name,) = names
    root = jax.random.key(seed) if isinstance(seed, (int, np.integer)) else seed
    first = start_at(target, start, chain_keys(seed, 1).start[0])
    key = jax.random.fold_in(root, NO_CHAIN)
    found = getattr(sampler, name).tune(key, target, sampler, name, first)
    return with_setting(sampler, name, found.value), {name: found}


def with_setting(sampler: AbstractSampler, name: str, value: float) -> AbstractSampler:
    """The sampler with another value of one setting."""
    return eqx.tree_at(
        lambda s: getattr(s, name), sampler, value, is_leaf=lambda x: x is getattr(sampler, name)
    )


def evidence(found: dict[str, Tuned]) -> dict[str, Any]:
    """What was found, as plain data for provenance."""
    return {
        name: {"value": t.value, "seconds": round(t.seconds, 3)} | _storable(dict(t.evidence))
        for name, t in found.items()
    }


def _storable(value: Any) -> Any:
    """The same with None for numbers that are not finite, such as the score of what diverged."""
    if isinstance(value, dict):
        return {name: _storable(x) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
