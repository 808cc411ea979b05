"""The command that begins: a first file to change."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from ._app import DRAW, app


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
