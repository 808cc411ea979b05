"""Results of cells on disk: computed once, written whole or not at all."""

import os
import zipfile
from pathlib import Path

import numpy as np

from ._experiment import Result


def path_of(folder: Path, cell: str) -> Path:
    """The file of a cell."""
    return folder / f"{cell}.npz"


def read(folder: Path, cell: str, fingerprint: str) -> Result | None:
    """What was kept of a cell, if it is intact and was computed from the same things."""
    path = path_of(folder, cell)
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if str(file["fingerprint"]) != fingerprint:
                return None
            return {name: file[name] for name in file.files if name != "fingerprint"}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None  # absent or damaged: to be computed


def write(folder: Path, cell: str, fingerprint: str, result: Result) -> None:
    """Keep a result; a reader sees the old file or the new one, never half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, cell)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    with unfinished.open("wb") as file:
        np.savez_compressed(file, fingerprint=np.array(fingerprint), **result)  # pyright: ignore
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
