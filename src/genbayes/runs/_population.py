"""Populations among runs: generations are steps and are all kept, particles are the draws."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..samplers import AbstractABC
from ._plan import Plan

if TYPE_CHECKING:
    from ._run import Run

DRAWS, INFO, FREE = "draws/", "info/", "unconstrained"


def counts(
    sampler: Any,
    num_samples: int | None,
    *,
    num_warmup: int,
    thinning: int,
    min_ess: Any,
    start: Any,
) -> tuple[int, int | None]:
    """How many draws a chain keeps, and how many generations there are if it is a population."""
    if not isinstance(sampler, AbstractABC):
        if num_samples is None:
            raise TypeError("sample needs num_samples=..., how many draws to keep of each chain.")
        return num_samples, None
    kind = type(sampler).__name__
    if num_samples not in (None, sampler.num_particles):
        raise ValueError(
            f"The draws of {kind} are its particles, {sampler.num_particles} of them, and "
            f"num_samples is {num_samples}: leave it out, and set {kind}(num_particles=...)."
        )
    if num_warmup or thinning != 1 or min_ess is not None or not _is_prior(start):
        raise ValueError(
            f"{kind} begins with prior draws and keeps its last generation: num_warmup, thinning, "
            "min_ess and start have no meaning for it. Leave them out; it ends at num_generations, "
            "tolerance, max_seconds or max_simulations."
        )
    return sampler.num_particles, sampler.num_generations


def _is_prior(start: Any) -> bool:
    return isinstance(start, str) and start == "prior"


def all_settled(sampler: AbstractABC, state: Any) -> bool:
    """Whether every chain's population has come to where it was to end."""
    begun = np.asarray(state.generation) > 0
    if np.any(begun & (np.sum(np.asarray(state.weight), axis=-1) == 0)):
        raise ValueError(
            "No particle drawn from the prior had a finite distance to the data: the simulator's "
            "draws overflow, or the distance cannot take them. Look at simulator draws under prior "
            "draws (genbayes.check), or tighten the prior."
        )
    return bool(np.all(begun & np.asarray(sampler.settled(state))))


def parts(arrays: Mapping[str, Any], plan: Plan, generation: int | None = None) -> dict[str, Any]:
    """What a run is made of, from what was recorded; of a population, one generation of it."""
    history: Mapping[str, Any] = {}
    if plan.num_generations is not None and arrays[FREE].shape[1]:
        history, arrays = arrays, _one(arrays, generation)
    return {
        "draws": _with_prefix(arrays, DRAWS),
        "unconstrained": arrays[FREE],
        "info": _with_prefix(arrays, INFO),
        "history": history,
    }


def _one(history: Mapping[str, Any], generation: int | None) -> dict[str, Any]:
    """The particles of one generation, the last unless told: `(chain, particle, ...)`."""
    number = history[FREE].shape[1]
    at = number - 1 if generation is None else range(number)[generation]
    return {
        name: x[:, at]
        for name, x in history.items()
        if not (name.startswith(INFO) and x.ndim == 2)  # of the generation as a whole
    }


def per_generation(history: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What there is one number of for each generation."""
    return {k: np.asarray(x) for k, x in _with_prefix(history, INFO).items() if x.ndim == 2}


def recorded(run: "Run") -> dict[str, Any]:
    """The arrays of a run as they were recorded: what `parts` was made from."""
    if run.history:
        return dict(run.history)
    named = ((DRAWS, run.draws), (INFO, run.info))
    arrays = {prefix + name: x for prefix, of in named for name, x in of.items()}
    return arrays | {FREE: run.unconstrained}


def by_group(history: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """What there is of each particle, in groups named as those of the last generation."""
    infos = {k: np.asarray(x) for k, x in _with_prefix(history, INFO).items() if x.ndim > 2}
    draws = {k: np.asarray(x) for k, x in _with_prefix(history, DRAWS).items()}
    free = {"u": np.asarray(history[FREE])}
    return {"posterior": draws, "unconstrained_posterior": free, "sample_stats": infos}


def from_groups(
    of_all: Mapping[str, np.ndarray], groups: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """As recorded, from what `per_generation` and `by_group` gave."""
    return (
        {DRAWS + name: x for name, x in groups["posterior"].items()}
        | {FREE: groups["unconstrained_posterior"]["u"]}
        | {INFO + name: x for name, x in {**of_all, **groups["sample_stats"]}.items()}
    )


def _with_prefix(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): x for k, x in arrays.items() if k.startswith(prefix)}
