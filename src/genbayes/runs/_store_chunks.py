"""Full chunks of a run's arrays: ordinary Zarr chunk files, checked whenever they are read."""

from pathlib import Path

import google_crc32c
import numpy as np

from genbayes.runs import _store_files as files
from genbayes.runs._store_commit import Commit
from genbayes.runs._store_errors import CorruptedError, StoreValueError, explained
from genbayes.runs._store_json import to_json
from genbayes.runs._store_layout import ArraySpec

ARRAYS = "arrays.zarr"
_CHECKSUM = np.dtype("<u4")
_REMEDY = (
    "Expected that part of {name!r} as genbayes wrote it. The draws before number {draw} can still "
    "be read, by slices or with open(path, salvage=True); for the rest restore it from a copy."
)


def encode_chunk(spec: ArraySpec, block: np.ndarray) -> bytes:
    """The bytes of a Zarr chunk holding these draws, padded to full length, then its checksum."""
    if block.shape[1] < spec.rows:
        whole = np.zeros((spec.chains, spec.rows, *spec.event), block.dtype)
        whole[:, : block.shape[1]] = block
        block = whole
    data = block.tobytes()
    return data + np.array(google_crc32c.value(data), _CHECKSUM).tobytes()


def checksum_of(chunk: bytes) -> int:
    """The checksum at a chunk's end."""
    return int(np.frombuffer(chunk[-4:], _CHECKSUM)[0])


def extend(
    folder: Path, commit: Commit, layout: tuple[ArraySpec, ...], blocks: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Write the chunks that new draws fill; return the draws left over and all checksums.

    No chunk that the commit counts is touched, so until a record counts the new ones too they may
    be written as often as need be.
    """
    pending, checksums = {}, {}
    for spec in layout:
        sums = commit.checksums.get(spec.name, np.array([], _CHECKSUM))
        block = blocks.get(spec.name, spec.empty())
        if spec.name in commit.pending:
            block = np.concatenate([commit.pending[spec.name], block], axis=1)
        num_full = spec.full_chunks(block.shape[1])
        if num_full:
            sums = np.append(sums, _write_full(folder, spec, len(sums), block, num_full))
        # a copy, so that neither the caller nor the full chunks live on in it
        pending[spec.name] = block[:, num_full * spec.rows :].copy()
        checksums[spec.name] = sums
    return pending, checksums


def _write_full(
    folder: Path, spec: ArraySpec, first: int, block: np.ndarray, num_full: int
) -> np.ndarray:
    checksums = np.empty(num_full, _CHECKSUM)
    for i in range(num_full):
        chunk = encode_chunk(spec, block[:, i * spec.rows : (i + 1) * spec.rows])
        write_chunk(folder, spec, first + i, chunk)
        checksums[i] = checksum_of(chunk)
    sync_array(folder, spec)
    return checksums


def write_chunk(folder: Path, spec: ArraySpec, index: int, chunk: bytes) -> None:
    """Put a chunk on the disk; `sync_array` completes it."""
    path = chunk_path(folder, spec, index)
    with explained("write", path):
        files.write_file(path, chunk)


def chunk_path(folder: Path, spec: ArraySpec, index: int) -> Path:
    """Where a chunk lies."""
    return folder / ARRAYS / spec.name / spec.chunk_name(index)


def read_chunk(folder: Path, commit: Commit, spec: ArraySpec, index: int) -> bytes:
    """The bytes of a full chunk, checked against the commit record."""
    path = chunk_path(folder, spec, index)
    remedy = _REMEDY.format(name=spec.name, draw=index * spec.rows)
    chunk = files.read_file(path, remedy)
    expected = spec.rows * spec.row_bytes + 4
    if len(chunk) != expected:
        raise CorruptedError(path, f"has {len(chunk)} bytes, expected {expected}", remedy)
    found = google_crc32c.value(chunk[:-4])
    # the chunk's own checksum would not notice a chunk of another place or another run
    if not (found == checksum_of(chunk) == commit.checksums[spec.name][index]):
        raise CorruptedError(path, "does not match its checksum", remedy)
    return chunk


def read_block(folder: Path, commit: Commit, spec: ArraySpec, index: int) -> np.ndarray:
    """The draws of a full chunk, checked."""
    data = memoryview(read_chunk(folder, commit, spec, index))[:-4]
    return np.frombuffer(data, spec.empty().dtype).reshape(spec.chains, spec.rows, *spec.event)


def read_array(folder: Path, commit: Commit, spec: ArraySpec) -> np.ndarray:
    """All draws of one array."""
    out = spec.empty(commit.num_draws)
    start = 0
    for index in range(spec.full_chunks(commit.num_draws)):
        out[:, start : start + spec.rows] = read_block(folder, commit, spec, index)
        start += spec.rows
    out[:, start:] = commit.pending[spec.name]
    return out


def make_folders(folder: Path, layout: tuple[ArraySpec, ...]) -> None:
    """Make the folders of all arrays, durably."""
    with explained("write", folder / ARRAYS):
        for spec in layout:
            files.make_folder(folder / ARRAYS / spec.name)
    require_own_folders(folder, layout)


def require_own_folders(folder: Path, layout: tuple[ArraySpec, ...]) -> None:
    """Refuse to write where two arrays share a folder, or one lies elsewhere through a link."""
    root = folder.resolve() / ARRAYS
    paths = [root / spec.name for spec in layout]
    with explained("read", root):
        own = all(path.resolve() == path for path in paths)
        distinct = {(path.stat().st_dev, path.stat().st_ino) for path in paths}
    if not own or len(distinct) < len(paths):
        raise StoreValueError(
            f"the folders of {[spec.name for spec in layout]} under {root} are links, or two are "
            "the same. Expected one folder for each; remove the links, or where this disk does "
            "not tell capitals from small letters rename a parameter"
        )


def sync_array(folder: Path, spec: ArraySpec) -> None:
    """Make the names of an array's files durable."""
    path = folder / ARRAYS / spec.name
    with explained("write", path):
        files.sync_folder(path)


def publish(folder: Path, commit: Commit) -> None:
    """Complete the folder as a Zarr group that any other program can read.

    Genbayes itself reads none of what is written here: the chunk of the last draws (which the
    commit record holds) and Zarr's descriptions.
    """
    root = folder / ARRAYS
    with explained("write", root):
        for spec in commit.layout:
            if commit.pending[spec.name].size:
                chunk = encode_chunk(spec, commit.pending[spec.name])
                write_chunk(folder, spec, spec.full_chunks(commit.num_draws), chunk)
        for spec in commit.layout:
            _describe(root / spec.name, spec.zarr_metadata(commit.num_draws))
        groups = {parent for spec in commit.layout for parent in Path(spec.name).parents}
        for group in sorted(groups):
            _describe(root / group, {"zarr_format": 3, "node_type": "group", "attributes": {}})


def _describe(folder: Path, metadata: dict[str, object]) -> None:
    files.write_file(folder / "zarr.json", to_json(metadata, "zarr.json").encode())
