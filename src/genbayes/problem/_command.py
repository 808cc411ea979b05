"""Simulators that are programs, in whatever language."""

from collections.abc import Callable, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

import equinox as eqx

from .._checks import check_choice
from .._types import Array
from .._workers import Program, Recipe, portable
from ._black_box import AbstractBlackBox, Handling, Policy, Runtime, _dtype

FORMATS = ("json", "csv", "npy")


class Command(AbstractBlackBox):
    r"""An external program as a simulator: one run of it is one draw. No shell is involved.

    **Arguments:**

    - `command`: the program and its arguments, in which `{a}` stands for the parameter `a` and
        `{seed}` for the draw's seed, a whole number below $2^{32}$ (braces of its own are
        doubled). Parameters that are arrays are written as lists; `{a[0]}` is an entry.
    - `parse`: what the program writes to stdout: `"json"` (a number, or nested lists), `"csv"`,
        `"npy"`, or a function from that text to an array.
    - `stdin`: with `"json"` the program reads `{"theta": {...}, "seed": ...}` from there.
    - `executor`, `timeout`, `retries`, `on_failure`, `penalty`, `max_failures`, `summary`: as for
        `BlackBox`. A draw fails if the program ends with an exit code other than 0, takes longer
        than `timeout` seconds, or writes what cannot be parsed.
    - `cwd`: the folder that it runs in.

    Programs run in a process group of their own, which ends with the run, whatever ends it.

    ```python
    >>> import genbayes as gb, jax, sys
    >>> program = "import random, sys; random.seed(sys.argv[2]); "
    >>> program += "print(random.gauss(float(sys.argv[1]), 1))"
    >>> simulator = gb.Command([sys.executable, "-c", program, "{mean}", "{seed}"])
    >>> simulator.simulate(jax.random.key(0), {"mean": 2.0}, num=2).shape
    (2,)

    ```
    """

    program: Program
    summary: Callable[[Array], Array] | None
    handling: Handling
    runtime: Runtime = eqx.field(static=True)

    def __init__(
        self,
        command: Sequence[str],
        parse: str | Callable[[str], Any] = "json",
        executor: Any = None,
        timeout: float | None = None,
        retries: int = 0,
        on_failure: Policy = "reject",
        *,
        stdin: str | None = None,
        cwd: str | Path | None = None,
        penalty: Any = None,
        max_failures: float = 0.5,
        summary: Callable[[Array], Array] | None = None,
    ):
        if not callable(parse):
            check_choice("parse", parse, FORMATS)
        check_choice("stdin", stdin, (None, "json"))
        words = _checked(command, stdin)
        self.program = Program(words, parse, stdin == "json", None if cwd is None else str(cwd))  # pyright: ignore[reportArgumentType]
        self.summary = summary
        self.handling = Handling(on_failure, penalty, timeout, retries, max_failures)
        self.runtime = Runtime(executor)

    def recipe(self) -> Recipe:
        if self.runtime.packed is None:
            self.runtime.packed = portable(self.program)
        handling = self.handling
        return Recipe(
            self.runtime.packed, _dtype(), False, handling.timeout, True, handling.retries
        )

    def on(self, executor: Any) -> "Command":
        handling, program = self.handling, self.program
        return Command(
            program.command, program.parse, executor, handling.timeout, handling.retries,
            handling.on_failure, stdin="json" if program.stdin else None, cwd=program.cwd,
            penalty=handling.penalty, max_failures=handling.max_failures, summary=self.summary,
        )  # fmt: skip


def _checked(command: Any, stdin: str | None) -> tuple[str, ...]:
    if isinstance(command, str) or not all(isinstance(part, (str, Path)) for part in command):
        raise TypeError(
            'command must be a list of words such as ["./sim", "--a", "{a}", "--seed", "{seed}"], '
            f"because no shell takes it apart; got {command!r}."
        )
    words = tuple(str(part) for part in command)
    if not words:
        raise ValueError('command must name a program, as in ["./sim", "{a}", "{seed}"].')
    try:
        named = {name for word in words for _, name, _, _ in Formatter().parse(word) if name}
    except ValueError as error:
        raise ValueError(
            f"command has a brace that names no parameter ({error}): double those that the program "
            "is to see."
        ) from None
    if stdin is None and "seed" not in named:
        raise ValueError(
            f"The program would never see its seed: have a word with {{seed}}, or stdin='json'; "
            f"got {list(words)}."
        )
    return words
