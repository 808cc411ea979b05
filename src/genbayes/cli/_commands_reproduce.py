"""The command that computes the paper's experiments."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from ._app import DRAW, Precision, app


class ScaleName(enum.StrEnum):
    """How much of an experiment is run."""

    SMOKE = "smoke"
    PAPER = "paper"


@app.command(rich_help_panel=DRAW)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...|all]", help="Experiments; absent, all.", show_default=False
        ),
    ] = None,
    scale: Annotated[
        ScaleName, typer.Option(help="A glance of minutes, or the lengths of the paper.")
    ] = ScaleName.SMOKE,
    out: Annotated[
        Path, typer.Option(help="Where results and pages go; what is there is not computed again.")
    ] = Path("runs/paper"),
    observations: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            show_default=False,
            help="The published observations; absent, others of the same kind are generated.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes; absent, one for each core.", show_default=False),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            show_default=False,
            help="Work on a cluster, tcp://HOST:8786 or local:2; its workers must see --out.",
        ),
    ] = None,
    numbers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md",
            show_default=False,
            help="Also put the table of all numbers there, for a documentation.",
        ),
    ] = None,
    precision: Annotated[
        Precision, typer.Option(help="Bits of a floating-point number.")
    ] = Precision.SINGLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
) -> None:
    """Compute the experiments of the paper, and lay them beside the published numbers."""
    from ._reproduce import Request, reproduce_all

    request = Request(scale.value, out, observations, jobs, dask, int(precision), numbers)
    raise typer.Exit(reproduce_all(names or ["all"], request, quiet=quiet))
