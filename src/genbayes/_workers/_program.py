"""One run of an external program: arguments in, an array out, no shell."""

import io
import json
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ._draw import DETAILS, DrawError, Theta

Format = Literal["json", "csv", "npy"]


@dataclass(frozen=True)
class Program:
    """A program as a function of parameters and a seed."""

    command: tuple[str, ...]
    parse: Format | Callable[[str], Any] = "json"
    stdin: bool = False
    cwd: str | None = None

    def __call__(self, theta: Theta, seed: int) -> Any:
        """Run it once and read what it wrote; `DrawError` says why that cannot be done."""
        plain = {name: _as_json(value) for name, value in theta.items()}
        arguments = [part.format(**plain, seed=seed) for part in self.command]
        text = json.dumps({"theta": plain, "seed": seed}) if self.stdin else ""
        try:
            done = subprocess.run(
                arguments, input=text.encode(), capture_output=True, check=False, cwd=self.cwd
            )
        except OSError as error:
            raise DrawError(f"the program could not be started: {error}") from None
        said = done.stderr[-DETAILS:].decode(errors="replace")
        if done.returncode:
            raise DrawError(f"{_ending(done.returncode)}{_last_line(said)}", said)
        try:
            return read(done.stdout, self.parse)
        except Exception as error:  # the user's own function may raise anything
            start = done.stdout[:60].decode(errors="replace")
            what = self.parse if isinstance(self.parse, str) else "by parse"
            message = f"stdout cannot be read ({what}): {error}; it begins {start!r}"
            raise DrawError(message, said) from None


def _as_json(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _ending(code: int) -> str:
    if code < 0:
        return f"the program was killed by {signal.Signals(-code).name}"
    return f"the program ended with exit code {code}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""


def read(data: bytes, parse: Format | Callable[[str], Any]) -> Any:
    """The array that a program wrote.

    >>> read(b"1.5,2.5", "csv"), read(b"[1, 2]", "json")
    (array([1.5, 2.5]), [1, 2])
    """
    if callable(parse):
        return parse(data.decode())
    return _READERS[parse](data)


def _read_csv(data: bytes) -> np.ndarray:
    if not data.strip():
        raise ValueError("nothing was written")
    return np.loadtxt(io.BytesIO(data), delimiter=",")


_READERS: Mapping[str, Callable[[bytes], Any]] = {
    "json": json.loads,
    "csv": _read_csv,
    "npy": lambda data: np.load(io.BytesIO(data), allow_pickle=False),
}
