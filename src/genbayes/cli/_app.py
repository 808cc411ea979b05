"""The application, and the options that several commands share."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__

app = typer.Typer(
    help="Generalised Bayesian inference on simulator models, by scoring rules.",
    epilog="Exit status: 0 done, 1 an error, 2 wrong use, 3 a run that ended badly or a check "
    "that failed, 130 interrupted. Tables go to standard output, progress to standard error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # main() says what went wrong
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Precision(enum.StrEnum):
    """Bits of a floating-point number."""

    SINGLE = "32"
    DOUBLE = "64"


# panels of --help
DRAW, READ = "Drawing", "Reading runs"

TargetFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py[:NAME]",
        help="A Python file that defines `target`, or another name after the colon: a "
        "ScorePosterior, or a function that returns one.",
        show_default=False,
    ),
]
RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder of a run, or a NetCDF file.", show_default=False
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)
]
RunPaths = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", help="Folders of runs, or NetCDF files.", show_default=False),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, and no table.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, no table.")]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Make the draws of a black box on a cluster: tcp://HOST:8786, or local:2.",
        show_default=False,
    ),
]
MaxSeconds = Annotated[
    float | None, typer.Option(help="Stop after so many seconds, in all.", show_default=False)
]
MaxSimulations = Annotated[
    int | None, typer.Option(help="Stop after so many simulations, in all.", show_default=False)
]
MinEss = Annotated[
    float | None,
    typer.Option(help="Stop at this effective sample size of every parameter.", show_default=False),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"genbayes {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of all commands; both have done their work before this is called."""
    del version, debug
