"""One adSGLD step on the univariate g-and-k model: n = 10 observations, m = 500 simulations.

Four cases, each in its own process and asked in turn: our step in single and in double precision;
the same step with the score replaced by a plain sum, which is the floor that simulation and sampler
set; ours with a million observations; and a PyTorch loop. Then, in fresh processes, how long it
takes until there is a first draw.

    python -m benchmarks.step
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ._rounds import Median, clock, interleaved, median, ratio, verdict

ROUNDS = 7
SECONDS = 0.4  # of one measurement
SIMULATIONS, OBSERVATIONS, MANY = 500, 10, 1_000_000
AIMS = {"float32": 100, "float64": 60}
AIM_FLOOR, AIM_MANY, AIM_START = 8, 3, 6


def jax_cases() -> dict[str, Callable[[int], float]]:
    """Our step, and its floor: each a function from a number of steps to seconds per step."""
    import jax.numpy as jnp

    import genbayes as gb
    from genbayes.scores import AbstractScore

    class SumScore(AbstractScore):
        """No score: the cheapest function of all simulations that has a gradient."""

        strictly_proper = False
        unbiased = True
        min_simulations = 1
        needs_simulations = True

        def _estimates(self, simulations: Any, observations: Any, theta: Any) -> Any:
            return jnp.full(observations.shape[0], jnp.sum(simulations))

        def _prepare(self, observations: Any) -> None:
            return None

        def _total(self, simulations: Any, prepared: Any, theta: Any) -> Any:
            return jnp.sum(simulations)

    return {
        "ours": _stepper(gb.EnergyScore(), 1.0),
        # hardly any weight, so that the chain stays where the prior is
        "floor": _stepper(SumScore(), 1e-9),
        # weighted as much as ten, so that the chain walks as it does
        "many": _stepper(gb.EnergyScore(), OBSERVATIONS / MANY, MANY),
    }


def _stepper(score: Any, weight: float, n: int = OBSERVATIONS) -> Callable[[int], float]:
    import jax
    import jax.numpy as jnp

    import genbayes as gb

    sampler = gb.AdSGLD(step_size=0.1, diffusion=3.0)
    problem = gb.tasks.g_and_k.univariate().problem(seed=0, num_observations=n)
    target = gb.ScorePosterior(problem, score, weight=weight, num_simulations=SIMULATIONS)
    key = jax.random.key(0)

    @jax.jit
    def walk(state: Any, first: Any, count: Any) -> Any:
        def body(t: Any, state: Any) -> Any:
            return sampler.step(jax.random.fold_in(key, t), target, state)[0]

        return jax.lax.fori_loop(first, first + count, body, state)

    state = jax.jit(lambda u: sampler.init(key, target, u))(jnp.zeros(target.size))
    jax.block_until_ready(walk(state, 0, 1))

    def seconds_per_step(steps: int) -> float:
        began = clock()
        jax.block_until_ready(walk(state, 0, steps))
        return (clock() - began) / steps

    return seconds_per_step


def torch_cases() -> dict[str, Callable[[int], float]]:
    """The PyTorch loop, on the same observations."""
    import numpy as np

    import genbayes as gb

    from ._torch_loop import Loop

    y = gb.tasks.g_and_k.univariate().generate(seed=0, num_observations=OBSERVATIONS)
    return {"torch": Loop(np.asarray(y, float).tolist(), SIMULATIONS).seconds_per_step}


def first_draw() -> dict[str, float]:
    """Seconds until genbayes is imported, and from there until there is a first draw."""
    began, wall = clock(), time.perf_counter()
    import genbayes as gb

    _ = gb.sample, gb.AdSGLD, gb.EnergyScore, gb.tasks
    imported = clock()
    problem = gb.tasks.g_and_k.univariate().problem(seed=0, num_observations=OBSERVATIONS)
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=SIMULATIONS)
    sampler = gb.AdSGLD(step_size=0.1, diffusion=3.0)
    gb.sample(target, sampler, num_samples=1, progress=False)
    return {
        "import": imported - began,
        "first draw": clock() - imported,
        "wall": time.perf_counter() - wall,
    }


def serve(kind: str) -> None:
    """Answer questions, one JSON line each: [case, steps] -> seconds per step."""
    if kind == "first":
        print(json.dumps(first_draw()), flush=True)
        return
    cases = torch_cases() if kind == "torch" else jax_cases()
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        name, steps = json.loads(line)
        print(json.dumps(cases[name](steps)), flush=True)


@contextmanager
def process(kind: str, bits: int = 32) -> Iterator[subprocess.Popen[str]]:
    """A process of its own, whose precision is set before JAX is imported."""
    environment = os.environ | {"JAX_ENABLE_X64": str(int(bits == 64))}
    command = [sys.executable, "-m", "benchmarks.step", kind]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as worker:
        yield worker


def answer(worker: subprocess.Popen[str]) -> Any:
    """The next line that a process prints."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError("A benchmark process ended before it answered; see above for why.")
    return json.loads(line)


