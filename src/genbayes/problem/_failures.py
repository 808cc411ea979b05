"""Failures of a simulator as data: who listens hears of every estimate and every failed draw."""

import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from .._workers import NOT_FINITE, Failed

MOST_KEPT = 10_000  # failures in full; the others are counted
MOST_DETAILS = 10  # of these, with what was written to stderr
RECENT = 20  # estimates over which the share of failures may end a run


@dataclass(frozen=True)
class Failure:
    """One failed draw: at which parameters, from which seed, why, after how many seconds."""

    theta: Mapping[str, Any]
    seed: int
    message: str
    seconds: float
    details: str = ""

    def __str__(self) -> str:
        where = {k: np.asarray(v).tolist() for k, v in self.theta.items()}
        return f"{self.message} (at {where}, seed {self.seed})"

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        plain = {k: np.asarray(v).tolist() for k, v in self.theta.items()}
        return vars(self) | {"theta": plain}


class SimulatorError(RuntimeError):
    """A draw failed, and the simulator was told to raise."""


class Failures(Sequence[Failure]):
    """What failed in a run: a sequence of `Failure`, and how many there were of how many.

    - `estimates`, `lost`: estimates of the log density, and the share-weighted number lost: with
      `on_failure="reject"` a single failed draw loses its estimate, with `"penalise"` it loses
      one part in m of it.
    - `total`: failed draws. The first 10 000 are kept in full.
    """

    def __init__(
        self, kept: list[Failure] | None = None, estimates: int = 0, lost: float = 0.0,
        total: int = 0,
    ):  # fmt: skip
        self.kept = [] if kept is None else kept
        self.estimates, self.lost, self.total = estimates, lost, total
        self._recent: deque[float] = deque(maxlen=RECENT)

    def __len__(self) -> int:
        return len(self.kept)

    @overload
    def __getitem__(self, index: int) -> Failure: ...
    @overload
    def __getitem__(self, index: slice) -> list[Failure]: ...
    def __getitem__(self, index: int | slice) -> Failure | list[Failure]:
        return self.kept[index]

    @property
    def share(self) -> float:
        """The share of the estimates that was lost."""
        return self.lost / self.estimates if self.estimates else 0.0

    def copy(self) -> "Failures":
        """Another that goes on by itself."""
        return Failures(list(self.kept), self.estimates, self.lost, self.total)

    def hear(self, failed: list[Failure], lost: float) -> None:
        """One estimate more, the share of it that was lost, and the draws that failed."""
        self.estimates += 1
        self.lost += lost
        self.total += len(failed)
        self._recent.append(lost)
        for failure in failed[: max(0, MOST_KEPT - len(self.kept))]:
            if len(self.kept) >= MOST_DETAILS:
                failure = replace(failure, details="")
            self.kept.append(failure)

    def too_many(self, most: float) -> bool:
        """Whether more than that share of the last 20 estimates was lost."""
        recent = self._recent
        return len(recent) == RECENT and sum(recent) > most * RECENT

    def __str__(self) -> str:
        """One line: how many, and the most frequent reasons."""
        reasons = Counter(failure.message for failure in self.kept).most_common(3)
        said = "; ".join(f"{why} ({number:,} times)" for why, number in reasons)
        return (
            f"{self.total:,} draws of the simulator failed, and {self.share:.2%} of "
            f"{self.estimates:,} estimates were lost: {said}"
        )

    def counts(self) -> dict[str, Any]:
        """All but the failures themselves, as plain data."""
        return {"estimates": self.estimates, "lost": self.lost, "total": self.total}


_LISTENER: ContextVar[Failures | None] = ContextVar("failures", default=None)


@contextmanager
def recording(failures: Failures) -> Iterator[None]:
    """What fails in here is heard by `failures`."""
    token = _LISTENER.set(failures)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def is_recorded() -> bool:
    """Whether a run listens."""
    return _LISTENER.get() is not None


def tell(failed: list[tuple[Failure, Failed]], lost: float, num: int) -> None:
    """Tell the run of one estimate; without a run, warn of draws that did not come."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.hear([failure for failure, _ in failed], lost)
        return
    # a function that returns NaN itself knows what it does
    silent = [failure for failure, why in failed if why.kind != NOT_FINITE]
    if silent:
        warnings.warn(
            f"{len(silent)} of {num} draws failed, the first because {silent[0]}. They are "
            "not finite, or the penalty if there is one.",
            RuntimeWarning,
            stacklevel=4,
        )
