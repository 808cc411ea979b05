"""Commands that read runs: what they do is imported when it is asked for."""

from pathlib import Path
from typing import Annotated

import typer

from ._app import READ, Json, RunFolder, RunPath, RunPaths, app


@app.command(rich_help_panel=READ)
def summary(path: RunPath, json: Json = False) -> None:
    """Print the mean, spread, effective sample size and warnings of a run."""
    from ._read import show_summary

    show_summary(path, as_json=json)


@app.command(rich_help_panel=READ)
def report(
    paths: RunPaths,
    out: Annotated[
        Path | None,
        typer.Option(help="The page; absent, report.html in the (first) run.", show_default=False),
    ] = None,
    title: Annotated[str, typer.Option(help="Its heading.")] = "Posterior",
) -> None:
    """Write one page about a run, or about several over each other, that loads nothing else."""
    from ._read import write_report

    write_report(paths, out, title)


@app.command(rich_help_panel=READ)
def export(
    path: RunPath,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Its ending says how: .nc, .csv or .parquet.", show_default=False
        ),
    ],
    infos: Annotated[
        bool, typer.Option("--infos", help="With what the sampler met at each draw.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there.")
    ] = False,
) -> None:
    """Write the draws to a file for other programs: NetCDF, CSV or Parquet."""
    from ._read import write_export

    write_export(path, out, infos=infos, overwrite=overwrite)


@app.command(rich_help_panel=READ)
def compare(
    left: RunPath,
    right: RunPath,
    picture: Annotated[
        Path | None,
        typer.Option(help="Where the picture goes; its ending says how."),
    ] = Path("comparison.png"),
    no_picture: Annotated[bool, typer.Option("--no-picture", help="The table alone.")] = False,
    json: Json = False,
) -> None:
    """Lay two runs over each other: a table of how far they agree, and a picture."""
    from ._compare import compare_runs

    compare_runs(left, right, None if no_picture else picture, as_json=json)


@app.command(rich_help_panel=READ)
def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look.")] = Path("runs"),
    json: Json = False,
) -> None:
    """List the runs in a folder and below it, with how far each has come."""
    from ._read import list_runs

    list_runs(folder, as_json=json)


@app.command(rich_help_panel=READ)
def watch(
    path: RunFolder,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
) -> None:
    """Follow a run that goes on in another process; Ctrl-C ends the watching, not the run."""
    from ._watch import watch_run

    raise typer.Exit(watch_run(path, interval=interval, once=once))
