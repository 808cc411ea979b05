"""One writer to a run: a lock that the system frees when its owner dies.

The lock is `flock` on the file `lock` of the run's folder. The file's text only says who holds it;
it is emptied when the owner lets go, so text under a free lock is that of an owner who was killed.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from genbayes.runs import _store_files as files
from genbayes.runs._store_errors import LockedError, StoreError, explained

LOCK = "lock"
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


def now() -> str:
    """The time, to the second, with its zone: what locks and logs are stamped with."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class RunLock:
    """The right to write to one run, held until `release` or the end of this process.

    `taken_over` says whose lock this was where its owner died without letting go, else None.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = RunLock(Path(folder))
    ...     lock.release()
    """

    def __init__(self, folder: Path):
        self.path = folder / LOCK
        self.taken_over: str | None = None
        with explained("write", self.path):
            self._descriptor: int | None = _open_locked(self.path)
            try:
                self._claim()
            except BaseException:
                files.calls.close(self._descriptor)
                raise

    def _claim(self) -> None:
        assert self._descriptor is not None
        owner = _read_owner(self._descriptor)
        host = socket.gethostname()
        if owner.get("host", host) != host:
            # `flock` need not reach across machines, so a lock left on another one may be alive
            raise LockedError(
                f"{self.path.parent} is being written by {_describe(owner)}, or that process died "
                "without letting go, which cannot be told from this machine. Expected a free run; "
                f"make sure the process has ended, then delete {self.path}.",
                owner,
            )
        if owner:
            self.taken_over = _describe(owner)
        files.calls.truncate(self._descriptor, 0)
        text = json.dumps({"pid": os.getpid(), "host": host, "time": now()})
        files.write_all(self._descriptor, text.encode())

    def release(self) -> None:
        """Let go; calling it again does nothing."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        # failing to empty the text costs the next owner one line of log; closing frees the lock
        with contextlib.suppress(OSError):
            files.calls.truncate(descriptor, 0)
        with contextlib.suppress(OSError):
            files.calls.close(descriptor)


def _open_locked(path: Path) -> int:
    """Open the lock file and lock it; again if somebody deleted the file in between."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        descriptor = files.calls.open(path, flags, 0o666)
        try:
            _lock(descriptor, path)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            files.calls.close(descriptor)
            raise
        files.calls.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _read_owner(descriptor)
        raise LockedError(
            f"{path.parent} is being written by {_describe(owner)}. Expected a run nobody writes "
            "to; wait for that process, stop it, or open the run without write=True to read it.",
            owner,
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise StoreError(
            f"the file system of {path.parent} has no file locks ({error.strerror}), so two "
            "processes could spoil the run; keep the run on a local disk."
        ) from error


def _read_owner(descriptor: int) -> dict[str, Any]:
    """Who the lock file names; empty where it names nobody, or is not readable as JSON."""
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _describe(owner: dict[str, Any]) -> str:
    if not owner:
        return "another process (its lock file does not say which)"
    fields = (owner.get(field, "unknown") for field in ("pid", "host", "time"))
    return "process {} on {} (since {})".format(*fields)