def _case(worker: subprocess.Popen[str], name: str) -> Callable[[], float]:
    """A measurement of about `SECONDS`, after a short one that finds out how many steps that is."""

    def ask(steps: int) -> float:
        assert worker.stdin is not None
        print(json.dumps([name, steps]), file=worker.stdin, flush=True)
        return answer(worker)

    ask(5)
    steps = max(10, int(SECONDS / ask(20)))
    return lambda: ask(steps)


def measure(rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds per step of every case in every round."""
    with ExitStack() as stack:
        cases = {}
        for kind, bits in (("jax", 32), ("jax", 64), ("torch", 64)):
            worker = stack.enter_context(process(kind, bits))
            for name in answer(worker):
                label = name if kind == "torch" else f"{name} float{bits}"
                cases[label] = _case(worker, name)
        return interleaved(cases, rounds)


def rows(rounds: int = ROUNDS) -> list[dict[str, str]]:
    """A row for each case: microseconds, times faster than the loop, times the floor."""
    seconds = measure(rounds)
    table = []
    for name, values in seconds.items():
        row = {"step": name, "microseconds": str(median(values).scaled(1e6))}
        row |= {"faster than PyTorch": "", "aim": "", "times as long as": "", "aim of that": ""}
        kind, _, precision = name.partition(" ")
        if kind == "ours":
            faster = ratio(seconds["torch"], values)
            row["faster than PyTorch"] = str(faster)
            row["aim"] = verdict(faster, least=AIMS[precision])
        if kind in ("ours", "many"):
            other, most = ("floor", AIM_FLOOR) if kind == "ours" else ("ours", AIM_MANY)
            longer = ratio(values, seconds[f"{other} {precision}"])
            row["times as long as"] = f"{other}: {longer}"
            row["aim of that"] = verdict(longer, most=most)
        row["step"] = name.replace("many", "ours, n = 1 000 000,")
        table.append(row)
    return table


def start_rows(rounds: int = 3) -> list[dict[str, str]]:
    """Until the first draw: import, and everything from there on."""
    table = []
    for bits in (32, 64):
        found = []
        for _ in range(rounds):
            with process("first", bits) as worker:
                found.append(answer(worker))

        def over(name: str, found: list[dict[str, float]] = found) -> Median:
            return median([f[name] for f in found])

        total = median([f["import"] + f["first draw"] for f in found])
        table.append(
            {
                "start": f"float{bits}",
                "import (s)": str(over("import")),
                "then, to the first draw (s)": str(over("first draw")),
                "together (s)": str(total),
                "aim": verdict(total, most=AIM_START),
                "by the clock on the wall (s)": str(over("wall")),
            }
        )
    return table


if __name__ == "__main__":
    serve(sys.argv[1]) if len(sys.argv) > 1 else print(json.dumps(rows() + start_rows(), indent=1))
