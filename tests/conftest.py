"""What all tests share: strict JAX settings, and a fixture for both precisions."""

import ctypes
import gc
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
import pytest

if TYPE_CHECKING:
    from genbayes.runs import Run

# shapes that agree only by accident have corrupted scores elsewhere: here they are an error
jax.config.update("jax_numpy_rank_promotion", "raise")


MOST_MEMORY = 2 << 30  # bytes
MOST_DISK = 1 << 30  # bytes


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs on disk: for the other worker, for child processes, for the next run.

    JAX finds a program by what it computes, its options, the versions and the kind of processor.
    """
    cache = getattr(config, "cache", None)
    if cache is None:  # -p no:cacheprovider
        return
    folder = cache.mkdir("compiled")
    first = not hasattr(config, "workerinput")
    if first and sum(file.stat().st_size for file in folder.iterdir()) > MOST_DISK:
        shutil.rmtree(folder)
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # for processes that tests start


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not go through it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _memory() -> Iterator[None]:
    """Forget compiled programs between files once there are too many: hundreds hold gigabytes."""
    yield
    if _resident() > MOST_MEMORY:
        jax.clear_caches()
        gc.collect()
        # given back, or every later file would find too much memory in use and forget again
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux: the most there ever was
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


@pytest.fixture(params=[32, 64], ids=["float32", "float64"])
def precision(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run a test in single and in double precision."""
    with jax.enable_x64(request.param == 64):
        yield request.param


def maker_of_runs(*, chains: int = 1, draws: int = 50, seed: int = 0, name: str = "A") -> "Run":
    """A run that no sampler drew: for what only reads runs."""
    # imported when used: a fault in one layer must not stop the tests of those below it
    from genbayes.runs import Cost, Outcome, Plan, Run, Status

    rng = np.random.default_rng(seed)
    u = rng.normal(size=(chains, draws, 3))
    return Run(
        draws={name: u[..., 0].copy(), "b": u[..., 1:].copy()},
        unconstrained=u,
        info={"accepted": rng.random((chains, draws)) < 0.5},
        status=Status(Outcome.COMPLETE),
        cost=Cost(1000, 2.0, 1.0, draws),
        provenance={
            "sampler": "Made(step_size=0.1)",
            "seed": seed,
            "versions": {"jax": "1.2.3"},
            "target": {"prior": {name: "Normal(0, 1)"}, "observations_shape": [3]},
        },
        plan=Plan(max(draws, 1), num_chains=chains),
        observations=np.zeros(3),
    )


@pytest.fixture
def made_run() -> "Callable[..., Run]":
    """A maker of runs that no sampler drew."""
    return maker_of_runs
