"""JSON in and out of a run, strictly; and the manifest, which is JSON with a checksum."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c

from genbayes.runs._store_errors import CorruptedError, NewerSchemaError, StoreValueError, explained
from genbayes.runs._store_files import read_file, sync_folder, write_file

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
_FORMAT = "genbayes-run"
_REMEDY = (
    "Expected the manifest as genbayes wrote it; restore that file from a copy, or read the draws, "
    "which are kept apart, with open(path, salvage=True)."
)


def to_json(value: Any, what: str) -> str:
    """One line of standard JSON; refuses what JSON cannot hold, NaN among it.

    >>> to_json({"step": 3}, "progress")
    '{"step":3}'
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreValueError(
            f"{what} cannot be written as JSON: {error}. Expected dictionaries with text keys, "
            "lists, text, finite numbers, booleans and None; convert arrays with .tolist() and "
            "write a value that is not finite as text or None."
        ) from error


def plain_dict(value: Any, what: str) -> dict[str, Any]:
    """The value as JSON gives it back: tuples as lists, nothing shared with the caller."""
    value = dict(value) if isinstance(value, Mapping) else value
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise StoreValueError(
            f"{what} must be a dictionary with text keys, got {type(value).__name__}: {value!r:.80}"
        )
    return json.loads(to_json(value, what))


def require_schema(version: Any, path: Path, remedy: str) -> None:
    """Refuse what a later genbayes wrote, and what none has written."""
    if not isinstance(version, int) or version < 1:
        raise CorruptedError(path, f"has schema version {version!r}", remedy)
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"{path} has schema version {version}, expected at most {SCHEMA_VERSION}: the run was "
            "written by a newer genbayes. Upgrade genbayes to read it; the run was not touched."
        )


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest, at once and durably."""
    path = folder / MANIFEST
    content = {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "checksum": _checksum(manifest),
        "manifest": manifest,
    }
    with explained("write", path):
        write_file(path, json.dumps(content, indent=2).encode() + b"\n")
        sync_folder(folder)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest and check it against its checksum."""
    path = folder / MANIFEST
    data = read_file(path, _REMEDY)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptedError(path, f"is not JSON ({error})", _REMEDY) from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise CorruptedError(path, "is not the manifest of a run", _REMEDY)
    require_schema(content.get("schema_version"), path, _REMEDY)
    manifest = content.get("manifest")
    if not isinstance(manifest, dict) or content.get("checksum") != _checksum(manifest):
        raise CorruptedError(path, "does not match its checksum", _REMEDY)
    return manifest


def _checksum(manifest: dict[str, Any]) -> str:
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return f"crc32c:{google_crc32c.value(canonical.encode()):08x}"
