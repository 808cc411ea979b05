"""The commit record: one file that says all a run holds, and whose renaming is the commit.

It carries the sampler's state, the progress, the draws that do not yet fill a chunk, and the
checksum of every full chunk. Chunks it counts are never written again, so a reader who has read
this one file sees one moment of the run however long it reads.

    genbayes-commit <schema version> <crc32c of the rest> <length of the rest>\\n
    {"num_draws": ..., "progress": {...}, "layout": [...], "parts": [...]}\\n
    the parts, little-endian, one after the other
"""

import errno
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from genbayes.runs import _store_files as files
from genbayes.runs._store_errors import CorruptedError, StoreError, explained
from genbayes.runs._store_json import SCHEMA_VERSION, require_schema, to_json
from genbayes.runs._store_layout import ArraySpec, check_names, little_endian

COMMIT = "commit"
PREVIOUS = "commit.previous"
_MAGIC = b"genbayes-commit"
_REMEDY = (
    "Expected the commit record as genbayes wrote it; restore that file from a copy, or read what "
    "is intact, up to the commit before, with open(path, salvage=True)."
)
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


@dataclass(frozen=True)
class Commit:
    """All a run holds at one moment; arrays by name."""

    num_draws: int = 0
    progress: dict[str, Any] = field(default_factory=dict)
    layout: tuple[ArraySpec, ...] = ()
    state: dict[str, np.ndarray] = field(default_factory=dict)
    pending: dict[str, np.ndarray] = field(default_factory=dict)  # draws after the last full chunk
    checksums: dict[str, np.ndarray] = field(default_factory=dict)  # of each full chunk

    @property
    def fresh(self) -> bool:
        """Whether nothing was ever committed."""
        return not (self.layout or self.state or self.progress)


def write_commit(folder: Path, commit: Commit, *, keep_previous: bool = True) -> None:
    """Make this the state of the run: when it returns the commit is on the disk."""
    path = folder / COMMIT
    with explained("write", path):
        if keep_previous:
            _keep_previous(folder)
        files.write_file(path, _encode(commit))
        files.sync_folder(folder)


def is_current(folder: Path, commit: Commit) -> bool:
    """Whether the record on the disk is this one; False too where it cannot be read."""
    try:
        return files.read_file(folder / COMMIT, _REMEDY) == _encode(commit)
    except StoreError:
        return False


def _keep_previous(folder: Path) -> None:
    """Give the record about to be replaced a second name, for salvage only."""
    files.remove(folder / PREVIOUS)
    try:
        files.calls.link(folder / COMMIT, folder / PREVIOUS)
    except (FileNotFoundError, FileExistsError):
        return  # the first commit
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise


def _encode(commit: Commit) -> bytes:
    parts = [
        (kind, name, array)
        for kind in ("state", "pending", "checksums")
        for name, array in getattr(commit, kind).items()
    ]
    header = {
        "num_draws": commit.num_draws,
        "progress": commit.progress,
        "layout": [[s.name, s.dtype, s.chains, list(s.event), s.rows] for s in commit.layout],
        "parts": [[kind, name, a.dtype.name, list(a.shape)] for kind, name, a in parts],
    }
    line = to_json(header, "the commit record").encode() + b"\n"
    body = b"".join([line, *(array.tobytes() for _, _, array in parts)])
    checksum = google_crc32c.value(body)
    return b"%s %d %08x %d\n" % (_MAGIC, SCHEMA_VERSION, checksum, len(body)) + body


def read_commit(folder: Path, name: str = COMMIT) -> Commit:
    """Read the record and check it against its checksum."""
    path = folder / name
    data = files.read_file(path, _REMEDY)
    preamble, _, body = data.partition(b"\n")
    words = preamble.split(b" ")
    if len(words) != 4 or words[0] != _MAGIC or not words[1].isdigit():
        raise CorruptedError(path, "is not a commit record", _REMEDY)
    require_schema(int(words[1]), path, _REMEDY)
    if words[2:] != [b"%08x" % google_crc32c.value(body), b"%d" % len(body)]:
        raise CorruptedError(path, "does not match its checksum", _REMEDY)
    try:
        return _decode(body)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        # the checksum holds, so this record was made by hand
        raise CorruptedError(path, f"cannot be understood ({error!r:.200})", _REMEDY) from None


def _decode(body: bytes) -> Commit:
    line, _, payload = body.partition(b"\n")
    header = json.loads(line)
    layout = tuple(
        ArraySpec(name, dtype, _size(chains, 1), tuple(map(_size, event)), _size(rows, 1))
        for name, dtype, chains, event, rows in header["layout"]
    )
    parts: dict[str, dict[str, np.ndarray]] = {"state": {}, "pending": {}, "checksums": {}}
    for kind, name, array in _cut(header["parts"], payload):
        parts[kind][name] = array
    commit = Commit(_size(header["num_draws"]), dict(header["progress"]), layout, **parts)
    _check_consistent(commit)
    return commit


def _size(value: Any, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is not a size of at least {least}")
    return value


def _cut(parts: list[Any], payload: bytes) -> Iterator[tuple[str, str, np.ndarray]]:
    offset = 0
    for kind, name, dtype_name, shape in parts:
        dtype = little_endian(dtype_name)
        flat = np.frombuffer(payload, dtype, prod(map(_size, shape)), offset)
        offset += flat.nbytes
        yield kind, name, flat.reshape(shape).copy()
    if offset != len(payload):
        raise ValueError(f"{len(payload) - offset} bytes beyond the last part")


def _check_consistent(commit: Commit) -> None:
    """Refuse a record whose parts contradict each other, or whose names lead out of the folder."""
    check_names({spec.name: None for spec in commit.layout})
    for spec in commit.layout:
        num_full = spec.full_chunks(commit.num_draws)
        rest = commit.num_draws - num_full * spec.rows
        pending, checksums = commit.pending[spec.name], commit.checksums[spec.name]
        expected = (spec.dtype, (spec.chains, rest, *spec.event), "uint32", (num_full,))
        got = (pending.dtype.name, pending.shape, checksums.dtype.name, checksums.shape)
        if got != expected:
            raise ValueError(f"array {spec.name!r} has parts {got}, expected {expected}")
