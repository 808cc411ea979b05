"""What a run is asked to do, and how it may end."""

import enum
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from .._checks import check_choice, check_count, check_positive

CHAIN_METHODS = ("vectorized", "parallel", "sequential")


class Outcome(enum.Enum):
    """How a run ended."""

    COMPLETE = "The run is complete."
    INTERRUPTED = "The run was interrupted from the keyboard."
    MAX_SECONDS = "The run stopped at its limit of time (max_seconds)."
    MAX_SIMULATIONS = "The run stopped at its limit of simulations (max_simulations)."
    MIN_ESS = "The run stopped because its effective sample size was reached (min_ess)."
    REACHED = "The run ended where its sampler was to end, before its last generation."
    DIVERGED = "The run stopped because it refused too many steps."
    FAILURES = "The run stopped because the simulator failed too often."
    HALVED = "The run is to begin again with half the step size."
    FAILED = "The run was ended by an error."
    RUNNING = "The run is going on, or was cut off."

    @property
    def good(self) -> bool:
        """Whether it ended where it was to end."""
        return self in (Outcome.COMPLETE, Outcome.MIN_ESS, Outcome.REACHED)

    @property
    def resumable(self) -> bool:
        """Whether there is more to draw."""
        return self is not Outcome.COMPLETE


@dataclass(frozen=True)
class Status:
    """How a run ended and what there is to say of it; empty findings mean nothing was noticed."""

    outcome: Outcome
    findings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the run did what it was asked and nothing was noticed."""
        return self.outcome.good and not self.findings

    def __str__(self) -> str:
        return "\n".join([self.outcome.value, *self.remarks, *(f"! {f}" for f in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "outcome": self.outcome.name,
            "findings": list(self.findings),
            "remarks": list(self.remarks),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Status":
        """As `to_dict` wrote it."""
        return cls(
            Outcome[stored["outcome"]], tuple(stored["findings"]), tuple(stored.get("remarks", ()))
        )


@dataclass(frozen=True)
class Plan:
    """How many draws of how many chains, and when to stop before."""

    num_samples: int
    num_warmup: int = 0
    num_chains: int = 1
    thinning: int = 1
    chain_method: str = "vectorized"
    max_seconds: float | None = None
    max_simulations: int | None = None
    min_ess: float | None = None
    on_divergence: str = "refuse"
    num_generations: int | None = None  # of a population, whose particles are the draws
    keep_gradients: bool = False  # the estimate at each kept draw, in the infos

    def __post_init__(self):
        check_count("num_samples", self.num_samples, 1, "It counts the draws that are kept.")
        check_count("num_warmup", self.num_warmup, 0)
        check_count("num_chains", self.num_chains)
        check_count("thinning", self.thinning)
        check_choice("chain_method", self.chain_method, CHAIN_METHODS)
        check_choice("on_divergence", self.on_divergence, ("refuse", "halve"))
        if self.num_generations is not None:
            check_count("num_generations", self.num_generations)
        if self.max_seconds is not None:
            check_positive("max_seconds", self.max_seconds)
        if self.max_simulations is not None:
            check_count("max_simulations", self.max_simulations)
        if self.min_ess is not None:
            check_positive("min_ess", self.min_ess)
        if self.chain_method == "parallel" and jax.device_count() == 1 and self.num_chains > 1:
            raise ValueError(
                'chain_method="parallel" spreads chains over devices, and JAX sees only one. '
                "Before JAX is first used, call numpyro.set_host_device_count(2) (or set XLA_FLAGS="
                '--xla_force_host_platform_device_count=2), or use chain_method="vectorized".'
            )

    @property
    def num_steps(self) -> int:
        """All steps of a chain, warm-up included; the generations of a population."""
        if self.num_generations is not None:
            return self.num_generations
        return self.num_warmup + self.num_samples * self.thinning


def extended(
    plan: Plan, num_samples: int | None, num_generations: int | None, stops: dict[str, Any]
) -> Plan:
    """The plan of a resumed run: as long or longer, with its own reasons to stop."""
    asked = {"num_samples": num_samples, "num_generations": num_generations}
    populated = plan.num_generations is not None
    more = "num_generations" if populated else "num_samples"
    settings = vars(plan) | stops
    for name, wanted in asked.items():
        if wanted is None:
            continue
        if name != more:
            kind = "a population grows no particles" if populated else "chains have no generations"
            raise ValueError(f"{name} has no meaning here, as {kind}: give {more}.")
        if wanted < settings[name]:
            raise ValueError(
                f"{name} must be at least what was asked for first ({settings[name]}), got "
                f"{wanted}."
            )
        settings[name] = wanted
    return Plan(**settings)


@dataclass
class Cost:
    """What a run has spent."""

    simulator_calls: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0
    steps: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers."""
        return dict(vars(self))


@dataclass
class Tallies:
    """Flags counted over every step, warm-up included."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, info: dict[str, np.ndarray]) -> None:
        """Count the flags of a chunk."""
        for name, values in info.items():
            if np.issubdtype(values.dtype, np.integer) or values.dtype == bool:
                self.counts[name] = self.counts.get(name, 0) + int(np.sum(values))

    def get(self, name: str) -> int:
        """One count."""
        return self.counts.get(name, 0)
