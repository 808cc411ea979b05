"""Commands that draw: what they do is imported when it is asked for."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from ._app import (
    DRAW,
    Dask,
    Json,
    MaxSeconds,
    MaxSimulations,
    MinEss,
    Precision,
    Quiet,
    RunFolder,
    TargetFile,
    app,
)


class SamplerName(enum.StrEnum):
    """The samplers as the command calls them."""

    AUTO = "auto"
    ADSGLD = "adsgld"
    PSGLD = "psgld"
    SGLD = "sgld"
    SGHMC = "sghmc"
    PM = "pm"
    PM_NUTS = "pm-nuts"
    FROZEN_NUTS = "frozen-nuts"
    NUTS = "nuts"
    SMC_ABC = "smc-abc"
    REJECTION_ABC = "rejection-abc"


class Start(enum.StrEnum):
    """Where chains start."""

    PRIOR = "prior"
    ZERO = "zero"


@app.command(rich_help_panel=DRAW)
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


@app.command(rich_help_panel=DRAW)
def run(
    file: TargetFile,
    sampler: Annotated[
        SamplerName, typer.Option(help="`auto` chooses one that suits the target, and says why.")
    ] = SamplerName.AUTO,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            show_default=False,
            help="A setting of the sampler, such as step_size=3e-3; as often as needed.",
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Find the sampler's step size by bandit, before the run.")
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(min=1, show_default="1000", help="Draws to keep of each chain."),
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, show_default="500", help="Steps before them.")
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(min=1, show_default="4; 1 of ABC", help="Independent chains or populations."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampler.")] = 0,
    thinning: Annotated[int, typer.Option(min=1, help="Keep every so many-th draw.")] = 1,
    start: Annotated[Start, typer.Option(help="Where chains start.")] = Start.PRIOR,
    precision: Annotated[
        Precision | None,
        typer.Option(help="Bits of a number; absent, what JAX is set to.", show_default=False),
    ] = None,
    dask: Dask = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A new folder for the run; absent, runs/FILE, or runs/DIR for DIR/model.py.",
            show_default=False,
        ),
    ] = None,
    max_seconds: MaxSeconds = None,
    max_simulations: MaxSimulations = None,
    min_ess: MinEss = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw from the posterior that a Python file defines, and keep the run in a folder."""
    from ._run import Request, run_file

    limits = {"max_seconds": max_seconds, "max_simulations": max_simulations, "min_ess": min_ess}
    sizes = {"num_samples": samples, "num_warmup": warmup, "num_chains": chains}
    request = Request(
        sampler=sampler.value,
        settings=tuple(set_ or ()),
        tune=tune,
        options=sizes | limits | {"seed": seed, "thinning": thinning, "start": start.value},
        precision=None if precision is None else int(precision),
        out=out,
        dask=dask,
    )
    raise typer.Exit(run_file(file, request, quiet=quiet, as_json=json))


@app.command(rich_help_panel=DRAW)
def resume(
    path: RunFolder,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, show_default=False, help="Draws to have in all; absent, as first asked for."
        ),
    ] = None,
    generations: Annotated[
        int | None,
        typer.Option(min=1, show_default=False, help="The same for generations of ABC."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py[:NAME]",
            show_default=False,
            help="Where the target is now; absent, where it was.",
        ),
    ] = None,
    allow_changes: Annotated[
        bool,
        typer.Option("--allow-changes", help="Go on though the target has changed since."),
    ] = False,
    dask: Dask = None,
    max_seconds: MaxSeconds = None,
    max_simulations: MaxSimulations = None,
    min_ess: MinEss = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped or killed: the draws are those it would have had."""
    from ._run import resume_path

    limits = {"max_seconds": max_seconds, "max_simulations": max_simulations, "min_ess": min_ess}
    counts = {"num_samples": samples, "num_generations": generations}
    options = limits | counts | {"allow_changes": allow_changes}
    raise typer.Exit(resume_path(path, file, options, dask=dask, quiet=quiet, as_json=json))
