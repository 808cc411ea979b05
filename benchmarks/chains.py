"""Two chains on two devices next to one chain: adSGLD on the univariate g-and-k, m = 500.

    python -m benchmarks chains

By the clock on the wall, for that is what a second core is for: on a machine with other work the
ratio is too large.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

from ._rounds import JAX_THREADS, interleaved, median, ratio, verdict

ROUNDS, STEPS = 9, 10_000
AIM = 1.25
FLAGS = "--xla_force_host_platform_device_count=2 --xla_cpu_multi_thread_eigen=false"


def measure() -> dict[str, list[float]]:
    """Seconds of so many steps, in a process with two devices."""
    import genbayes as gb

    problem = gb.tasks.g_and_k.univariate().problem(seed=0, num_observations=10)
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=500)

    def case(chains: int) -> Any:
        run = gb.sample(
            target, gb.AdSGLD(0.1, diffusion=3.0), num_samples=100, thinning=10, num_chains=chains,
            chain_method="parallel", progress=False,
        )  # fmt: skip

        def seconds() -> float:
            began = time.perf_counter()
            gb.resume(run, num_samples=100 + STEPS // 10, progress=False)
            return time.perf_counter() - began

        seconds()
        return seconds

    return interleaved({"one": case(1), "two": case(2)}, ROUNDS)


def rows() -> list[dict[str, Any]]:
    """One row."""
    command = [sys.executable, "-m", "benchmarks.chains"]
    flags = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"
    found = json.loads(
        subprocess.run(
            command,
            env={k: v for k, v in os.environ.items() if k != JAX_THREADS} | {"XLA_FLAGS": flags},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    longer = ratio(found["two"], found["one"])
    return [
        {
            "chains": f"{STEPS:,} steps each",
            "one (s)": str(median(found["one"])),
            "two, in parallel (s)": str(median(found["two"])),
            "times as long": str(longer),
            "aim": verdict(longer, most=AIM),
        }
    ]


if __name__ == "__main__":
    print(json.dumps(measure()))
