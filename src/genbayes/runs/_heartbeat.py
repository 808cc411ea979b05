"""A sign of life from a run that moves nowhere."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from ._loop import Walk

QUIET_SECONDS = 30.0
_LOOK_SECONDS = 1.0


class Heartbeat:
    """Says a line whenever nothing has been accepted for half a minute, even within a step."""

    def __init__(self, walk: "Walk", say: Callable[[str], None] | None):
        self._walk, self._say = walk, say
        self._accepted = self._said = time.perf_counter()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def hear(self, info: dict[str, np.ndarray]) -> None:
        """The infos of the last chunk."""
        if np.any(info.get("accepted", True)):
            self._accepted = time.perf_counter()

    def __enter__(self) -> Self:
        if self._say is not None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del kind, error, traceback
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        assert self._say is not None
        while not self._ended.wait(min(_LOOK_SECONDS, QUIET_SECONDS)):
            now = time.perf_counter()
            if now - max(self._accepted, self._said) >= QUIET_SECONDS:
                self._said = now
                self._say(self._line(now - self._accepted))

    def _line(self, seconds: float) -> str:
        walk, failures = self._walk, self._walk.failures
        line = (
            f"Nothing accepted for {seconds:.0f} s: {walk.cost.steps:,} steps done, "
            f"{failures.estimates:,} estimates made, {failures.lost:,.0f} of them lost to failures"
        )
        return f"{line}; the last: {failures[-1]}" if len(failures) else line
