"""Where the draws of a run go: memory, and a store if there is one."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .._convergence import ess_bulk
from .._tree import to_arrays
from .._types import Array
from ._program import constrain
from ._store_failures import FailureFile

if TYPE_CHECKING:
    from ._loop import Walk
    from ._store import RunStore

COMMIT_SECONDS = 1.0  # how much work a killed run may have to do again


class Sink:
    """Collects chunks; commits draws, state and progress together to the store."""

    def __init__(
        self, store: "RunStore | None" = None, chunks: list[dict[str, np.ndarray]] | None = None
    ):
        self.store = store
        self.chunks = chunks if chunks is not None else []
        self._pending: list[dict[str, np.ndarray]] = []
        self._committed = time.perf_counter()
        self._next_look = 100
        self._failures = None if store is None else FailureFile(store.path, store.progress)

    def add(
        self, walk: "Walk", u: Array, info: dict[str, np.ndarray], count: int, keep: bool
    ) -> None:
        """One chunk of records."""
        if keep:
            draws = constrain(walk.target, u)
            chunk = {f"draws/{name}": np.asarray(x)[:, :count] for name, x in draws.items()}
            chunk["unconstrained"] = np.asarray(u)[:, :count]
            chunk |= {f"info/{name}": x for name, x in info.items()}
            self.chunks.append(chunk)
            self._pending.append(chunk)
        if time.perf_counter() - self._committed > COMMIT_SECONDS:
            self.commit(walk)

    def commit(self, walk: "Walk", **progress: Any) -> None:
        """Make everything up to here safe."""
        if self.store is None:
            return
        arrays = joined(self._pending)
        if walk.failures.estimates and self._failures is not None:
            progress["failures"] = self._failures.write(walk.failures)
        self.store.append(
            arrays, to_arrays((walk.walker, walk.state)), walk_progress(walk) | progress
        )
        self._pending = []
        self._committed = time.perf_counter()

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything collected, `(chain, draw, ...)`."""
        self.chunks = [joined(self.chunks)] if self.chunks else []
        return self.chunks[0] if self.chunks else {}

    def reached(self, least: float) -> bool:
        """Whether every coordinate has that effective sample size; looked at now and then."""
        kept = sum(c["unconstrained"].shape[1] for c in self.chunks)
        if kept < self._next_look:
            return False
        self._next_look = int(1.2 * kept) + 1
        u = self.arrays()["unconstrained"]
        return all(ess_bulk(u[:, :, j]) >= least for j in range(u.shape[2]))


def joined(chunks: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Chunks one after the other along the draw axis."""
    if not chunks:
        return {}
    if len(chunks) == 1:
        return chunks[0]
    return {name: np.concatenate([c[name] for c in chunks], axis=1) for name in chunks[0]}


def walk_progress(walk: "Walk") -> dict[str, Any]:
    """What a resumed run must know besides the state."""
    return {
        "step": walk.step,
        "adapting": walk.adapting,
        "cost": walk.cost.to_dict(),
        "tallies": dict(walk.tallies.counts),
    }
