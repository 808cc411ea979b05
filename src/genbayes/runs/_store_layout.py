"""How the arrays of a run lie on the disk: names, dtypes, chunks, and Zarr's own description."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from genbayes.runs._store_errors import StoreValueError

# Rows that do not fill a chunk are written again with every commit, so together they must stay
# small: this many bytes are one or two milliseconds of a commit, and a run of a gigabyte has
# about a thousand chunks.
PENDING_BYTES = 1 << 20

_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_PART = re.compile(r"[^\W.][\w .+\-\[\],]{0,99}")


def as_storable(name: str, value: npt.ArrayLike) -> np.ndarray:
    """The value as a C-ordered little-endian array of a dtype that is a plain number."""
    array = np.asarray(value)
    if array.dtype.name not in _DTYPES:
        raise StoreValueError(
            f"array {name!r} has dtype {array.dtype}, expected one of {', '.join(_DTYPES)}; "
            "convert it with .astype"
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def text_name(name: object) -> str:
    """The name of a state's array, which is never a path and so may be any text."""
    if not isinstance(name, str):
        raise StoreValueError(f"the state has the name {name!r}, expected text")
    return name


def little_endian(dtype: str) -> np.dtype:
    """The dtype of this name as it lies on the disk; `KeyError` for names never written."""
    if dtype not in _DTYPES:
        raise KeyError(dtype)
    return np.dtype(dtype).newbyteorder("<")


@dataclass(frozen=True)
class ArraySpec:
    """One array of the run, `(chains, draws, *event)`, cut into chunks of `rows` draws."""

    name: str
    dtype: str
    chains: int
    event: tuple[int, ...]
    rows: int

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The shape of a chunk; Zarr wants no zeros in it."""
        return (self.chains, self.rows, *(max(1, size) for size in self.event))

    @property
    def row_bytes(self) -> int:
        """Bytes of one draw of all chains."""
        return self.chains * prod(self.event) * little_endian(self.dtype).itemsize

    def full_chunks(self, num_draws: int) -> int:
        """How many chunks this many draws fill."""
        return num_draws // self.rows if self.row_bytes else 0

    def empty(self, num_draws: int = 0) -> np.ndarray:
        """An array of this kind, its values not set."""
        return np.empty((self.chains, num_draws, *self.event), little_endian(self.dtype))

    def chunk_name(self, index: int) -> str:
        """The file of a chunk, within the folder of the array."""
        return ".".join(["c", "0", str(index), *("0" for _ in self.event)])

    def zarr_metadata(self, num_draws: int) -> dict[str, Any]:
        """What Zarr calls `zarr.json`, for this many draws."""
        leaf = self.name.rsplit("/", 1)[-1]
        events = [f"{leaf}_dim_{axis}" for axis in range(len(self.event))]
        chunk = {"chunk_shape": list(self.chunk_shape)}
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [self.chains, num_draws, *self.event],
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": chunk},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": _fill_value(self.dtype),
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "attributes": {},
            "dimension_names": ["chain", "draw", *events],
        }


def _fill_value(dtype: str) -> Any:
    kind = np.dtype(dtype).kind
    return {"b": False, "f": 0.0, "c": [0.0, 0.0]}.get(kind, 0)


def plan(arrays: Mapping[str, np.ndarray]) -> tuple[ArraySpec, ...]:
    """The layout that the first arrays of a run fix for all that follow."""
    check_names(arrays)
    share = PENDING_BYTES // max(1, len(arrays))
    specs = []
    for name, array in arrays.items():
        row_bytes = array.itemsize * array.shape[0] * prod(array.shape[2:])
        rows = 1 << max(0, (share // max(1, row_bytes)).bit_length() - 1)
        spec = ArraySpec(name, array.dtype.name, array.shape[0], array.shape[2:], max(1, rows))
        specs.append(spec)
    return tuple(specs)


def check_names(names: Mapping[str, Any]) -> None:
    """Names become folders: refuse any that could lead elsewhere or into one another."""
    for name in names:
        parts = name.split("/") if isinstance(name, str) else []
        if not parts or not all(_PART.fullmatch(part) and part != "zarr.json" for part in parts):
            raise StoreValueError(
                f"array name {name!r} cannot be stored. Expected words such as 'draws/A', parted "
                "by '/': letters, digits and _ . - + , [ ] or spaces, at most 100 each, the first "
                "a letter, digit or _; rename the parameter"
            )
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            if parent in names:
                raise StoreValueError(
                    f"array name {name!r} lies inside another array, {parent!r}; rename one of them"
                )


def check_together(blocks: Mapping[str, np.ndarray]) -> int:
    """Check that the arrays of one append agree on chains and draws; return their draws."""
    shapes = {name: block.shape for name, block in blocks.items()}
    for name, shape in shapes.items():
        if len(shape) < 2 or shape[0] < 1:
            raise StoreValueError(f"array {name!r} has shape {shape}, expected (chain, draw, ...)")
    leading = {shape[:2] for shape in shapes.values()}
    if len(leading) > 1:
        raise StoreValueError(
            f"arrays of one append must agree on (chain, draw), got {shapes}; append them together"
        )
    return leading.pop()[1] if leading else 0


def check_fits(blocks: Mapping[str, np.ndarray], layout: tuple[ArraySpec, ...]) -> None:
    """Check that arrays are those the first append fixed; no arrays at all always fit."""
    expected = {spec.name: spec for spec in layout}
    if blocks and set(blocks) != set(expected):
        raise StoreValueError(
            f"got arrays {sorted(blocks)}, expected {sorted(expected)} as in the first append; "
            "append all of them every time, or none"
        )
    for name, block in blocks.items():
        spec = expected[name]
        got = (block.dtype.name, block.shape[0], block.shape[2:])
        if got != (spec.dtype, spec.chains, spec.event):
            raise StoreValueError(
                f"array {name!r} has dtype {got[0]} and shape {block.shape}, expected {spec.dtype} "
                f"and {(spec.chains, 'k', *spec.event)} as in the first append"
            )
