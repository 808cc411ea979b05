"""An experiment: pieces of work that are computed once, and what is then read off them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from .._table import Table
from ._data import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = Mapping[str, np.ndarray]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run."""

    name: str
    share: float  # of the steps of a chain
    few: bool  # only one of each list of settings

    def steps(self, published: int, least: int = 100) -> int:
        """So many steps in place of the published number."""
        return max(min(least, published), round(self.share * published))

    def some(self, settings: Sequence[Item]) -> Sequence[Item]:
        """All settings, or only the last."""
        return settings[-1:] if self.few else settings


SCALES = {"smoke": Scale("smoke", 0.002, True), "paper": Scale("paper", 1.0, False)}


@dataclass(frozen=True)
class Cell:
    """A piece of work with a name.

    - `load`: its processor seconds at full length, roughly: for the order, and the time left.
    - `programs`: the same for cells that use the same compiled programs; absent, for none.
    """

    name: str
    work: Callable[[], Result]
    load: float = 1.0
    programs: str = ""


Verdict = Literal["agrees", "differs", "not compared"]
LARGEST_DISTANCE = 3.0


@dataclass(frozen=True)
class Comparison:
    """A published number and ours.

    - `error`: the standard error of ours; the published one, a chain of equal length, is taken to
        have the same unless `exact` says that it has none.
    - `rounding`: half a unit of the last digit that was printed.
    - `bound`: the published number is an upper bound.
    - `data`: keys of the observations it depends on, if not all of the experiment's.
    - `note`: what explains a difference, shown where there is one.
    """

    what: str
    published: float
    ours: float
    error: float
    rounding: float
    bound: bool = False
    exact: bool = False
    note: str = ""
    data: tuple[str, ...] | None = None

    @property
    def distance(self) -> float:
        """The difference in units of its Monte Carlo error, what rounding explains taken off."""
        beyond = self.ours - self.published if self.bound else abs(self.ours - self.published)
        spread = self.error * (1.0 if self.exact else 2**0.5)
        excess = max(0.0, beyond - self.rounding)
        return 0.0 if excess == 0 else excess / spread if spread > 0 else float("inf")

    def verdict(self, comparable: bool) -> Verdict:
        """Whether the two agree; other observations cannot be compared."""
        if not comparable or not np.isfinite(self.distance):
            return "not compared"
        return "agrees" if self.distance <= LARGEST_DISTANCE else "differs"


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows, in words."""

    figure: "Figure"
    caption: str


@dataclass(frozen=True)
class Findings:
    """What an experiment shows: numbers beside the published ones, pictures, tables, remarks."""

    comparisons: list[Comparison]
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    - `observations`: keys of its data in the published file.
    - `cells(scale, data)`: its pieces of work, independent of each other.
    - `findings(results, scale, data)`: what they show together; `results` is by cell.
    """

    name: str
    title: str
    section: str
    observations: tuple[str, ...]
    settings: Mapping[str, str]
    cells: Callable[[Scale, Data], list[Cell]]
    findings: Callable[[Mapping[str, Result], Scale, Data], Findings]
