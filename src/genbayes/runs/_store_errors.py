"""What can go wrong with a stored run: one family of errors, each saying what to do next."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class StoreError(RuntimeError):
    """Anything that goes wrong with a stored run; the errors below are all of this kind.

    >>> issubclass(LockedError, StoreError)
    True
    """


class StoreValueError(StoreError, ValueError):
    """What the caller passed does not fit the run: a name, a shape, a dtype, a value JSON lacks."""


class RunExistsError(StoreError):
    """The folder in which a run was to be created holds something already."""


class RunNotFoundError(StoreError):
    """There is no run in this folder."""


class LockedError(StoreError):
    """Another process writes to this run; `owner` says which (`pid`, `host`, `time`)."""

    def __init__(self, message: str, owner: dict[str, Any]):
        super().__init__(message)
        self.owner = owner


class NewerSchemaError(StoreError):
    """The run was written by a later genbayes, in a layout this one does not know."""


class CorruptedError(StoreError):
    """A file of the run is missing, truncated or altered; `path` says which one."""

    def __init__(self, path: Path, what: str, remedy: str):
        super().__init__(f"{path} {what}. {remedy}")
        self.path = path
        self.what = what


class ReadOnlyError(StoreError):
    """The run's folder does not let this process write."""


class DiskFullError(StoreError):
    """No space is left; what was committed stays readable and writing can go on later."""


class DiskError(StoreError):
    """The operating system refused a read or a write for any other reason."""


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def explained(verb: str, path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into the `StoreError` that says what to do.

    `verb` is what was being tried, "write" or "read".

    >>> try:
    ...     with explained("write", Path("runs/a")):
    ...         raise OSError(errno.ENOSPC, "No space left on device")
    ... except DiskFullError as error:
    ...     print(str(error)[:41])
    could not write runs/a: the disk is full.
    """
    try:
        yield
    except OSError as error:
        raise _translate(error, verb, path) from error


def _translate(error: OSError, verb: str, path: Path) -> StoreError:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFullError(
            f"could not {verb} {path}: the disk is full. Everything committed before is safe and "
            "readable; free some space, then repeat the call or resume the run."
        )
    if error.errno in _FORBIDDEN and verb == "write":
        return ReadOnlyError(
            f"could not write {path}: {reason}. Expected a folder this process may write to; "
            "change its permissions, copy the run elsewhere, or open it without write=True."
        )
    return DiskError(
        f"could not {verb} {path}: {reason}. Everything committed before is kept as it was; "
        "check the disk and its permissions, then repeat the call or resume the run."
    )
