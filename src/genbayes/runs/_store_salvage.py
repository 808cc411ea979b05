"""What is left of a damaged run: the last readable record, and the draws before the damage."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from genbayes.runs._store_chunks import read_block
from genbayes.runs._store_commit import COMMIT, PREVIOUS, Commit, read_commit
from genbayes.runs._store_errors import CorruptedError, DiskError
from genbayes.runs._store_json import read_manifest
from genbayes.runs._store_layout import ArraySpec

_DAMAGE = (CorruptedError, DiskError)


@dataclass(frozen=True)
class Salvaged:
    """The manifest (empty if lost), the longest intact prefix of the draws, what was damaged.

    `whole`: the draws are all those of a commit, so its state still follows them.
    """

    manifest: dict[str, Any]
    commit: Commit
    damage: tuple[str, ...]
    whole: bool


def salvage(folder: Path) -> Salvaged:
    """Find what is intact; reads the whole run."""
    damage: list[str] = []
    manifest: dict[str, Any] = {}
    try:
        manifest = read_manifest(folder)
    except _DAMAGE as error:
        damage.append(str(error))
    commit = _last_commit(folder, damage)
    intact, found = find_damage(folder, commit)
    damage.extend(str(error) for error in found)
    kept = _truncate(folder, commit, intact) if found else commit
    return Salvaged(manifest, kept, tuple(damage), whole=not found)


def find_damage(folder: Path, commit: Commit) -> tuple[int, list[CorruptedError | DiskError]]:
    """Read every chunk; return how many draws precede all damage, and the damage."""
    intact, damage = commit.num_draws, []
    for spec in commit.layout:
        for index in range(spec.full_chunks(commit.num_draws)):
            try:
                read_block(folder, commit, spec, index)
            except _DAMAGE as error:
                intact = min(intact, index * spec.rows)
                damage.append(error)
    return intact, damage


def _last_commit(folder: Path, damage: list[str]) -> Commit:
    try:
        return read_commit(folder)
    except _DAMAGE as error:
        damage.append(str(error))
    try:
        return read_commit(folder, PREVIOUS)
    except _DAMAGE as error:
        raise CorruptedError(
            folder / COMMIT,
            "cannot be read, and neither can the record of the commit before",
            f"{' '.join(damage)} {error} Nothing says what the run held; restore it from a copy.",
        ) from None


def _truncate(folder: Path, commit: Commit, num_draws: int) -> Commit:
    cut = {spec.name: spec.full_chunks(num_draws) for spec in commit.layout}
    return replace(
        commit,
        num_draws=num_draws,
        pending={s.name: _pending(folder, commit, s, num_draws) for s in commit.layout},
        checksums={name: commit.checksums[name][:num] for name, num in cut.items()},
    )


def _pending(folder: Path, commit: Commit, spec: ArraySpec, num_draws: int) -> np.ndarray:
    """The draws between the last full chunk and the cut."""
    index = spec.full_chunks(num_draws)
    rest = num_draws - index * spec.rows
    if index < spec.full_chunks(commit.num_draws):
        return read_block(folder, commit, spec, index)[:, :rest] if rest else spec.empty()
    return commit.pending[spec.name][:, :rest]
