"""Durable file operations: every change the store makes to a disk goes through here.

A file appears under its name complete or not at all: it is written beside, flushed to the disk,
then renamed. The rename itself is durable once the folder has been flushed too.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

from genbayes.runs._store_errors import CorruptedError, explained

TEMPORARY = ".tmp"
# a link in a run received from a stranger must not lead a write, nor a read, out of the folder;
# a named pipe must not hang the reader
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Calls:
    """The system calls that change a disk, together so that a test can make any of them fail."""

    open = staticmethod(os.open)
    write = staticmethod(os.write)
    fsync = staticmethod(os.fsync)
    close = staticmethod(os.close)
    truncate = staticmethod(os.ftruncate)
    replace = staticmethod(os.replace)
    link = staticmethod(os.link)
    unlink = staticmethod(os.unlink)
    mkdir = staticmethod(os.mkdir)


calls = Calls()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`; one call of the system may take only a part of it."""
    view = memoryview(data)
    while view:
        view = view[calls.write(descriptor, view) :]


def write_file(path: Path, data: bytes) -> None:
    """Put the data under this name: all of it or no change.

    The content is on the disk when this returns; the name is once `sync_folder` has run on the
    folder. Raises `OSError`.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        descriptor = calls.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE, 0o666)
        try:
            write_all(descriptor, data)
            calls.fsync(descriptor)
        finally:
            calls.close(descriptor)
        calls.replace(temporary, path)
    except OSError:
        # give the space back: a full disk is the likeliest reason to be here
        remove(temporary)
        raise


def append_line(path: Path, line: str) -> None:
    """Append one line; a single write, so lines of two processes never mingle."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _SAFE
    with explained("write", path):
        descriptor = calls.open(path, flags, 0o666)
        try:
            write_all(descriptor, (line + "\n").encode())
        finally:
            calls.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file if that can be done; for clearing up only."""
    with contextlib.suppress(OSError):
        calls.unlink(path)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, durably; existing ones are kept."""
    if not path.parent.exists():
        make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        calls.mkdir(path)
    # also where the folder exists: the attempt that made it may have died before this line
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush a folder's list of names to the disk."""
    descriptor = calls.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        calls.fsync(descriptor)
    finally:
        calls.close(descriptor)


def read_file(path: Path, remedy: str) -> bytes:
    """Read a whole file, a plain one; `remedy` completes the error where that cannot be done."""
    try:
        descriptor = calls.open(path, os.O_RDONLY | _SAFE)
    except (FileNotFoundError, NotADirectoryError):
        raise CorruptedError(path, "is missing", remedy) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a symbolic link; a socket
            raise CorruptedError(path, "is not a plain file", remedy) from None
        with explained("read", path):
            raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CorruptedError(path, "is not a plain file", remedy)
        with explained("read", path), os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)
