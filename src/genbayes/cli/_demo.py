"""The demonstration: a posterior from a simulator, with a page about it."""

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import genbayes as gb

from ..runs import Outcome
from ..samplers import AbstractSampler

PAGE = "report.html"


class Part(NamedTuple):
    """One run of the demo, and what share of the steps that are asked for is enough for it."""

    sampler: AbstractSampler
    num_chains: int = 1
    share: float = 1.0
    warmup_share: float = 1.0
    least_warmup: int = 0


# laid over each other on the page, each stored in a folder of its own
PARTS = {
    "frozen_nuts": Part(
        gb.FrozenNUTS(), num_chains=4, share=0.01, warmup_share=0.05, least_warmup=50
    ),
    "adsgld": Part(gb.AdSGLD(step_size=0.1, diffusion=3.0)),
}


def run_demo(folder: Path, *, num_samples: int, num_warmup: int, seed: int) -> Path:
    """Sample the univariate g-and-k posterior from ten observations; give the path of the page."""
    task = gb.tasks.g_and_k.univariate()
    target = gb.ScorePosterior(demo_problem(), gb.EnergyScore(), weight=1.0, num_simulations=500)
    for name in PARTS:
        make_room(folder / name)
    runs = []
    for name, part in PARTS.items():
        run = gb.sample(
            target,
            part.sampler,
            num_samples=max(10, round(part.share * num_samples)),
            num_warmup=max(part.least_warmup, round(part.warmup_share * num_warmup)),
            num_chains=part.num_chains,
            seed=seed,
            store=folder / name,
        )
        print(run.summary(), end="\n\n")
        runs.append(run)
        if run.status.outcome is Outcome.INTERRUPTED:
            break
    title = "Univariate g-and-k distribution, ten observations"
    runs = [run for run in runs if run.unconstrained.shape[1]]
    if not runs:
        raise ValueError("No draws were made before the demo was stopped: start it again.")
    page = gb.report(runs, folder / PAGE, truth=task.truth, title=title)
    print(f"The runs are stored in {folder}. The page about it: {page.resolve().as_uri()}")
    return page


def demo_problem() -> gb.Problem:
    """Ten observations at the true parameters, the same ones every time."""
    return gb.tasks.g_and_k.univariate().problem(seed=0, num_observations=10)


def make_room(folder: Path) -> None:
    """Remove the run of an earlier demo; refuse to remove anything else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not _is_demo(folder):
        raise ValueError(
            f"{folder} holds something that no demo wrote. Expected a new folder, or that of an "
            "earlier demo, which is replaced; choose another with --folder."
        )
    print(f"Replacing the earlier demo in {folder}.", file=sys.stderr)
    shutil.rmtree(folder)


def _is_demo(folder: Path) -> bool:
    """Whether a folder holds a run on the demo's own data, in either precision."""
    try:
        found = gb.load(folder, salvage=True).observations
    except Exception:  # whatever it is, it is no run that can be read
        return False
    ours = []
    for double in (False, True):
        with jax.enable_x64(double):
            ours.append(np.asarray(demo_problem().observations))
    return any(np.array_equal(found, y) for y in ours)
