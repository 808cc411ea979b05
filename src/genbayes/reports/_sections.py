"""What the page says in words of a run: the question, the cost, where it comes from."""

import shlex
from typing import Any

import numpy as np

from .. import __version__
from .._table import format_cell
from ..runs import Run
from ._formula import references, score_formulas

UNKNOWN = "not recorded"
PAPER = (
    "Pacchiardi, L., Khoo, S. and Dutta, R. (2024). Generalized Bayesian likelihood-free "
    "inference. Electronic Journal of Statistics 18(2). doi:10.1214/24-EJS2283."
)
BIBTEX = """@article{pacchiardi2024generalized,
  title   = {Generalized {Bayesian} likelihood-free inference},
  author  = {Pacchiardi, Lorenzo and Khoo, Sherman and Dutta, Ritabrata},
  journal = {Electronic Journal of Statistics},
  volume  = {18},
  number  = {2},
  year    = {2024},
  doi     = {10.1214/24-EJS2283}
}"""


def sampler(run: Run) -> str:
    """The name of the sampler."""
    return str(run.provenance.get("sampler", "run")).split("(")[0]


def asked(run: Run) -> dict[str, Any]:
    """What the run was asked to do, in the order in which one would ask."""
    about, plan = run.provenance.get("target", {}), run.plan
    shape = about.get("observations_shape") or list(np.shape(run.observations))
    prior = [f"{name} ~ {law}" for name, law in about.get("prior", {}).items()]
    scored = {
        "score": about.get("score", UNKNOWN),
        "weight w": about.get("weight", UNKNOWN),
        "simulations per estimate": about.get("num_simulations", UNKNOWN),
    }
    return {
        "prior": prior or UNKNOWN,
        "simulator": about.get("simulator_function") or about.get("simulator") or UNKNOWN,
        "observations": f"{shape[0]} of shape {tuple(shape[1:])}" if len(shape) > 1 else shape[0],
        **(scored if plan.num_generations is None else {}),  # ABC uses no score
        "sampler": run.provenance.get("sampler", UNKNOWN),
        "draws": _drawn(run),
        "seed": run.provenance.get("seed", UNKNOWN),
    }


def _drawn(run: Run) -> str:
    plan = run.plan
    if plan.num_generations is not None:
        return (
            f"{plan.num_chains} x {plan.num_samples:,} particles, weighted, of generation "
            f"{run.num_generations:,} of {plan.num_generations:,}"
        )
    thinned = f", one in {plan.thinning} kept" if plan.thinning > 1 else ""
    size = f"{plan.num_chains} x {plan.num_samples:,}"
    return f"{size}, after a warm-up of {plan.num_warmup:,}{thinned}"


def formulas(run: Run) -> list[dict[str, Any]]:
    """The equations of the scores in the target, if they were used."""
    if run.plan.num_generations is not None:
        return []
    return score_formulas(run.provenance.get("target", {}).get("score", ""))


def cost(run: Run) -> dict[str, Any]:
    """What the run took, in all and for an effective draw of the parameter that has fewest."""
    spent, size = run.cost, smallest_ess(run)
    sampling = spent.seconds - spent.compile_seconds
    terms = {
        "simulator calls": f"{spent.simulator_calls:,}",
        "time": f"{spent.seconds:.1f} s, of which {spent.compile_seconds:.1f} s compiling",
        "steps of all chains": f"{spent.steps:,}",
    }
    if size is not None and size > 0:
        terms["effective draws"] = f"{size:,.0f}, of the parameter that has fewest"
        terms["for each of them"] = (
            f"{spent.simulator_calls / size:,.0f} simulator calls, "
            f"{format_cell(max(sampling, 0.0) / size)} s"
        )
    return terms


def smallest_ess(run: Run) -> float | None:
    """The smallest effective sample size, in bulk, or that of the weights."""
    if run.weights is not None:
        return 1 / float(np.sum(run.weights**2))
    if run.unconstrained.shape[1] == 0:
        return None
    sizes = [x for x in run.summary().column("ess bulk") if np.isfinite(x)]
    return min(sizes) if sizes else None


def provenance(run: Run) -> dict[str, Any]:
    """When, where and with what it was run."""
    known, about = run.provenance, run.provenance.get("target", {})
    return {
        "begun": known.get("started", UNKNOWN),
        "precision": f"{known.get('precision', '?')} bits",
        "machine": [f"{name}: {value}" for name, value in known.get("machine", {}).items()],
        "versions": [f"{name} {value}" for name, value in known.get("versions", {}).items()],
        "hash of the simulator": about.get("simulator_hash", UNKNOWN),
        "hash of the observations": about.get("observations_hash", UNKNOWN),
        "stored in": "memory only" if run.path is None else str(run.path),
    }


def command(run: Run) -> str | None:
    """The command that began the run, as a shell takes it."""
    words = [str(word) for word in run.provenance.get("command", [])]
    if not words or words[0] in ("", "-c"):
        return None
    program = [] if words[0].endswith(("genbayes", "pytest")) else ["python"]
    return shlex.join([*program, *words])


def call(run: Run) -> str:
    """The call that draws the same, given the same target."""
    plan, seed = run.plan, run.provenance.get("seed", "...")
    settings = {
        "num_samples": plan.num_samples,
        "num_warmup": plan.num_warmup,
        "num_chains": plan.num_chains,
        "thinning": plan.thinning,
    }
    if plan.num_generations is not None:
        del settings["num_samples"]
    defaults = {"num_warmup": 0, "num_chains": 1, "thinning": 1}
    given = [f"{k}={v}" for k, v in settings.items() if defaults.get(k) != v]
    sampler = run.provenance.get("sampler", "...")
    lines = ",\n    ".join(["target", f"gb.{sampler}", *given, f"seed={seed}"])
    return f"run = gb.sample(\n    {lines},\n)"


def cite(runs: list[Run]) -> dict[str, Any]:
    """What to cite: the method, the samplers and scores, this library."""
    found: list[str] = []
    for run in runs:
        score = run.provenance.get("target", {}).get("score", "")
        found += references(run.provenance.get("sampler", ""), score)
    library = f"genbayes {__version__}: generalised Bayesian inference on simulator models."
    return {"items": list(dict.fromkeys([PAPER, *found, library])), "bibtex": BIBTEX}
