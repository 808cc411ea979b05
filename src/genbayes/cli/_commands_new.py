"""Commands that come before a run: a first file to change, and a look at it."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from ._app import DRAW, Json, Precision, TargetFile, app


class Kind(enum.StrEnum):
    """In what the simulator is written."""

    JAX = "jax"
    NUMPY = "numpy"
    TORCH = "torch"
    PROGRAM = "program"


@app.command(rich_help_panel=DRAW)
def new(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new or empty folder.", show_default=False)
    ],
    kind: Annotated[Kind, typer.Option(help="In what the simulator is written.")] = Kind.JAX,
) -> None:
    """Write a commented file to start from, with a model that runs as it is."""
    from ._new import write_starter

    write_starter(folder, kind.value)


@app.command(rich_help_panel=DRAW)
def check(
    file: TargetFile,
    precision: Annotated[
        Precision | None,
        typer.Option(help="Bits of a number; absent, what JAX is set to.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Look at prior, simulator and observations without sampling, and say what a run would take."""
    from ._check import check_file

    bits = None if precision is None else int(precision)
    raise typer.Exit(check_file(file, bits, as_json=json))
