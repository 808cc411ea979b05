"""All samplers on the g-and-k models: bias of means and sds, and effective draws a second.

The reference of every marginal is the scoring-rule posterior itself. Draws of `FrozenNUTS` are
weighted by the ratio of the density at a much larger frozen Sobol set to the density that they were
drawn from, and that set is doubled until no sd moves. Both sds come from the same draws, so their
ratio is known far better than either of them. The other samplers are compared with the result.

Effective draws a second are those of the parameter with the fewest, counted while sampling
(neither warm-up nor compilation), by processor seconds: what else the machine does changes little.

    python -m benchmarks samplers [--quick]

Each case runs in its own process. Results go to benchmarks/results/samplers.json and from there to
the tables in docs/samplers.md.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._environment import environment, markdown, replace_block

HOME = Path(__file__).resolve().parent.parent
RESULTS = HOME / "benchmarks" / "results" / "samplers.json"
PAGE = HOME / "docs" / "samplers.md"
# The observations of the published experiments, if they are at hand; else generated ones
PUBLISHED = os.environ.get("GENBAYES_PUBLISHED_OBSERVATIONS", "")
SOURCES = {("univariate", 10): "pm_uni_gk", ("univariate", 100): "pm_uni_gk"}
SOURCES |= {("univariate", 400): "sg_uni_gk_exp1"}
SOURCES |= {("multivariate", 10): "pm_mv_gk", ("multivariate", 100): "pm_mv_gk"}

MODELS, SIZES = ("multivariate", "univariate"), (400, 100, 10)
SIMULATIONS = 500  # of every sampler but frozen NUTS
STEP = {10: 0.1, 100: 0.025, 400: 0.0125}  # of AdSGLD
PROPOSAL = {10: 0.5, 100: 0.15, 400: 0.07}  # where the adaptation of pseudo-marginal chains begins
PUBLISHED_STEP = 0.03**0.5  # of the published runs, in the terms of AdSGLD
MOVES = 0.01  # the reference is doubled until no sd moves by more
AIM_FROZEN, AIM_ADSGLD, AIM_SPEED = 0.03, 0.05, 10.0


@dataclass(frozen=True)
class Job:
    """One sampler on one problem."""

    label: str
    sampler: Any
    num_samples: int
    num_warmup: int
    num_chains: int = 4
    thinning: int = 1
    num_simulations: int = SIMULATIONS


def observations(model: str, n: int) -> tuple[Any, str]:
    """The data of a case, and where they come from."""
    import genbayes as gb

    source = SOURCES.get((model, n))
    if source and PUBLISHED and Path(PUBLISHED).exists():
        y = np.load(PUBLISHED)[source][:n]
        return (y[:, 0] if model == "univariate" else y), f"published ({source})"
    task = getattr(gb.tasks.g_and_k, model)()
    return task.generate(seed=0, num_observations=n), "generated with seed 0"


def frozen_job(model: str, quick: bool) -> Job:
    """The sampler that the reference begins from."""
    import genbayes as gb

    m = 1024 if model == "univariate" else 512
    return Job(
        "FrozenNUTS()", gb.FrozenNUTS(), 600 if quick else 3000, 300 if quick else 500,
        4 if quick else 8, num_simulations=m,
    )  # fmt: skip


def jobs(model: str, n: int, quick: bool) -> Iterator[Job]:
    """Every other sampler on one problem: correlated pseudo-marginal first."""
    import genbayes as gb

    uni = model == "univariate"
    length = (60_000 if uni else 12_000) * (1 if quick else 5)
    half = length // 2 if quick else length
    metropolis = {"num_samples": half // 10, "num_warmup": half // 5, "thinning": 10}
    for groups in (100,) if quick else (100, 500):
        sampler = gb.PseudoMarginal(PROPOSAL[n], groups=groups, adapt=True)
        yield Job(f"PseudoMarginal(groups={groups}, adapt=True)", sampler, **metropolis)
    if not quick:
        sampler = gb.PseudoMarginal(PROPOSAL[n], adapt=True)
        yield Job("PseudoMarginal(adapt=True)", sampler, **metropolis)
    langevin = {"num_samples": length // 10, "num_warmup": length // 5, "thinning": 10}
    yield Job(f"AdSGLD({STEP[n]:g})", gb.AdSGLD(STEP[n]), **langevin)
    h = PUBLISHED_STEP
    euler = gb.AdSGLD(h, diffusion=0.01 / h, integrator="euler", noise="iid")
    yield Job("AdSGLD, published settings", euler, **metropolis)
    if n < 400 or not quick:
        yield from _extended(uni, quick)
    if not quick:
        small = STEP[n] ** 2
        yield Job(f"SGLD({small:.2g})", gb.SGLD(small), **langevin)
        yield Job(f"PSGLD({small:.2g})", gb.PSGLD(small), **langevin)
        sghmc = gb.SGHMC(STEP[n], friction=1.0)
        yield Job(f"SGHMC({STEP[n]:g}, friction=1)", sghmc, **langevin)


def _extended(uni: bool, quick: bool) -> Iterator[Job]:
    import genbayes as gb

    doublings = (7 if uni else 6) if quick else 10
    joint = gb.PseudoMarginalNUTS(max_doublings=doublings)
    label = f"PseudoMarginalNUTS(max_doublings={doublings})"
    yield Job(label, joint, 400 if uni else 150, 300 if uni else 150, 2)
    groups = gb.PseudoMarginalNUTS(noise="groups")
    length = (1000 if uni else 250) * (1 if quick else 4)
    label = 'PseudoMarginalNUTS(noise="groups")'
    yield Job(label, groups, length, 300 if uni else 150, 4 if uni else 2)


def sweep(quick: bool) -> Iterator[Job]:
    """AdSGLD by step size, diffusion, integrator and noise, on the univariate model, n = 100."""
    import genbayes as gb

    length = 40_000 if quick else 400_000
    run = {"num_samples": length // 10, "num_warmup": length // 5, "thinning": 10}
    for eps in (0.1, 0.05, 0.025) if quick else (0.1, 0.05, 0.025, 0.0125):
        for diffusion in (1.0, 10.0):
            for integrator, noise in (("badodab", "sobol"), ("badodab", "iid"), ("euler", "iid")):
                if quick and diffusion > 1 and noise == "sobol":
                    continue
                sampler = gb.AdSGLD(eps, diffusion=diffusion, integrator=integrator, noise=noise)
                yield Job(f"{integrator}|{noise}|{diffusion:g}|{eps:g}", sampler, **run)


def draw(job: Job, target: Any, truth: Any, seed: int) -> tuple[Any, dict[str, float]]:
    """A run, and processor seconds of most of its sampling phase, by which the rest is scaled."""
    import genbayes as gb

    first = max(job.num_samples // 10, 10)
    run = gb.sample(
        target, job.sampler, num_samples=first, num_warmup=job.num_warmup, seed=seed, start=truth,
        num_chains=job.num_chains, thinning=job.thinning, progress=False,
    )  # fmt: skip
    began = time.process_time()
    run = gb.resume(run, num_samples=job.num_samples, progress=False)
    spent = time.process_time() - began
    drawn = run.unconstrained.shape[1]
    cpu = spent * drawn / max(drawn - first, 1)
    return run, {"cpu": cpu, "seconds": run.cost.seconds - run.cost.compile_seconds}


def moments(u: np.ndarray) -> dict[str, list[float]]:
    """Means and sds over `(chain, draw, p)`, with their Monte Carlo errors, and effective draws."""
    from genbayes._convergence import ess_bulk, ess_mean

    found: dict[str, list[float]] = {k: [] for k in ("mean", "mean_error", "sd", "sd_error", "ess")}
    for j in range(u.shape[2]):
        x = np.asarray(u[:, :, j], float)
        sd, square = x.std(), (x - x.mean()) ** 2
        found["mean"].append(float(x.mean()))
        found["mean_error"].append(float(sd / np.sqrt(ess_mean(x))))
        found["sd"].append(float(sd))
        found["sd_error"].append(float(0.5 * square.std() / np.sqrt(ess_mean(square)) / sd))
        found["ess"].append(ess_bulk(x))
    return found


class Reweighted:
    """Moments of the draws of a frozen run under densities with more simulations."""

    def __init__(self, run: Any, target: Any, keep: int):
        stride = max(1, run.unconstrained.shape[1] // keep)
        self.u = np.asarray(run.unconstrained[:, ::stride], float)
        self.own = np.asarray(run.info["log_density"][:, ::stride], float)
        self.target = target

    def log_weights(self, m: int, seed: int) -> np.ndarray:
        """By chain, since each has its own noise and its own constant."""
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        from genbayes.targets import sobol_noise, with_all_pairs

        target = eqx.tree_at(lambda t: t.num_simulations, with_all_pairs(self.target), m)
        noise = sobol_noise(jax.random.key(seed), target)

        @jax.jit
        def values(u: Any) -> Any:
            return jax.lax.map(lambda v: target.log_density(v, noise), u)

        chains, draws, size = self.u.shape
        found = values(jnp.asarray(self.u.reshape(-1, size), float))
        return np.asarray(found, float).reshape(chains, draws) - self.own

    def ratios(self, log_weights: np.ndarray) -> dict[str, Any]:
        """Own sd over weighted sd, shift of the mean in sds, and jackknife errors of both."""
        whole, blocks = self._ratios(log_weights), []
        chains, draws = log_weights.shape
        for block in np.array_split(np.arange(draws), 5):
            for c in range(chains):
                keep = np.ones((chains, draws), bool)
                keep[c, block] = False
                blocks.append(self._ratios(np.where(keep, log_weights, -np.inf), keep))
        spread = np.std(blocks, axis=0) * np.sqrt(len(blocks) - 1)
        w = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        share = (w.sum(axis=1) ** 2 / (w**2).sum(axis=1) / draws).min()
        return {
            "ratio": whole[0].tolist(), "ratio_error": spread[0].tolist(),
            "shift": whole[1].tolist(), "shift_error": spread[1].tolist(),
            "weighted_sd": whole[2].tolist(), "effective_share": float(share),
        }  # fmt: skip

    def _ratios(self, log_weights: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
        w = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        w = w / w.sum(axis=1, keepdims=True)
        v = np.ones_like(w) if keep is None else keep.astype(float)
        v = v / v.sum(axis=1, keepdims=True)
        (mean_w, sd_w), (mean_v, sd_v) = (self._moments(x / len(x)) for x in (w, v))
        return np.stack([sd_v / sd_w, (mean_v - mean_w) / sd_w, sd_w])

    def _moments(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.einsum("cd,cdp->p", w, self.u)
        return mean, np.sqrt(np.einsum("cd,cdp->p", w, (self.u - mean) ** 2))


def reference(run: Any, target: Any, quick: bool) -> dict[str, Any]:
    """The last rung of a ladder of doubled simulations, and how far each rung moved."""
    uni = target.problem.prior.size == 4
    keep, most = (200, 16384) if uni else (100, 4096)
    points = Reweighted(run, target, keep if quick else 3 * keep)
    m, rungs = target.num_simulations, []
    total, before = 0.0, None
    while m < (most if quick else 2 * most):
        m *= 2
        total = points.log_weights(m, seed=m)
        rungs.append(points.ratios(total) | {"m": m})
        sds = np.array(rungs[-1]["weighted_sd"])
        rungs[-1]["moved"] = None if before is None else float(np.max(np.abs(sds / before - 1)))
        if before is not None and rungs[-1]["moved"] <= MOVES:
            break
        before = sds
    return rungs[-1] | {"ladder": [(r["m"], r["moved"]) for r in rungs]}


def compared(found: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """Ratios of sds and shifts of means against the reference, with their errors."""
    sd, ref = np.array(found["sd"]), np.array(truth["sd"])
    error = np.hypot(found["sd_error"], truth["sd_error"])
    shift = (np.array(found["mean"]) - truth["mean"]) / ref
    shift_error = np.hypot(found["mean_error"], truth["mean_error"]) / ref
    return {
        "ratio": (sd / ref).tolist(), "ratio_error": (sd / ref * error).tolist(),
        "shift": shift.tolist(), "shift_error": shift_error.tolist(),
    }  # fmt: skip


def case(model: str, n: int, quick: bool, kind: str = "samplers") -> Iterator[dict[str, Any]]:
    """The reference and all samplers on one problem: what is known after each of them."""
    import genbayes as gb

    task = getattr(gb.tasks.g_and_k, model)()
    y, source = observations(model, n)
    problem = task.problem(y)
    truth = {name: float(value) for name, value in task.truth.items()}

    def run(job: Job, seed: int) -> tuple[Any, dict[str, Any]]:
        m = job.num_simulations
        target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=m)
        run, cost = draw(job, target, truth, seed)
        return run, summary(job, run, cost, f"{model} {n}")

    frozen, row = run(frozen_job(model, quick), 1)
    ref = reference(frozen, frozen.target, quick)
    ratio, shift = np.array(ref["ratio"]), np.array(ref["shift"])
    exact = {
        "sd": (row["sd"] / ratio).tolist(), "sd_error": row["sd_error"],
        "mean": (row["mean"] - shift * np.array(row["sd"]) / ratio).tolist(),
        "mean_error": row["mean_error"],
    }  # fmt: skip
    names = ("ratio", "ratio_error", "shift", "shift_error")
    rows = [row | {k: ref[k] for k in names}]
    result = {
        "kind": kind, "model": model, "n": n, "quick": quick, "environment": environment(),
        "observations": source, "names": list(problem.prior.shapes), "rows": rows,
        "reference": exact | {k: ref[k] for k in ("m", "ladder", "effective_share")},
    }  # fmt: skip
    yield result
    for i, job in enumerate(sweep(quick) if kind == "sweep" else jobs(model, n, quick)):
        try:
            found = run(job, 2 + i)[1]
            rows.append(found | compared(found, exact))
        except Exception as met:  # one sampler that fails leaves the others standing
            rows.append({"label": job.label, "m": job.num_simulations, "failed": str(met)})
        yield result


def summary(job: Job, run: Any, cost: dict[str, float], where: str) -> dict[str, Any]:
    """What is kept of a run."""
    found = moments(run.unconstrained)
    ess = min(found.pop("ess"))
    rate, spent = ess / cost["cpu"], f"{time.process_time():.0f} s so far"
    print(f"{where} {job.label}: {rate:.3g} ESS/s, {spent}", file=sys.stderr, flush=True)
    return {
        "label": job.label, "m": job.num_simulations, "settings": repr(job.sampler), "ess": ess,
        "rate": rate, "wall_rate": ess / cost["seconds"], "findings": list(run.status.findings),
    } | cost | found  # fmt: skip


def measure(quick: bool, workers: int = 2) -> dict[str, Any]:
    """All cases, each in a process of its own; what is known is written as each one ends."""
    cases = [("samplers", model, n) for n in SIZES for model in MODELS]
    cases.insert(4, ("sweep", "univariate", 100))
    RESULTS.parent.mkdir(exist_ok=True)
    began = time.perf_counter()
    found: list[dict[str, Any]] = []

    def one(what: tuple[str, str, int]) -> None:
        command = [sys.executable, "-m", "benchmarks.samplers", *map(str, what), str(int(quick))]
        flags = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, cwd=HOME,
            env=os.environ | {"XLA_FLAGS": flags, "JAX_ENABLE_X64": "0"},
        )  # fmt: skip
        if done.returncode:
            print(f"{what} ended with code {done.returncode}; see above", file=sys.stderr)
        found.extend(json.loads(line) for line in done.stdout.splitlines()[-1:])
        collect(found, (time.perf_counter() - began) / 60)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, cases))
    return json.loads(RESULTS.read_text())


def collect(found: list[dict[str, Any]], minutes: float | None = None) -> None:
    """Write the results of some cases."""
    order = sorted(found, key=lambda c: (c["kind"], c["model"] != "univariate", c["n"]))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"minutes": minutes, "cases": order}, indent=1) + "\n")


def _worst(row: dict[str, Any], names: Sequence[str], what: str, centre: float) -> str:
    values, errors = np.array(row[what]), np.array(row[f"{what}_error"])
    j = int(np.argmax(np.abs(values - centre)))
    return f"{values[j]:.3f} ± {errors[j]:.3f} ({names[j]})"


def verdict(row: dict[str, Any], aim: float) -> str:
    """Whether all sd ratios are within the aim, as far as Monte Carlo error lets one say."""
    values, errors = np.abs(np.array(row["ratio"]) - 1), np.array(row["ratio_error"])
    if np.all(values <= aim):
        return "met" if np.all(values + 2 * errors <= aim) else "met, within error"
    return "missed" if np.any(values - 2 * errors > aim) else "not settled"


def table(result: dict[str, Any]) -> list[dict[str, str]]:
    """One row for each sampler on each problem."""
    rows = []
    for c in (c for c in result["cases"] if c["kind"] == "samplers"):
        base = next((r for r in c["rows"] if r["label"].startswith("PseudoMarginal(groups")), None)
        for row in c["rows"]:
            line = {"problem": f"{c['model']}, n = {c['n']}", "sampler": f"`{row['label']}`"}
            line["m"] = str(row["m"])
            if "failed" in row:
                keys = ("sd ratio furthest from 1", "largest shift of a mean (sds)", "ESS")
                rows.append(line | dict.fromkeys(keys, "failed") | _rates(None, None))
                continue
            line["sd ratio furthest from 1"] = _worst(row, c["names"], "ratio", 1.0)
            line["largest shift of a mean (sds)"] = _worst(row, c["names"], "shift", 0.0)
            line["ESS"] = f"{row['ess']:.0f}"
            rows.append(line | _rates(row, base))
    return rows


def _rates(row: dict[str, Any] | None, base: dict[str, Any] | None) -> dict[str, str]:
    rate = "" if row is None else f"{row['rate']:.3g}"
    known = row is not None and base is not None and "rate" in base
    times = f"{row['rate'] / base['rate']:.3g}" if known else ""  # pyright: ignore
    flag = "" if row is None else ("yes" if row["findings"] else "")
    return {"ESS/s": rate, "times correlated PM": times, "warned": flag}


def aims(result: dict[str, Any]) -> list[dict[str, str]]:
    """What was aimed at, and what came out."""
    rows = []
    for c in (c for c in result["cases"] if c["kind"] == "samplers"):
        by = {r["label"].split("(")[0]: r for r in reversed(c["rows"]) if "failed" not in r}
        frozen, line = c["rows"][0], {"problem": f"{c['model']}, n = {c['n']}"}
        line["reference m (sds moved by)"] = "{} ({})".format(
            c["reference"]["m"],
            "?" if c["reference"]["ladder"][-1][1] is None
            else f"{c['reference']['ladder'][-1][1]:.1%}",
        )  # fmt: skip
        line["frozen NUTS, sds within 3 %"] = verdict(frozen, AIM_FROZEN)
        base = next((r for r in c["rows"] if r["label"].startswith("PseudoMarginal(groups")), {})
        times = frozen["rate"] / base["rate"] if "rate" in base else float("nan")
        said = "met" if times >= AIM_SPEED else "missed"
        line["frozen NUTS, 10 times correlated PM"] = f"{said} ({times:.0f})"
        adsgld = by.get("AdSGLD")
        line["AdSGLD defaults, sds within 5 %"] = verdict(adsgld, AIM_ADSGLD) if adsgld else ""
        rows.append(line)
    return rows


def sweep_table(result: dict[str, Any]) -> list[dict[str, str]]:
    """AdSGLD by integrator, noise, diffusion and step size."""
    rows = []
    for c in (c for c in result["cases"] if c["kind"] == "sweep"):
        for row in c["rows"][1:]:
            parts = row["label"].split("|")
            line = dict(zip(("integrator", "noise", "diffusion", "step"), parts, strict=True))
            if "failed" in row:
                rows.append(line | {"sd ratio furthest from 1": "failed"} | dict.fromkeys(
                    ("mean of the sd ratios", "largest shift of a mean (sds)", "ESS/s"), ""
                ))  # fmt: skip
                continue
            line["sd ratio furthest from 1"] = _worst(row, c["names"], "ratio", 1.0)
            line["mean of the sd ratios"] = f"{np.mean(row['ratio']):.3f}"
            line["largest shift of a mean (sds)"] = _worst(row, c["names"], "shift", 0.0)
            rows.append(line | {"ESS/s": f"{row['rate']:.3g}"})
    return rows


def write_page(result: dict[str, Any]) -> None:
    """The tables of the page, from the results."""
    setting = {k: v for c in result["cases"][:1] for k, v in c["environment"].items()}
    kind = "Reduced run (`--quick`)" if any(c["quick"] for c in result["cases"]) else "Full run"
    took = "" if result["minutes"] is None else f", {result['minutes']:.0f} minutes"
    data = ", ".join(
        f"{c['model']} n = {c['n']}: {c['observations']}"
        for c in result["cases"]
        if c["kind"] == "samplers"
    )
    what = ", ".join(f"{k} {v}" for k, v in setting.items())
    intro = f"{kind}{took}; {what}. Data: {data}."
    parts: dict[str, Callable[[dict[str, Any]], list[dict[str, str]]]] = {
        "aims": aims, "samplers": table, "sweep": sweep_table,
    }  # fmt: skip
    for name, rows in parts.items():
        found = rows(result)
        text = markdown(found) if found else "(not measured yet)"
        replace_block(PAGE, name, f"{intro}\n\n{text}" if name == "aims" else text)


def rows(quick: bool = False) -> list[dict[str, str]]:
    """Measure, write the results and the page, and give the table."""
    result = measure(quick)
    write_page(result)
    return table(result)


def aim_rows() -> list[dict[str, str]]:
    """From the results that were written last."""
    return aims(json.loads(RESULTS.read_text()))


def sweep_rows() -> list[dict[str, str]]:
    """From the results that were written last."""
    return sweep_table(json.loads(RESULTS.read_text()))


def main(words: list[str]) -> None:
    """Without words: the page from the results. Else one case, which prints what it knows."""
    if words[:1] == ["collect"]:
        collect([json.loads(Path(w).read_text().splitlines()[-1]) for w in words[1:]])
        words = []
    if not words:
        write_page(json.loads(RESULTS.read_text()))
        return
    kind, model, n, quick = words
    for known in case(model, int(n), bool(int(quick)), kind):
        print(json.dumps(known), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
