"""Draws in a process that can be killed: a time-out here ends what runs, whatever it does."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np

from ._draw import DIED, TIMED_OUT, Failed, Theta

START_SECONDS = 120.0  # to import what the simulator needs, which is not the draw's own time
MOST_HOSTS = 4  # of one thread
_SCRIPT = str(Path(__file__).with_name("_host.py"))
_hosts = threading.local()


class Host:
    """A process that makes draws, its group, and the pipe to it."""

    def __init__(self, packed: bytes):
        self.pipe, far = Pipe()
        lifeline, self._lifeline = os.pipe()  # closed by whatever ends this process
        numbers = [far.fileno(), lifeline]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", _SCRIPT, *map(str, numbers)],
                pass_fds=numbers, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        finally:
            far.close()
            os.close(lifeline)
        self._begin(packed)

    def _begin(self, packed: bytes) -> None:
        try:
            self.pipe.send([p for p in sys.path if p])
            self.pipe.send_bytes(packed)
            problem = self.pipe.recv() if self.pipe.poll(START_SECONDS) else "it took too long"
        except (EOFError, OSError):
            problem = self.last_words()
        if problem:
            self.kill()
            raise RuntimeError(
                f"The process for the simulator could not be started: {problem}. What the "
                "simulator imports must be installed where it runs."
            )

    def receive(self, seconds: float | None) -> Any:
        """The next answer, or a failure: then the process is gone, and all that it started."""
        began = time.perf_counter()
        try:
            if self.pipe.poll(seconds):
                return self.pipe.recv()
            message, kind = f"stopped after {seconds:g} s (timeout)", TIMED_OUT
        except (EOFError, OSError):
            message, kind = self.last_words(), DIED
        self.kill()
        return Failed(message, time.perf_counter() - began, kind)

    def last_words(self) -> str:
        """How the process ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        code = self._process.returncode
        if code is not None and code < 0:
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self.pipe.closed and self._process.poll() is None

    def kill(self) -> None:
        """End the whole group; a second call does nothing."""
        if self.pipe.closed:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.pipe.close()
        os.close(self._lifeline)

    def __del__(self):
        if hasattr(self, "_process") and not sys.is_finalizing():
            self.kill()


def _host(packed: bytes) -> Host:
    """The host of this thread for this simulator, started where there is none."""
    hosts: dict[bytes, Host] = _hosts.__dict__.setdefault("by_simulator", {})
    host = hosts.pop(packed, None)
    if host is None or not host.alive:
        if host is not None:
            host.kill()
        while len(hosts) >= MOST_HOSTS:
            hosts.pop(next(iter(hosts))).kill()
        host = Host(packed)
    hosts[packed] = host  # the last of them is the one used last
    return host


def _asked(packed: bytes, question: Any) -> Host:
    host = _host(packed)
    try:
        host.pipe.send(question)
    except OSError:  # it died while it had nothing to do: no draw's fault
        host.kill()
        host = _host(packed)
        host.pipe.send(question)
    return host


def hosted_draws(
    packed: bytes,
    dtype: str,
    thetas: Sequence[Theta],
    seeds: list[int],
    timeout: float | None,
) -> list[np.ndarray | Failed]:
    """Draws one by one, up to the first failure; the time-out is that of a single draw."""
    host = _asked(packed, (list(thetas), seeds, dtype, False))
    found: list[np.ndarray | Failed] = []
    for _ in seeds:
        found.append(host.receive(timeout))
        if isinstance(found[-1], Failed):
            break
    return found


def hosted_rows(
    packed: bytes,
    dtype: str,
    thetas: Sequence[Theta],
    seeds: list[int],
    timeout: float | None,
) -> list[np.ndarray | Failed] | Failed:
    """All draws in one call of a function that takes batches."""
    host = _asked(packed, (list(thetas), seeds, dtype, True))
    return host.receive(None if timeout is None else timeout * len(seeds))
