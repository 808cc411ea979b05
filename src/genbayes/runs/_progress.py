"""A progress bar, drawn by the host between compiled chunks."""

import sys
import time
from collections import deque
from typing import Any, Protocol

import numpy as np


class Reporter(Protocol):
    """What the loop tells of its progress."""

    def update(self, done: int, info: dict[str, np.ndarray]) -> None:
        """Steps done so far, and the infos of the last chunk."""
        ...

    def say(self, line: str) -> None:
        """A line of its own, from any thread."""
        ...

    def close(self, message: str) -> None:
        """The run has ended."""
        ...


class Silent:
    """Says nothing."""

    def update(self, done: int, info: dict[str, np.ndarray]) -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        """Nothing."""

    def close(self, message: str) -> None:
        """Nothing."""


class Bar:
    """A live bar on a terminal: steps, rate, time left, accepted or refused steps."""

    def __init__(self, total: int, num_warmup: int, done: int = 0):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._warmup = num_warmup
        self._tally = Tally()
        self._rate = Rate()
        self._bar = Progress(
            TextColumn("{task.description:9}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=False,
        )
        self._task = self._bar.add_task("compiling", total=total, completed=done, rate="", note="")
        self._bar.start()

    def update(self, done: int, info: dict[str, np.ndarray]) -> None:
        """Move the bar."""
        self._tally.add(info)
        self._rate.add(done)
        self._bar.update(
            self._task,
            completed=done,
            description="warm-up" if done < self._warmup else "sampling",
            rate=self._rate.text(),
            note=self._tally.text(),
        )

    def say(self, line: str) -> None:
        """Above the bar."""
        self._bar.console.print(line, highlight=False, markup=False)

    def close(self, message: str) -> None:
        """Leave the bar as it stands."""
        self._bar.update(self._task, description=message)
        self._bar.stop()


class Lines:
    """Where there is no terminal: a line every ten seconds."""

    def __init__(self, total: int, done: int = 0):
        del done
        self._total = total
        self._tally, self._rate = Tally(), Rate()
        self._last = time.perf_counter()

    def update(self, done: int, info: dict[str, np.ndarray]) -> None:
        """Say so every ten seconds."""
        self._tally.add(info)
        self._rate.add(done)
        now = time.perf_counter()
        if now - self._last >= 10 and self._rate.value > 0:
            left = f"{(self._total - done) / self._rate.value:,.0f} s left"
            self._last = now
            parts = (f"{done:,}/{self._total:,} steps", self._rate.text(), left, self._tally.text())
            print(", ".join(parts), file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        """At once."""
        print(line, file=sys.stderr, flush=True)

    def close(self, message: str) -> None:
        """Nothing more to say."""


class Rate:
    """Steps a second over the last reports: what was spent on compilation is soon forgotten."""

    def __init__(self):
        self._seen: deque[tuple[float, int]] = deque(maxlen=20)

    def add(self, done: int) -> None:
        """So many steps are done now."""
        self._seen.append((time.perf_counter(), done))

    @property
    def value(self) -> float:
        """Steps a second, 0 where it is not known yet."""
        (before, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - before) if now > before else 0.0

    def text(self) -> str:
        """In words."""
        return f"{self.value:,.0f} steps/s" if self.value else ""


class Tally:
    """Accepted or refused steps so far."""

    def __init__(self):
        self._count, self._total = 0, 0.0
        self._kind = ""

    def add(self, info: dict[str, np.ndarray]) -> None:
        """Count the flags of one chunk."""
        for kind in ("accepted", "refused", "acceptance_rate"):
            if kind in info:
                self._kind = kind
                self._count += info[kind].size
                self._total += float(np.sum(info[kind]))

    def text(self) -> str:
        """In words."""
        if not self._count:
            return ""
        if self._kind == "refused":
            return f"{self._total:,.0f} refused"
        return f"{self._total / self._count:.0%} accepted"


def reporter(progress: Any, total: int, num_warmup: int, done: int = 0) -> Reporter:
    """The reporter that suits this place."""
    if not progress:
        return Silent()
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        return Bar(total, num_warmup, done)
    return Lines(total, done)
