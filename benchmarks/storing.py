"""What keeping a run costs: the demo's 110 000 steps of adSGLD, stored and not stored, in turn.

python -m benchmarks storing
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from ._rounds import interleaved, median, ratio

ROUNDS = 5
SAMPLES, WARMUP = 100_000, 10_000
AIM = 1.05  # times as long


def rows() -> list[dict[str, Any]]:
    """Wall time of a whole call of `sample`, compiled before."""
    import genbayes as gb
    from genbayes.cli._demo import demo_problem

    target = gb.ScorePosterior(demo_problem(), gb.EnergyScore(), num_simulations=500)
    sampler = gb.AdSGLD(step_size=0.1, diffusion=3.0)

    def seconds(store: Path | None, samples: int = SAMPLES, warmup: int = WARMUP) -> float:
        began = time.perf_counter()
        gb.sample(
            target, sampler, num_samples=samples, num_warmup=warmup, store=store, progress=False
        )
        return time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(10**6))

        def stored(samples: int = SAMPLES, warmup: int = WARMUP) -> float:
            return seconds(Path(folder) / str(next(names)), samples, warmup)

        seconds(None, 1000, 100)  # compilation, and the imports of the store
        stored(1000, 100)
        found = interleaved({"stored": stored, "not stored": lambda: seconds(None)}, ROUNDS)
    return [
        {
            "case": f"{SAMPLES + WARMUP:,} steps, every draw kept",
            "not stored, s": str(median(found["not stored"])),
            "stored, s": str(median(found["stored"])),
            "ratio": str(ratio(found["stored"], found["not stored"])),
            "aim": f"<= {AIM}",
        }
    ]
