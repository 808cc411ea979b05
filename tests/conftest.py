"""What all tests share: strict JAX settings, and a fixture for both precisions."""

import resource
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


@pytest.fixture(scope="module", autouse=True)
def _memory() -> Iterator[None]:
    """Forget compiled programs between files once there are too many: hundreds hold gigabytes."""
    yield
    if _resident() > MOST_MEMORY:
        jax.clear_caches()


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
