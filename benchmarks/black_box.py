"""Black-box steps: what they cost over the simulator's own time, and scaling from 1 to 2 workers.

A simulator that sleeps and one that computes, 1 ms and 10 ms a draw, 40 draws a step; in this
process, on a pool of processes and on a local Dask cluster. A row's overhead is the wall time of a
step over that of its draws alone, which are timed here and divided among the workers.

    python -m benchmarks black_box
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ._environment import LIBRARIES, environment, markdown, replace_block
from ._rounds import interleaved, median, ratio

PAGE = Path(__file__).parent.parent / "docs" / "black_boxes.md"
ROUNDS = 5
DRAWS = 40  # of a step
STEPS = 4  # of one measurement
MILLISECONDS = (1, 10)
WORKERS = (1, 2)
AIM_OVERHEAD, AIM_SCALING = 0.05, 1.7


class Sleeping:
    """Waits as long as a draw is to take: what a simulator elsewhere costs this machine."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def __call__(self, theta: Any, rng: Any) -> Any:
        until = time.perf_counter() + self.seconds
        time.sleep(self.seconds)
        while time.perf_counter() < until:
            pass
        return rng.normal(theta["mean"], 1.0)


class Busy:
    """Computes for as much of a processor's time as a draw is to take."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def __call__(self, theta: Any, rng: Any) -> Any:
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            rng.normal(size=100)
        return rng.normal(theta["mean"], 1.0)


@contextmanager
def executors() -> Iterator[dict[tuple[str, int], Any]]:
    """Each by its kind and number of workers."""
    with ExitStack() as stack:
        spawn = multiprocessing.get_context("spawn")
        found: dict[tuple[str, int], Any] = {("in this process", 1): None}
        for workers in WORKERS:
            pool = ProcessPoolExecutor(workers, spawn)
            found["process pool", workers] = stack.enter_context(pool)
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            print("(Dask is absent: its rows are left out)")
            yield found
            return
        for workers in WORKERS:
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            client = stack.enter_context(Client(stack.enter_context(cluster)))
            found["Dask", workers] = client.get_executor(pure=False)
        yield found


def stepper(fn: Any, executor: Any) -> Callable[[], float]:
    """A measurement: seconds of one pseudo-marginal step."""
    import jax
    import numpyro.distributions as dist

    import genbayes as gb

    prior = gb.Prior(mean=dist.Normal(0, 1))
    problem = gb.Problem(prior, gb.BlackBox(fn, executor), np.linspace(-1, 1, 10))
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=DRAWS)
    sampler, key = gb.PseudoMarginal(0.5), jax.random.key(0)
    start = sampler.init(key, target, jax.numpy.zeros(1))

    def walk(steps: int) -> float:
        state, began = start, time.perf_counter()
        for t in range(steps):
            state, _ = sampler.step(jax.random.fold_in(key, t), target, state)
        jax.block_until_ready(state)
        return (time.perf_counter() - began) / steps

    walk(2)
    return lambda: walk(STEPS)


def rows(quick: bool = False) -> list[dict[str, str]]:
    """A row for each simulator, kind of executor and number of workers."""
    began, found = environment((*LIBRARIES, "distributed")), []
    with executors() as there:
        for kind in (Sleeping, Busy):
            for milliseconds in (10,) if quick else MILLISECONDS:
                draw = kind(milliseconds / 1000)
                cases: dict[Any, Callable[[], float]] = {
                    place: stepper(draw, executor) for place, executor in there.items()
                }
                cases["draws alone"] = lambda draw=draw: _alone(draw)
                seconds = interleaved(cases, 3 if quick else ROUNDS)
                name = f"{kind.__name__.lower()}, {milliseconds} ms"
                found += [_row(name, place, seconds) for place in there]
    setting = ", ".join(f"{k} {v}" for k, v in began.items())
    replace_block(PAGE, "black_box", f"{setting[:1].upper()}{setting[1:]}.\n\n{markdown(found)}")
    return found


def _alone(draw: Any) -> float:
    """Seconds of a step's draws without anything around them."""
    rng, began = np.random.default_rng(0), time.perf_counter()
    for _ in range(DRAWS):
        draw({"mean": 0.0}, rng)
    return time.perf_counter() - began


def _row(name: str, place: tuple[str, int], seconds: dict[Any, Any]) -> dict[str, str]:
    where, workers = place
    overhead = ratio(seconds[place], seconds["draws alone"]).scaled(workers)
    row = {
        "simulator": name, "where": where, "workers": str(workers),
        "step (ms)": str(median(seconds[place]).scaled(1e3)),
        "over the draws' own time": f"{overhead.value - 1:+.1%}",
        "aim": "", "1 to 2 workers": "", "scaling aim": "",
    }  # fmt: skip
    if name.endswith(" 10 ms"):
        met = overhead.value - 1 <= AIM_OVERHEAD
        row["aim"] = f"{AIM_OVERHEAD:.0%}: {'met' if met else 'missed'}"
    if workers == 2:
        times = ratio(seconds[where, 1], seconds[place])
        row["1 to 2 workers"] = str(times)
        if name.endswith(" 10 ms"):
            met = times.value >= AIM_SCALING
            row["scaling aim"] = f"{AIM_SCALING}: {'met' if met else 'missed'}"
    return row
