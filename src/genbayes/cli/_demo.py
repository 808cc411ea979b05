"""The demonstration: a posterior from a simulator, with a page about it."""

import shutil
import sys
from pathlib import Path

import jax
import numpy as np

import genbayes as gb

PAGE = "report.html"
SAMPLERS = {"adsgld": gb.AdSGLD(step_size=0.1, diffusion=3.0)}


def run_demo(folder: Path, *, num_samples: int, num_warmup: int, seed: int) -> Path:
    """Sample the univariate g-and-k posterior from ten observations; give the path of the page."""
    task = gb.tasks.g_and_k.univariate()
    target = gb.ScorePosterior(demo_problem(), gb.EnergyScore(), weight=1.0, num_simulations=500)
    for name in SAMPLERS:
        make_room(folder / name)
    runs = []
    for name, sampler in SAMPLERS.items():
        runs.append(
            gb.sample(
                target, sampler, num_samples=num_samples, num_warmup=num_warmup, seed=seed,
                store=folder / name,
            )
        )  # fmt: skip
        print(runs[-1].summary(), end="\n\n")
    title = "Univariate g-and-k distribution, ten observations"
    page = gb.report(runs, folder / PAGE, truth=task.truth, title=title)
    print(f"The run is stored in {folder}. The page about it: {page.resolve().as_uri()}")
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
