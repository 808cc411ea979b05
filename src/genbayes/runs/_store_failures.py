"""Failures of the simulator on disk: lines of JSON, of which the commit record says how many count.

They are appended before the commit that counts them. What a crash leaves beyond is written over by
whoever goes on, so that a resumed run has each failure once.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import google_crc32c

from genbayes.runs import _store_files as files
from genbayes.runs._store_errors import CorruptedError, explained

if TYPE_CHECKING:
    from genbayes.problem import Failures

FAILURES = "failures.jsonl"
_REMEDY = (
    "Expected it as genbayes wrote it: restore that file from a copy; the draws are not in it."
)


class FailureFile:
    """The failures that a run has written so far."""

    def __init__(self, folder: Path, progress: dict[str, Any]):
        known = progress.get("failures", {})
        self._path = folder / FAILURES
        self._written, self._bytes = known.get("kept", 0), known.get("bytes", 0)
        self._checksum = known.get("crc32c", 0)

    def write(self, failures: "Failures") -> dict[str, Any]:
        """Append what is new; gives what the commit that counts it must record.

        Until that commit nothing counts: a call that failed may be repeated.
        """
        lines = [json.dumps(failure.to_dict()) + "\n" for failure in failures[self._written :]]
        data = "".join(lines).encode()
        recorded = {
            "kept": len(failures),
            "bytes": self._bytes + len(data),
            "crc32c": google_crc32c.extend(self._checksum, data),
        }
        if data:
            with explained("write", self._path):
                _write_at(self._path, self._bytes, data)
            self._written, self._bytes, self._checksum = recorded.values()
        return recorded | failures.counts()


def _write_at(path: Path, position: int, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = files.calls.open(path, flags, 0o666)
    try:
        files.calls.truncate(descriptor, position)
        os.lseek(descriptor, position, os.SEEK_SET)
        files.write_all(descriptor, data)
        files.calls.fsync(descriptor)
    finally:
        files.calls.close(descriptor)


def read_lines(folder: Path, progress: dict[str, Any]) -> list[dict[str, Any]]:
    """The failures that the last commit counts, as plain data."""
    known = progress.get("failures")
    if not known or not known["bytes"]:
        return []
    path = folder / FAILURES
    data = files.read_file(path, _REMEDY)[: known["bytes"]]
    if google_crc32c.value(data) != known["crc32c"]:
        raise CorruptedError(path, "does not match its checksum", _REMEDY)
    return [json.loads(line) for line in data.decode().splitlines()]


def read_failures(folder: Path, progress: dict[str, Any]) -> "Failures":
    """The failures that the last commit counts."""
    from genbayes.problem import Failure, Failures  # the store by itself does without JAX

    known = progress.get("failures")
    if not known:
        return Failures()
    kept = [Failure(**line) for line in read_lines(folder, progress)]
    return Failures(kept, known["estimates"], known["lost"], known["total"])
