"""A run kept in a folder, so that no crash can spoil it and nothing in it needs to be trusted.

The folder holds `manifest.json` (what is being run), `commit` (the last commit: state, progress,
the latest draws, checksums), `arrays.zarr` (the draws), `log.txt` and `lock`. Draws, state and
progress change together, when a new commit record is renamed over the old one.
"""

import contextlib
import copy
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from genbayes.runs import _store_files as files
from genbayes.runs._lock import LOCK, RunLock, now
from genbayes.runs._store_chunks import (
    extend,
    make_folders,
    publish,
    read_array,
    require_own_folders,
)
from genbayes.runs._store_commit import COMMIT, Commit, is_current, read_commit, write_commit
from genbayes.runs._store_errors import (
    CorruptedError,
    RunExistsError,
    RunNotFoundError,
    StoreError,
    StoreValueError,
    explained,
)
from genbayes.runs._store_failures import read_lines
from genbayes.runs._store_json import MANIFEST, plain_dict, read_manifest, write_manifest
from genbayes.runs._store_layout import as_storable, check_fits, check_together, plan, text_name
from genbayes.runs._store_salvage import Salvaged, find_damage
from genbayes.runs._store_salvage import salvage as salvage_run

if TYPE_CHECKING:
    import zarr

LOG = "log.txt"


