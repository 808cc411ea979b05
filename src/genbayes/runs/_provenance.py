"""What was run: everything a stored result needs to explain itself."""

import hashlib
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..samplers import AbstractSampler
from ..targets import ScorePosterior
from ._fingerprint import fingerprint
from ._lock import now

LIBRARIES = ("genbayes", "jax", "jaxlib", "numpyro", "blackjax", "equinox", "numpy")


@cache  # many short runs would spend a fifth of their time on it
def _versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()}


def function_name(fn: Any) -> str:
    """A name that a person recognises."""
    name = getattr(fn, "__qualname__", type(fn).__qualname__)
    return f"{getattr(fn, '__module__', '?')}.{name}"


def data_hash(observations: Any) -> str:
    """A hash of the observations."""
    y = np.ascontiguousarray(np.asarray(observations, float))
    return hashlib.sha256(repr(y.shape).encode() + y.tobytes()).hexdigest()[:16]


def describe_module(module: eqx.Module) -> str:
    """A module's settings as it would be written, arrays by value where small."""

    def show(x: Any) -> str:
        if isinstance(x, (jax.Array, np.ndarray)):
            y = np.asarray(x)
            return repr(y.tolist()) if y.size <= 16 else f"array{list(y.shape)}"
        if isinstance(x, eqx.Module):
            return describe_module(x)
        if isinstance(x, tuple):
            return "(" + ", ".join(show(v) for v in x) + ")"
        return function_name(x) if callable(x) else repr(x)

    settings = ", ".join(f"{k}={show(v)}" for k, v in vars(module).items())
    return f"{type(module).__name__}({settings})"


def describe_target(target: ScorePosterior) -> dict[str, Any]:
    """The prior, simulator, data, score and weight."""
    simulator = target.problem.simulator
    fn, program = getattr(simulator, "fn", None), getattr(simulator, "program", None)
    called = None if fn is None else function_name(fn)
    return {
        "prior": target.problem.prior.describe(),
        "prior_hash": fingerprint(target.problem.prior),
        "simulator": None if simulator is None else type(simulator).__name__,
        "simulator_function": called if program is None else shlex.join(program.command),
        "simulator_hash": None if simulator is None else fingerprint(simulator),
        "observations_shape": list(target.problem.observations.shape),
        "observations_hash": data_hash(target.problem.observations),
        "score": describe_module(target.score),
        "score_hash": fingerprint(target.score),
        "weight": float(target.weight),
        "num_simulations": target.num_simulations,
        "batch_size": target.batch_size,
    }


def describe_start(start: Any) -> Any:
    """Where chains start: a word, a point, or the tuner that finds one."""
    if isinstance(start, Mapping):
        return {str(name): np.asarray(value).tolist() for name, value in start.items()}
    if isinstance(start, eqx.Module):
        return describe_module(start)
    return start if isinstance(start, str) else type(start).__name__


def describe_run(
    target: ScorePosterior,
    sampler: AbstractSampler,
    seed: Any,
    start: Any = "prior",
    notes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything about a run that is known before it starts."""
    seed = int(seed) if isinstance(seed, (int, np.integer)) else jax.random.key_data(seed).tolist()
    return {
        "target": describe_target(target),
        "sampler": describe_module(sampler),
        "seed": seed,
        "start": describe_start(start),
        "notes": dict(notes or {}),
        "precision": 8 * jnp.zeros(()).dtype.itemsize,
        "started": now(),
        "command": list(sys.argv),
        "versions": dict(_versions()),
        "machine": {
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "backend": jax.default_backend(),
            "devices": jax.device_count(),
        },
    }
