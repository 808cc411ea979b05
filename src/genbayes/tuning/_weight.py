"""What every rule for the weight gives back: the weight, an interval, and its evidence."""

from abc import abstractmethod
from dataclasses import dataclass

from .._result import AbstractResult


@dataclass(frozen=True, eq=False)
class AbstractWeight(AbstractResult):
    """A weight $w$ for a `ScorePosterior`, with its evidence.

    - `value`: the weight. `interval`, `level`: where it may lie, `interval_of` says by what error.
    - `simulator_calls`, `seconds`: what it cost.
    """

    value: float
    interval: tuple[float, float]
    level: float
    simulator_calls: int
    seconds: float

    @property
    @abstractmethod
    def rule(self) -> str:
        """What the weight matches, in a few words."""

    @property
    @abstractmethod
    def interval_of(self) -> str:
        """Which error the interval is for."""

    @property
    @abstractmethod
    def findings(self) -> tuple[str, ...]:
        """What there is to worry about, in words."""

    def notes(self) -> list[str]:
        """Below the table: findings first, then what the interval says and what it all cost."""
        cost = f"{self.simulator_calls:,} simulations, {self.seconds:.1f} s"
        of = f"from, to: {self.level:.0%} interval of {self.interval_of}"
        return [*(f"! {f}" for f in self.findings), of, cost]