class RunStore:
    """A run in a folder: append draws with the state that led to them, read them at any time.

    Made by `RunStore.create` or `RunStore.open`. A reader sees the run as it was when it opened it
    (`refresh` looks again), whatever a writer does meanwhile.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with RunStore.create(f"{folder.name}/run", {"seed": 0}) as store:
    ...     draws = np.arange(6.0).reshape(1, 3, 2)  # (chain, draw, ...)
    ...     store.append({"draws/A": draws}, {"position": draws[:, -1]}, {"step": 3})
    >>> run = RunStore.open(f"{folder.name}/run")
    >>> run.num_draws, run.progress, run.read("draws/A")[0, -1]
    (3, {'step': 3}, array([4., 5.]))
    >>> folder.cleanup()
    """

    def __init__(
        self, path: Path, manifest: dict[str, Any], commit: Commit, lock: RunLock | None = None
    ):
        """Private: use `create` or `open`."""
        self.path = path
        self.damage: tuple[str, ...] = ()
        self._manifest = manifest
        self._commit = commit
        self._lock = lock
        self._doubtful = False

    # -- making and opening

    @classmethod
    def create(cls, path: str | Path, manifest: Mapping[str, Any]) -> Self:
        """Begin a run in a new or empty folder, and become its writer.

        `manifest` is anything JSON can hold; it says what is being run.
        """
        path = Path(path)
        content = plain_dict(manifest, "the manifest")
        with explained("write", path):
            _require_vacant(path)
            files.make_folder(path)
        lock = RunLock(path)
        try:
            # again, now that nobody else can be creating it
            _require_vacant(path)
            # the manifest comes last: with it, the run exists
            write_commit(path, Commit())
            write_manifest(path, content)
        except BaseException:
            lock.release()
            raise
        return cls(path, content, Commit(), lock)

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False, salvage: bool = False) -> Self:
        """Open a run to read it, or with `write` to go on with it.

        `salvage` reads a damaged run up to the damage, which `damage` then describes. It checks
        every byte, where a plain opening checks each chunk of draws when it is read.
        """
        path = Path(path)
        _require_run(path)
        if not write:
            return cls._load(path, salvage, None)
        if not salvage:
            read_manifest(path)  # a run of a newer genbayes is not to be touched, not even locked
        lock = RunLock(path)
        try:
            store = cls._load(path, salvage, lock)
            if lock.taken_over is not None:
                store.log(f"took over the lock of {lock.taken_over}, which ended without closing")
        except BaseException:
            lock.release()
            raise
        return store

    @classmethod
    def _load(cls, path: Path, salvage: bool, lock: RunLock | None) -> Self:
        if salvage:
            found = salvage_run(path)
            store = cls(path, found.manifest, found.commit, lock)
            store.damage = found.damage
            if lock is not None:
                _repair(path, found)
        else:
            store = cls(path, read_manifest(path), read_commit(path), lock)
        if lock is not None:
            require_own_folders(path, store._commit.layout)
        return store

    def refresh(self) -> None:
        """Look again: see what a writer has committed since this run was opened."""
        self._manifest, self._commit = read_manifest(self.path), read_commit(self.path)

    # -- what is read

    @property
    def manifest(self) -> dict[str, Any]:
        """What is being run; a copy, changed by `update_manifest` alone."""
        return copy.deepcopy(self._manifest)

    @property
    def progress(self) -> dict[str, Any]:
        """What the last commit recorded beside its draws; a copy."""
        return copy.deepcopy(self._commit.progress)

    @property
    def num_draws(self) -> int:
        """Draws committed for each chain."""
        return self._commit.num_draws

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that the last commit recorded beside its draws; copies."""
        return {name: array.copy() for name, array in self._commit.state.items()}

    def arrays(self) -> "dict[str, zarr.Array]":
        """The committed draws by name, `(chain, draw, ...)`, read from the disk when indexed."""
        # Zarr takes a third of a second to import, and neither writing nor `read` needs it
        from genbayes.runs._store_view import CommittedView

        return CommittedView(self.path, self._commit).arrays()

    def read(self, name: str) -> np.ndarray:
        """All committed draws of one array, `(chain, draw, ...)`."""
        for spec in self._commit.layout:
            if spec.name == name:
                return read_array(self.path, self._commit, spec)
        names = sorted(spec.name for spec in self._commit.layout)
        raise StoreValueError(f"{self.path} has no array {name!r}, expected one of {names}")

    def verify(self) -> None:
        """Read every byte of the run and raise what `open` and `read` would of any damage."""
        read_manifest(self.path)
        _, damage = find_damage(self.path, self._commit)
        if damage:
            raise damage[0]
        read_lines(self.path, self.progress)

    # -- what is written

    def append(
        self,
        arrays: Mapping[str, npt.ArrayLike],
        state: Mapping[str, npt.ArrayLike],
        progress: Mapping[str, Any],
    ) -> None:
        """Commit draws, state and progress together; they are on the disk when this returns.

        `arrays` are `(chain, k, ...)`, the same chains and `k` for all; the first call fixes their
        names, dtypes and shapes, later ones bring all of them or none. After an error nothing has
        been committed, and the call may be repeated; where the disk failed in the very moment of
        the commit the next call says that the run must be opened again.
        """
        self._require_writer()
        blocks = {name: as_storable(name, value) for name, value in arrays.items()}
        num_new = check_together(blocks)
        layout = self._commit.layout
        if layout:
            check_fits(blocks, layout)
        elif blocks:
            layout = plan(blocks)
        kept = {text_name(name): as_storable(name, value).copy() for name, value in state.items()}
        recorded = plain_dict(progress, "the progress")
        if layout != self._commit.layout:
            make_folders(self.path, layout)
        pending, checksums = extend(self.path, self._commit, layout, blocks)
        total = self._commit.num_draws + num_new
        self._replace_commit(Commit(total, recorded, layout, kept, pending, checksums))

    def _replace_commit(self, commit: Commit) -> None:
        # should this be interrupted, or fail after the renaming, then the disk may be ahead of
        # this object, and writing on from here would spoil chunks that the disk's record counts
        self._doubtful = True
        try:
            write_commit(self.path, commit)
        except StoreError:
            self._doubtful = not is_current(self.path, self._commit)
            raise
        self._commit = commit
        self._doubtful = False

    def update_manifest(self, **changes: Any) -> None:
        """Set entries of the manifest, all at once and durably."""
        self._require_writer()
        manifest = {**self._manifest, **plain_dict(changes, "the manifest")}
        write_manifest(self.path, manifest)
        self._manifest = manifest

    def log(self, message: str) -> None:
        """Append one line, with the time, to `log.txt`."""
        self._require_writer()
        files.append_line(self.path / LOG, f"{now()} {' '.join(message.splitlines())}")

    # -- letting go

    def close(self) -> None:
        """Release the lock; reading goes on to work. A second call does nothing.

        A writer also completes the copy of the last draws that other Zarr programs read. Where
        that fails (a full disk, most likely) a line of the log says so; genbayes needs no copy.
        """
        if self._lock is None:
            return
        try:
            if not self._doubtful:
                publish(self.path, self._commit)
        except StoreError as error:
            with contextlib.suppress(StoreError):
                self.log(f"other programs may not see the last draws: {error}")
        finally:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del kind, error, traceback
        self.close()

    def __repr__(self) -> str:
        mode = "read" if self._lock is None else "write"
        return f"RunStore({str(self.path)!r}, num_draws={self.num_draws}, mode={mode!r})"

    def _require_writer(self) -> None:
        if self._lock is None:
            raise StoreError(
                f"{self.path} was opened to be read, or has been closed. Expected a run opened "
                "with RunStore.open(path, write=True)"
            )
        if self._doubtful:
            raise StoreError(
                f"the last commit to {self.path} was cut short, and only the disk knows whether it "
                "was kept. Close this store and open the run again with "
                "RunStore.open(path, write=True); nothing committed before is lost"
            )


def _require_run(path: Path) -> None:
    with explained("read", path):
        # a run that is being created has its first record before its manifest
        found = (path / MANIFEST).exists() or ((path / COMMIT).exists() and not _is_fresh(path))
    if not found:
        raise RunNotFoundError(
            f"{path} holds no run. Expected a folder with {MANIFEST} and {COMMIT}, as made by "
            "genbayes; check the path"
        )


def _require_vacant(path: Path) -> None:
    """Refuse a folder with anything in it but what a creation that was cut short leaves."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunExistsError(f"{path} is a file. Expected a new or empty folder; give another path")
    names = {entry.name for entry in path.iterdir()}
    if MANIFEST in names or (COMMIT in names and not _is_fresh(path)):
        raise RunExistsError(
            f"{path} already holds a run. Resume it with genbayes.resume({str(path)!r}), or give "
            "another path for a new one"
        )
    left_over = {LOCK, COMMIT, COMMIT + files.TEMPORARY, MANIFEST + files.TEMPORARY}
    if names - left_over:
        raise RunExistsError(
            f"{path} holds no run, but it holds {', '.join(sorted(names)[:3])}. Expected a new "
            "or empty folder; give another path"
        )


def _is_fresh(path: Path) -> bool:
    try:
        return read_commit(path).fresh
    except StoreError:
        return False


def _repair(path: Path, found: Salvaged) -> None:
    """Make a salvaged run fit to be gone on with, if its state still follows its draws."""
    if not found.whole:
        raise CorruptedError(
            path,
            f"has lost draws in its midst, so nothing can follow them: {' '.join(found.damage)}",
            "Expected whole draws to write after; open it without write=True to read those that "
            "are intact, and begin a new run to go on.",
        )
    # the damaged record must not take the place of the intact one before it
    write_commit(path, found.commit, keep_previous=False)
