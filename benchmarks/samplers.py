"""All samplers on the g-and-k models: bias of means and sds, and effective draws a second.

The reference of every marginal is the scoring-rule posterior itself. Draws of `FrozenNUTS` are
weighted by the ratio of the density at a much larger frozen Sobol set to the density that they were
drawn from, and that set is doubled until no sd moves. For `FrozenNUTS` itself both sds come from
the same draws, so their ratio is known far better than either of them. The other samplers are
compared with the result.

Effective draws a second are those of the parameter with the fewest, counted while sampling
(neither warm-up nor compilation), by processor seconds: what else the machine does changes little.

    python -m benchmarks samplers [--quick] [--again]

Each cell (one sampler on one problem) is written to benchmarks/results/samplers.json as it is
done, the most important first, and what is there is not measured again unless `--again` says so:
a measurement that was interrupted goes on. From there come the tables in docs/samplers.md.
`--quick` is a short look at one problem, which writes nothing.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ._environment import environment
from ._reference import Reweighted, moments, reference
from ._sampler_tables import aims, sweep_table, table, write_page

HOME = Path(__file__).resolve().parent.parent
RESULTS = HOME / "benchmarks" / "results" / "samplers.json"
# The observations of the published experiments, if they are at hand; else generated ones
PUBLISHED = os.environ.get("GENBAYES_PUBLISHED_OBSERVATIONS", "")
SOURCES = {("univariate", 10): "pm_uni_gk", ("univariate", 100): "pm_uni_gk"}
SOURCES |= {("univariate", 400): "sg_uni_gk_exp1"}
SOURCES |= {("multivariate", 10): "pm_mv_gk", ("multivariate", 100): "pm_mv_gk"}

CASES = [(model, n) for model in ("univariate", "multivariate") for n in (10, 100, 400)]
EVERY_SAMPLER = (("univariate", 10), ("univariate", 100))
SIMULATIONS = 500  # of every sampler but frozen NUTS, and AdSGLD where it is slow to settle
# Of frozen NUTS: the more observations, the more the error of one freeze weighs
FROZEN = {10: 128, 100: 512, 400: 1024}
FROZEN_MULTIVARIATE = {10: 256, 100: 2048, 400: 4096}
REFERENCE = {10: 256, 100: 1024, 400: 2048}  # of the draws that are weighted, multivariate
STEP = {10: 0.1, 100: 0.05, 400: 0.025}  # of AdSGLD: about a quarter of the smallest posterior sd
PROPOSAL = {10: 0.5, 100: 0.15, 400: 0.07}  # where the adaptation of pseudo-marginal chains begins
PUBLISHED_STEP = 0.03**0.5  # of the published runs, in the terms of AdSGLD


@dataclass(frozen=True)
class Job:
    """One sampler on one problem; `rank` says how soon it is wanted."""

    rank: int
    label: str
    sampler: Any
    num_samples: int
    num_warmup: int
    num_chains: int = 4
    thinning: int = 1
    num_simulations: int = SIMULATIONS
    sweep: bool = False

    @property
    def chain_method(self) -> str:
        """Trajectories differ in length: side by side, all chains wait for the longest."""
        return "sequential" if "NUTS" in self.label or self.rank == 0 else "vectorized"

    @property
    def key(self) -> str:
        """By which a cell is found again."""
        return f"{'sweep ' * self.sweep}{self.label}, m = {self.num_simulations}"


def observations(model: str, n: int) -> tuple[Any, str]:
    """The data of a case, and where they come from."""
    import genbayes as gb

    source = SOURCES.get((model, n))
    if source and PUBLISHED and Path(PUBLISHED).exists():
        y = np.load(PUBLISHED)[source][:n]
        return (y[:, 0] if model == "univariate" else y), f"published ({source})"
    task = getattr(gb.tasks.g_and_k, model)()
    return task.generate(seed=0, num_observations=n), "generated with seed 0"


def reference_job(model: str, n: int) -> Job:
    """The draws that the reference weights."""
    import genbayes as gb

    few = 2500 if n == 10 else 500  # wide posteriors are skewed, and their sds take many draws
    m, draws = (512, 3000) if model == "univariate" else (REFERENCE[n], few)
    warmup = 500 if model == "univariate" else 300
    return Job(0, "reference", gb.FrozenNUTS(), draws, warmup, 8, num_simulations=m)


def jobs(model: str, n: int) -> Iterator[Job]:
    """What the aims need on every problem, and every sampler on two."""
    wanted = [*_frozen(model, n), *_metropolis(model, n), *_langevin(model, n)]
    every = (model, n) in EVERY_SAMPLER
    yield from (job for job in wanted if every or job.rank == 1)
    if every:
        yield from _extended()
        yield from _other_langevin(n)
    if (model, n) == ("univariate", 100):
        yield from _sweep()


def _frozen(model: str, n: int) -> Iterator[Job]:
    import genbayes as gb

    uni = model == "univariate"
    wanted = (FROZEN if uni else FROZEN_MULTIVARIATE)[n]
    draws, warmup = (1500, 500) if uni else (400, 300)
    for m in (wanted // 2, wanted, 2 * wanted):
        rank = 1 if m == wanted else 2
        yield Job(rank, "FrozenNUTS()", gb.FrozenNUTS(), draws, warmup, num_simulations=m)


def _metropolis(model: str, n: int) -> Iterator[Job]:
    import genbayes as gb

    length = 30_000 if model == "univariate" else 15_000
    run = {"num_samples": length // 10, "num_warmup": length // 4, "thinning": 10}
    for rank, groups in ((1, 100), (2, 500), (2, None)):
        words = "adapt=True" if groups is None else f"groups={groups}, adapt=True"
        sampler = gb.PseudoMarginal(PROPOSAL[n], groups=groups, adapt=True)
        yield Job(rank, f"PseudoMarginal({words})", sampler, **run)


def _extended() -> Iterator[Job]:
    import genbayes as gb

    for rank, words in ((2, "max_doublings=8"), (3, 'noise="groups"')):
        settings = {"noise": "groups"} if rank == 3 else {"max_doublings": 8}
        sampler = gb.PseudoMarginalNUTS(**settings)
        yield Job(rank, f"PseudoMarginalNUTS({words})", sampler, 400, 300, 2)


def _langevin(model: str, n: int) -> Iterator[Job]:
    import genbayes as gb

    # wide posteriors take long to cross; a gradient from half the draws is good enough for them
    slow = (model, n) == ("multivariate", 10)
    length = {10: 150_000, 100: 40_000, 400: 40_000}[n]
    length = 240_000 if slow else length
    run = {"num_samples": length // 10, "num_warmup": min(length // 5, 10_000), "thinning": 10}
    m = 256 if slow else SIMULATIONS
    # In five dimensions gradients have heavy tails, and more observations make that worse
    hard = model == "multivariate" and n > 10
    step = STEP[n] / 5 if hard else STEP[n]
    run |= {"num_samples": 6000, "num_warmup": 6000} if hard else {}
    yield Job(1, f"AdSGLD({step:g})", gb.AdSGLD(step), **run, num_simulations=m)


def _other_langevin(n: int) -> Iterator[Job]:
    import genbayes as gb

    h = PUBLISHED_STEP
    euler = gb.AdSGLD(h, diffusion=0.01 / h, integrator="euler", noise="iid")
    run = {"num_samples": 2000, "num_warmup": 2000, "thinning": 10}
    yield Job(2, "AdSGLD, published settings", euler, **run)
    small = STEP[n] ** 2
    yield Job(2, f"SGLD({small:.2g})", gb.SGLD(small), **run)
    yield Job(2, f"PSGLD({small:.2g})", gb.PSGLD(small), **run)
    yield Job(2, f"SGHMC({STEP[n]:g}, friction=1)", gb.SGHMC(STEP[n], friction=1.0), **run)


def _sweep() -> Iterator[Job]:
    """AdSGLD by step size, diffusion, integrator and noise."""
    import genbayes as gb

    run = {"num_samples": 1500, "num_warmup": 5000, "thinning": 10}
    for eps in (0.1, 0.05, 0.025):
        for diffusion in (1.0, 10.0):
            for integrator, noise in (("badodab", "sobol"), ("badodab", "iid"), ("euler", "iid")):
                sampler = gb.AdSGLD(eps, diffusion=diffusion, integrator=integrator, noise=noise)
                label = f"{integrator}|{noise}|{diffusion:g}|{eps:g}"
                yield Job(3, label, sampler, **run, sweep=True)


def draw(job: Job, target: Any, truth: Any, seed: int) -> tuple[Any, dict[str, float]]:
    """A run, and processor seconds of most of its sampling phase, by which the rest is scaled."""
    import genbayes as gb

    first = max(job.num_samples // 10, 10)
    run = gb.sample(
        target, job.sampler, num_samples=first, num_warmup=job.num_warmup, seed=seed, start=truth,
        num_chains=job.num_chains, thinning=job.thinning, chain_method=job.chain_method,
        progress=False,
    )  # fmt: skip
    began = time.process_time()
    run = gb.resume(run, num_samples=job.num_samples, progress=False)
    spent = time.process_time() - began
    drawn = run.unconstrained.shape[1]
    return run, {"cpu": spent * drawn / max(drawn - first, 1), "load": os.getloadavg()[0]}


class Case:
    """One problem: its data, its reference, and its cells."""

    def __init__(self, model: str, n: int, results: dict[str, Any], shrink: int = 1):
        import genbayes as gb

        self.model, self.n, self.shrink = model, n, shrink
        task = getattr(gb.tasks.g_and_k, model)()
        y, source = observations(model, n)
        self.problem = task.problem(y)
        self.truth = {name: float(value) for name, value in task.truth.items()}
        start = {"model": model, "n": n, "names": list(self.problem.prior.shapes), "cells": {}}
        self.known = results.setdefault(f"{model} {n}", start | {"observations": source})

    def jobs(self) -> list[Job]:
        """What is not known yet: the reference comes first."""
        wanted = [reference_job(self.model, self.n), *jobs(self.model, self.n)]
        return [job for job in wanted if job.key not in self.known["cells"]]

    def measure(self, job: Job) -> None:
        """Fill one cell."""
        import genbayes as gb

        m = job.num_simulations
        target = gb.ScorePosterior(self.problem, gb.EnergyScore(), num_simulations=m)
        short = replace(job, num_samples=job.num_samples // self.shrink)
        run, cost = draw(short, target, self.truth, seed=1 + sum(map(ord, job.key)))
        uni = self.model == "univariate"
        if job.label == "reference":
            keep, most = (600, 16384) if uni else (40, 16384)
            self.known["reference"] = reference(run, keep // self.shrink, most)
        self.known["cells"][job.key] = row = summary(job, run, cost)
        if isinstance(job.sampler, gb.FrozenNUTS) and job.label != "reference":
            points = Reweighted(run, target, (400 if uni else 60) // self.shrink)
            row |= points.ratios(points.log_weights(self.known["reference"]["m"]))
        print(f"{self.model} {self.n} {job.key}: {row['rate']:.3g} ESS/s", file=sys.stderr)


def summary(job: Job, run: Any, cost: dict[str, float]) -> dict[str, Any]:
    """What is kept of a run."""
    found = moments(run.unconstrained)
    ess = min(found.pop("ess"))
    return {
        "label": job.label, "m": job.num_simulations, "settings": repr(job.sampler),
        "draws": list(run.unconstrained.shape[:2]), "thinning": job.thinning,
        "ess": ess, "rate": ess / cost["cpu"], "sweep": job.sweep, "rank": job.rank,
        "outcome": run.status.outcome.name, "findings": list(run.status.findings),
    } | cost | found  # fmt: skip


def measure(again: bool = False, quick: bool = False) -> dict[str, Any]:
    """All cells that are missing, those of the first rank first."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() and not (again or quick) else {}
    result = {"environment": environment(), "cpu_minutes": 0.0, "cases": {}} | known
    wanted = CASES[:1] if quick else CASES
    cases = [Case(model, n, result["cases"], 10 if quick else 1) for model, n in wanted]
    todo = [(max(job.rank, 1), i, job) for i, case in enumerate(cases) for job in case.jobs()]
    # of one rank, problems that have no reference yet come first
    todo.sort(key=lambda what: (what[0], "reference" in cases[what[1]].known, what[1]))
    for rank, i, job in todo:
        if quick and rank > 1:
            continue
        before = time.process_time()
        try:
            cases[i].measure(job)
        except Exception as met:  # one sampler that fails leaves the others standing
            failed = {"label": job.label, "m": job.num_simulations, "failed": repr(met)}
            cases[i].known["cells"][job.key] = failed | {"sweep": job.sweep, "rank": rank}
            print(f"{job.key} failed: {met!r}", file=sys.stderr)
        result["cpu_minutes"] += (time.process_time() - before) / 60
        if not quick:
            save(result)
    return result


def save(result: dict[str, Any]) -> None:
    """Write the results: whole, or not at all."""
    RESULTS.parent.mkdir(exist_ok=True)
    part = RESULTS.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(RESULTS)


def rows(quick: bool = False, again: bool = False) -> list[dict[str, str]]:
    """Measure, write the results and the page, and give the table."""
    # one thread, so that processor seconds are those of one core
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    )
    os.environ.setdefault("JAX_ENABLE_X64", "0")
    result = measure(again, quick)
    if not quick:
        write_page(result)
    return table(result)


def aim_rows() -> list[dict[str, str]]:
    """From the results that were written last."""
    return aims(json.loads(RESULTS.read_text())) if RESULTS.exists() else []


def sweep_rows() -> list[dict[str, str]]:
    """From the results that were written last."""
    return sweep_table(json.loads(RESULTS.read_text())) if RESULTS.exists() else []


if __name__ == "__main__":  # the page from the results that there are
    write_page(json.loads(RESULTS.read_text()))
