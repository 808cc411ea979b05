"""A committed moment of a run as a read-only Zarr store, which checks every byte it hands out.

Zarr takes a chunk that is not there for one of zeros; here it is an error. The chunk of the last
draws comes from the commit record, whatever lies on the disk in its place.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import zarr
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import StorePath

from genbayes.runs._store_chunks import encode_chunk, read_chunk
from genbayes.runs._store_commit import Commit
from genbayes.runs._store_layout import ArraySpec

_KEY = re.compile(r"(.+)/c\.0\.([0-9]+)[.0]*")


class CommittedView(Store):
    """The chunks of one commit, for Zarr to read."""

    def __init__(self, folder: Path, commit: Commit):
        super().__init__(read_only=True)
        self._folder = folder
        self._commit = commit
        self._specs = {spec.name: spec for spec in commit.layout}

    @property
    def supports_writes(self) -> bool:
        """Never: runs are written by `RunStore.append` alone."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """Never."""
        return False

    @property
    def supports_listing(self) -> bool:
        """No need: `arrays` knows the names."""
        return False

    def arrays(self) -> dict[str, zarr.Array]:
        """The arrays of the run; nothing is read before they are indexed."""
        return {name: self._array(spec) for name, spec in self._specs.items()}

    def _array(self, spec: ArraySpec) -> zarr.Array:
        metadata = ArrayV3Metadata.from_dict(spec.zarr_metadata(self._commit.num_draws))
        return zarr.Array(zarr.AsyncArray(metadata, StorePath(self, path=spec.name)))

    def chunk(self, key: str) -> bytes | None:
        """The bytes under a key as Zarr expects them, checksum included."""
        match = _KEY.fullmatch(key)
        if match is None or match[1] not in self._specs:
            return None
        spec, index = self._specs[match[1]], int(match[2])
        if index < spec.full_chunks(self._commit.num_draws):
            return read_chunk(self._folder, self._commit, spec, index)
        return encode_chunk(spec, self._commit.pending[spec.name])

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read one chunk; parts of chunks are never asked for, as the checksum needs the whole."""
        if byte_range is not None:
            raise NotImplementedError("chunks of a run are read whole")
        data = await asyncio.to_thread(self.chunk, key)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Read several chunks."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether a chunk can be read."""
        return await asyncio.to_thread(self.chunk, key) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse."""
        del key, value
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Refuse."""
        del key
        self._check_writable()

    async def list(self) -> AsyncIterator[str]:
        """Nothing is listed; see `supports_listing`."""
        for key in ():
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Nothing is listed."""
        del prefix
        for key in ():
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Nothing is listed."""
        del prefix
        for key in ():
            yield key

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = Store.__hash__
