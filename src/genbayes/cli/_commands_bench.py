"""The command that measures, in a copy of the repository."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from ._app import DRAW, app
from ._errors import CommandError


@app.command(rich_help_panel=DRAW)
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]", help="Such as `peers`; absent, the short ones.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A short look that writes nothing.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Measure anew what is known.")] = False,
) -> None:
    """Run the benchmarks of a copy of the repository, and rewrite their tables."""
    if not Path("benchmarks/__main__.py").exists():
        raise CommandError(
            "There are no benchmarks here. Expected to be called in a copy of the repository: "
            "they are no part of the installed package."
        )
    flags = [flag for flag, wanted in (("--quick", quick), ("--again", again)) if wanted]
    command = [sys.executable, "-m", "benchmarks", *(names or []), *flags]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
