"""What a stored run says of itself, without its draws: for lists of runs, and for watching one."""

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ._lock import LOCK
from ._plan import Cost, Outcome, Plan, Status
from ._store import RunStore
from ._store_errors import StoreError
from ._store_files import read_file
from ._store_json import MANIFEST


@dataclass(frozen=True)
class Peek:
    """How far a stored run has come; `error` where it cannot be read."""

    path: Path
    error: str = ""
    manifest: dict[str, Any] = field(default_factory=dict, repr=False)
    progress: dict[str, Any] = field(default_factory=dict)
    draws: int = 0
    owner: str = ""  # the process that writes to it, if one does

    @property
    def status(self) -> Status:
        """As the run itself last recorded it."""
        return Status.from_dict(self.manifest["status"])

    @property
    def plan(self) -> Plan:
        """What it was asked for."""
        return Plan(**self.manifest["plan"] | {"chain_method": "vectorized"})

    @property
    def cost(self) -> Cost:
        """What it has spent so far."""
        return Cost(**self.progress.get("cost", {}))

    @property
    def sampler(self) -> str:
        """The name of its sampler."""
        return str(self.manifest.get("provenance", {}).get("sampler", "?")).split("(")[0]

    @property
    def going_on(self) -> bool:
        """Whether a process is writing to it."""
        return bool(self.owner) and self.status.outcome is Outcome.RUNNING

    @property
    def state(self) -> str:
        """One word or two: `running`, `complete`, `max_seconds`, `cut off`, `damaged`..."""
        if self.error:
            return "damaged"
        if self.status.outcome is Outcome.RUNNING:
            return "running" if self.owner else "cut off"
        return self.status.outcome.name.lower()


def peek(path: str | Path) -> Peek:
    """Look at a stored run; what is wrong with it becomes `error`, unless there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     RunStore.create(folder, {}).close()
    ...     peek(folder).state
    'damaged'
    """
    path = Path(path)
    # before the record is read, so that a run that ends meanwhile is not taken for one cut off
    owner = writer_of(path)
    try:
        store = RunStore.open(path)
    except StoreError as error:
        if not (path / MANIFEST).is_file():
            raise
        return Peek(path, error=str(error))
    found = Peek(path, "", store.manifest, store.progress, store.num_draws, owner)
    try:
        _ = found.status, found.plan, found.cost
        if found.plan.num_generations is not None and found.draws:  # its draws are its particles
            return replace(found, draws=found.plan.num_samples)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Peek(path, error=f"{MANIFEST} does not describe a run: {error!r}")
    return found


def writer_of(path: Path) -> str:
    """Which process writes to a run, in words; empty if none does.

    The lock itself is not tried, as that could stand in the way of a process about to take it.
    """
    try:
        owner = json.loads(read_file(path / LOCK, ""))
        pid, host = int(owner["pid"]), str(owner["host"])
    except (StoreError, ValueError, TypeError, KeyError, RecursionError):
        return ""
    if host != socket.gethostname():
        return f"process {pid} on {host}"  # which cannot be asked whether it is alive
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except (PermissionError, OverflowError):
        pass  # it is there, but somebody else's
    return f"process {pid}"


def find_runs(folder: str | Path, depth: int = 4) -> Iterator[Path]:
    """The runs in a folder and in those below it, in the order of their names."""
    folder = Path(folder)
    if (folder / MANIFEST).is_file():
        yield folder
    elif depth:
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                yield from find_runs(entry, depth - 1)


def latest_draws(path: str | Path, num: int) -> dict[str, np.ndarray]:
    """The last draws and infos of a run, at most `num`, by name as they are stored."""
    store = RunStore.open(path)
    arrays = store.arrays()
    if store.manifest["plan"].get("num_generations") is not None:
        particles = {k: x for k, x in arrays.items() if x.ndim > 2}
        return {k: np.asarray(x[:, x.shape[1] - 1])[:, :num] for k, x in particles.items()}
    return {name: np.asarray(x[:, max(0, x.shape[1] - num) :]) for name, x in arrays.items()}
