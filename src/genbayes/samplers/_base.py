"""What every sampler is: pure configuration with `init` and `step`."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import equinox as eqx
import numpy as np

from .._types import Key, Unconstrained
from ..targets import ScorePosterior


class State(Protocol):
    """What the next step needs; `u` is where the chain stands."""

    @property
    def u(self) -> Unconstrained:
        """The position of the chain."""
        ...


class AbstractSampler(eqx.Module):
    """One Markov chain, one step at a time.

    `init(key, target, u) -> state` and `step(key, target, state) -> (state, info)`, the same for
    all. The state holds what the next step needs, the info what diagnostics need.
    """

    needs_gradient: ClassVar[bool]

    @abstractmethod
    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> Any:
        """The state of a chain that starts at `u`."""

    @abstractmethod
    def step(self, key: Key, target: ScorePosterior, state: Any) -> tuple[Any, Any]:
        """One step: the next state, and what diagnostics need."""

    def warmup(self, num_warmup: int) -> "AbstractWarmup | None":
        """How this sampler adapts, or `None` where it does not."""
        del num_warmup
        return None

    def check(self, target: ScorePosterior) -> None:
        """Refuse a target that does not fit, with the samplers that would."""
        if self.needs_gradient:
            check_differentiable(self, target)

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        """What to warn of in a finished run: infos are `(chain, draw)`, `u` has a last axis.

        In a thinned run flags are counts over the steps between, so many as `info["thinning"]`.
        """
        del info, u
        return []

    def remarks(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        """What is worth knowing of a finished run without being a warning."""
        del info, u
        return []


class AbstractWarmup(eqx.Module):
    """Adaptation: walks like a sampler, and in the end gives a fixed one."""

    @abstractmethod
    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> Any:
        """The state of an adapting chain that starts at `u`."""

    @abstractmethod
    def step(self, key: Key, target: ScorePosterior, state: Any) -> tuple[Any, Any]:
        """One adapting step."""

    @abstractmethod
    def finish(self, state: Any) -> tuple[AbstractSampler, Any]:
        """The adapted sampler, fixed from here on, and its state."""


def check_differentiable(sampler: AbstractSampler, target: ScorePosterior) -> None:
    """Refuse a simulator that cannot be differentiated."""
    simulator = target.problem.simulator
    if simulator is not None and not target.is_exact and not simulator.differentiable:
        raise ValueError(
            f"{type(sampler).__name__} follows gradients, and {type(simulator).__name__} has none. "
            "Use PseudoMarginal(), which needs only draws."
        )


def check_unbiased_gradient(
    sampler: AbstractSampler, target: ScorePosterior, allow_biased: bool
) -> None:
    """Refuse a score whose estimated gradient is biased."""
    if target.score.unbiased or allow_biased:
        return
    raise ValueError(
        f"{type(sampler).__name__} needs unbiased gradient estimates, and those of "
        f"{type(target.score).__name__} are biased. Use PseudoMarginal(), which needs only the "
        "estimate itself, or a score with unbiased estimates such as EnergyScore() or "
        "KernelScore(...), or accept the bias with allow_biased_gradients=True."
    )


def longest_stay(accepted: np.ndarray) -> int:
    """The longest run of rejected steps in any chain; `accepted` is `(chain, draw)`.

    ```python
    >>> from genbayes.samplers import longest_stay
    >>> longest_stay(np.array([[1, 0, 0, 1, 0]]))
    2

    ```
    """
    longest = 0
    for chain in np.atleast_2d(accepted > 0):
        moves = np.flatnonzero(np.concatenate([[True], chain, [True]]))
        longest = max(longest, int(np.diff(moves).max()) - 1)
    return longest


def share(info: Mapping[str, np.ndarray], name: str) -> float:
    """The share of all steps that had a flag, thinned or not; NaN for no steps at all."""
    flags = np.asarray(info[name])
    steps = flags.size * int(info.get("thinning", 1))
    return float(np.sum(flags)) / steps if steps else float("nan")
