"""SMC-ABC next to pyABC: a normal mean at a known tolerance, and Lorenz96 with 250 000 simulations.

The normal model has the prior N(0, 1) and ten observations, compared by the mean of the data. Both
go down to the same tolerance, where the posterior is known by quadrature; means and sds of
independent runs are averaged, with standard errors. pyABC proposes until enough are accepted, in
Python; ours moves a population in one program, compiled once: the time of that stands apart.

    python -m benchmarks smc_abc
"""

import functools
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ._rounds import median

ROUNDS = 5
PARTICLES, TOLERANCE = 500, 0.1
LEVELS = [3.2, 1.6, 0.8, 0.4, 0.2, TOLERANCE]  # of pyABC; ours finds its own
OBSERVATIONS = np.array([0.3, 2.1, 0.9, 1.4, -0.6, 1.8, 0.2, 1.1, 2.7, 0.5])
AIM_SECONDS = 60  # for 250 000 simulations of Lorenz96


def exact() -> tuple[float, float]:
    """Mean and sd of the ABC posterior, by quadrature."""
    from scipy import stats

    theta, root, middle = np.linspace(-9, 9, 20_001), OBSERVATIONS.size**0.5, OBSERVATIONS.mean()
    near = stats.norm.cdf(root * (middle + TOLERANCE - theta))
    near -= stats.norm.cdf(root * (middle - TOLERANCE - theta))
    p = stats.norm.pdf(theta) * near
    p /= p.sum()
    mean = float(p @ theta)
    return mean, float(np.sqrt(p @ (theta - mean) ** 2))


class Found(dict):
    """What one run gave: mean, sd, simulated data sets, seconds, those of compilation."""


@functools.cache
def target() -> Any:
    """The normal model: one object, so that what was compiled for it serves every run."""
    import numpyro.distributions as dist

    import genbayes as gb

    prior = gb.Prior(mean=dist.Normal(0.0, 1.0))
    simulator = gb.Simulator(lambda theta, z: theta["mean"] + z, noise=dist.Normal(0.0, 1.0))
    return gb.ScorePosterior(gb.Problem(prior, simulator, OBSERVATIONS), gb.EnergyScore())


def ours(seed: int) -> Found:
    """One run of `SMCABC`."""
    import genbayes as gb

    sampler = gb.SMCABC(
        num_particles=PARTICLES, num_generations=200, num_simulations=2, alpha=0.7,
        distance="euclidean", summary=_mean, tolerance=TOLERANCE,
    )  # fmt: skip
    began = time.perf_counter()
    run = gb.sample(target(), sampler, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    row = run.summary().to_dicts()[0]
    calls = run.cost.simulator_calls // OBSERVATIONS.size
    return Found(mean=row["mean"], sd=row["sd"], sets=calls, seconds=seconds,
                 compiling=run.cost.compile_seconds)  # fmt: skip


def _mean(x: Any) -> Any:
    return x.mean(axis=0)


def pyabc_run(seed: int) -> Found:
    """One run of pyABC on one core, to the same tolerance."""
    import pyabc

    logging.getLogger("ABC").setLevel(logging.ERROR)
    np.random.seed(seed)  # pyABC draws from NumPy's global generator

    def model(theta: Any) -> dict[str, float]:
        return {"mean": np.random.normal(theta["mean"], 1.0, OBSERVATIONS.size).mean()}

    def distance(x: Any, y: Any) -> float:
        return abs(x["mean"] - y["mean"])

    abc = pyabc.ABCSMC(
        model, pyabc.Distribution(mean=pyabc.RV("norm", 0.0, 1.0)), distance,
        population_size=PARTICLES, eps=pyabc.ListEpsilon(LEVELS),
        sampler=pyabc.sampler.SingleCoreSampler(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        abc.new(f"sqlite:///{Path(folder) / 'pyabc.db'}", {"mean": OBSERVATIONS.mean()})
        history = abc.run(max_nr_populations=len(LEVELS))
        seconds = time.perf_counter() - began
        frame, weight = history.get_distribution()
        sets = history.total_nr_simulations
    x = frame["mean"].to_numpy()
    mean = np.average(x, weights=weight)
    sd = np.sqrt(np.average((x - mean) ** 2, weights=weight))
    return Found(mean=mean, sd=sd, sets=sets, seconds=seconds, compiling=0.0)


def normal_mean(rounds: int) -> list[dict[str, str]]:
    """Both samplers, run for run."""
    runs: dict[str, list[Found]] = {"SMCABC": [], "pyABC": []}
    compiling = ours(0)["compiling"]
    for seed in range(rounds):
        runs["SMCABC"].append(ours(seed))
        runs["pyABC"].append(pyabc_run(seed))
    mean, sd = exact()
    table = [_row("quadrature", f"{mean:.3f}", f"{sd:.3f}")]
    for name, found in runs.items():
        rate = [f["sets"] / (f["seconds"] - f["compiling"]) for f in found]
        table.append(_row(
            f"{name}, {PARTICLES} particles", _with_error(found, "mean"), _with_error(found, "sd"),
            f"{np.mean([f['sets'] for f in found]):,.0f}",
            str(median([f["seconds"] for f in found])),
            f"{compiling:.1f}" if name == "SMCABC" else "", str(median(rate)),
        ))  # fmt: skip
    return table


def _row(
    name: str, mean: str, sd: str, sets: str = "", seconds: str = "", compiling: str = "",
    rate: str = "", aim: str = "",
) -> dict[str, str]:  # fmt: skip
    return {
        "posterior": name, "mean": mean, "sd": sd, "data sets": sets, "seconds": seconds,
        "compiling": compiling, "data sets a second": rate, "aim": aim,
    }  # fmt: skip


def _with_error(found: list[Found], what: str) -> str:
    x = np.array([f[what] for f in found])
    return f"{x.mean():.3f} ± {x.std(ddof=1) / np.sqrt(x.size):.3f}"


def lorenz96() -> dict[str, str]:
    """The published setting: 1000 particles, 25 generations, ten series each."""
    import genbayes as gb

    problem = gb.tasks.lorenz96.linear().problem(seed=0, num_observations=10)
    target = gb.ScorePosterior(problem, gb.EnergyScore())
    began = time.perf_counter()
    run = gb.sample(target, gb.SMCABC(distance="euclidean", data_size=1), progress=False)
    seconds = time.perf_counter() - began
    row = run.summary().to_dicts()[0]
    done, rate = "met" if seconds < AIM_SECONDS else "missed", run.cost.simulator_calls / seconds
    return _row(
        "Lorenz96, b0", f"{row['mean']:.3f}", f"{row['sd']:.3f}",
        f"{run.cost.simulator_calls:,}", f"{seconds:.1f}", f"{run.cost.compile_seconds:.2f}",
        f"{rate:,.0f}", f"{AIM_SECONDS} s: {done}",
    )  # fmt: skip


def rows(quick: bool = False) -> list[dict[str, str]]:
    """The comparison, and the published setting."""
    return [*normal_mean(2 if quick else ROUNDS), lorenz96()]
