"""The commands and their options; what they do is imported when it is asked for."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__

app = typer.Typer(
    help="Generalised Bayesian inference on simulator models, by scoring rules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # main() says what went wrong
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Precision(enum.StrEnum):
    """Bits of a floating-point number."""

    SINGLE = "32"
    DOUBLE = "64"


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


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option(help="Where the run and its page go; an earlier demo there is replaced.")
    ] = Path("runs/demo"),
    samples: Annotated[
        int,
        typer.Option(min=1, help="Draws to keep of adSGLD; frozen-noise NUTS keeps 4 x 1 % of it."),
    ] = 100_000,
    warmup: Annotated[
        int, typer.Option(min=0, help="Steps before them; frozen-noise NUTS takes 5 %.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the sampler.")] = 0,
    precision: Annotated[
        Precision, typer.Option(help="Bits of a floating-point number.")
    ] = Precision.SINGLE,
) -> None:
    """Infer the g-and-k distribution from ten observations, and write a page about it."""
    from ._demo import run_demo
    from ._precision import set_precision

    set_precision(int(precision))
    run_demo(folder, num_samples=samples, num_warmup=warmup, seed=seed)
