"""The target that a user's file defines."""

import hashlib
import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import genbayes as gb

from ._errors import CommandError, UsageError

DEFAULT = "target"
_SPELLING = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^\W\d]\w*))?")


class Loaded(NamedTuple):
    """A target, and where it came from."""

    target: gb.ScorePosterior
    file: Path
    name: str

    def notes(self) -> dict[str, Any]:
        """What a run remembers of it, to find it again."""
        return {"file": str(self.file), "target": self.name, "file_hash": file_hash(self.file)}


def file_hash(file: Path) -> str:
    """A hash of the file's text."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def load_target(spelled: str) -> Loaded:
    """Run `FILE.py` and give its `target`, or the name after the colon.

    ```python
    >>> from genbayes.cli._target_file import load_target
    >>> load_target("model.txt")
    Traceback (most recent call last):
        ...
    genbayes.cli._errors.UsageError: Expected FILE.py or FILE.py:NAME, got 'model.txt'.

    ```
    """
    match = _SPELLING.fullmatch(spelled)
    if match is None:
        raise UsageError(f"Expected FILE.py or FILE.py:NAME, got {spelled!r}.")
    file, name = Path(match["file"]), match["name"] or DEFAULT
    if not file.is_file():
        raise UsageError(
            f"There is no file {file} (seen from {Path.cwd()}). Check the path, or write a first "
            f"one with  genbayes new {file.parent if str(file.parent) != '.' else file.stem}"
        )
    file = file.resolve()
    module = _run_file(file)
    if not hasattr(module, name):
        raise UsageError(f"{file} defines no {name!r}. {_others(module, file)}")
    return Loaded(_as_target(getattr(module, name), file, name), file, name)


def _run_file(file: Path) -> ModuleType:
    # under its own name, so that worker processes can import its functions too
    free = file.stem.isidentifier() and file.stem not in sys.modules
    name = file.stem if free else f"genbayes_target_{abs(hash(file))}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))  # as Python does for a script
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, Exception):
            raise _failure(file, error) from error
        raise
    return module


def _failure(file: Path, error: Exception) -> CommandError:
    """An error of the user's file, with the line of it where it happened."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    if frames:
        line = frames[-1].lineno
    where = file if line is None else f"{file}, line {line}"
    return CommandError(f"{where}: {type(error).__name__}: {error}")


def _others(module: ModuleType, file: Path) -> str:
    found = [name for name, x in vars(module).items() if isinstance(x, gb.ScorePosterior)]
    if found:
        shown = os.path.relpath(file)
        return f"It defines {', '.join(found)}: say  {shown}:{found[0]}"
    return (
        "Expected `target = genbayes.ScorePosterior(...)`, or a function of that name which "
        "returns one; see  genbayes new --help"
    )


def _as_target(value: Any, file: Path, name: str) -> gb.ScorePosterior:
    if callable(value) and not isinstance(value, gb.ScorePosterior):
        try:
            value = value()
        except Exception as error:
            raise _failure(file, error) from error
    if isinstance(value, gb.ScorePosterior):
        return value
    hint = "return one" if isinstance(value, type(None)) else "make it one"
    if isinstance(value, gb.Problem):
        hint = f"add a score: {name} = genbayes.ScorePosterior(problem, genbayes.EnergyScore())"
    raise UsageError(
        f"{name!r} of {file} must be a genbayes.ScorePosterior, or a function without arguments "
        f"that returns one; got {type(value).__name__}: {hint}."
    )
