"""Other packages on the same problems: error against what each one aims at, and what it cost.

    python -m benchmarks peers [--quick] [--again]     (or: genbayes bench peers)

Each peer runs in a process of its own, one after the other, on one thread, and those whose pins
are not ours in a virtual environment of their own, made below benchmarks/build/peers. Each script
in benchmarks/peer_scripts draws about 1000 values; `draw` in it is the user code that is counted.
There are two kinds of target, the ordinary posterior and the scoring-rule posterior, and nobody is
judged by the other's: references are exact or independent of all peers (`_peer_references`).

A peer begins with a quarter of what its script has (simulations, steps), and goes on to all of it
and, if it can be afforded, four times as much, until it is nearer to its target than `ACCURACY`; so
the processor seconds that the accuracy takes are known to a factor of four. What is measured is
kept cell by cell in benchmarks/results/peers.json, and is not measured again unless `--again` says
so.
"""

import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from functools import lru_cache
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

from ._environment import environment, markdown, replace_block
from ._peer_references import energy_distance, reference

HOME = Path(__file__).resolve().parent
SCRIPTS, BUILD = HOME / "peer_scripts", HOME / "build" / "peers"
RESULTS, PAGE = HOME / "results" / "peers.json", HOME.parent / "docs" / "peers.md"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
ONE_THREAD |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
SEEDS = (1, 2)
TIMEOUT = 1800.0
EFFORTS = (0.25, 1.0, 4.0)
ACCURACY = 0.05  # in energy distance
HOPELESS = 2.0  # from where more of the same would not help
AFFORDED = 100.0  # processor seconds that the next effort may be expected to take
SLOWEST = "sbi NLE"  # comes last, so that an interrupted comparison has the others
FIRST = "genbayes FrozenNUTS"  # the others' seconds are told as multiples of its


COLUMNS = (
    "aims at", "error", "shift (sds)", "mean of the first", "simulator calls", "processor s",
    "times FrozenNUTS", "memory MB", "lines",
)  # fmt: skip


@dataclass(frozen=True)
class Peer:
    """A script, and what has to be installed for it; nothing where our own environment does."""

    script: str
    requirement: str = ""
    pins: Path | None = None
    alone: bool = (
        False  # without what it asks for, of which something does not install: with its pins
    )


OURS = HOME.parent / "constraints.txt"
PEERS = {
    FIRST: Peer("genbayes_frozen"),
    "genbayes AdSGLD": Peer("genbayes_adsgld"),
    "genbayes PseudoMarginal": Peer("genbayes_pseudo"),
    "BlackJAX SGNHT by hand": Peer("blackjax_sgnht"),
    "ABCpy MCMC": Peer("abcpy_mcmc", "abcpy==0.6.3", SCRIPTS / "abcpy.txt", alone=True),
    "pyABC ABC-SMC": Peer("pyabc_smc", "pyabc==0.13.0", OURS),
    "sbi NPE": Peer("sbi_npe", "sbi==0.27.0", OURS),
    SLOWEST: Peer("sbi_nle", "sbi==0.27.0", OURS),
    "sbijax NPE": Peer("sbijax_npe", "sbijax==0.3.4", SCRIPTS / "sbijax.txt"),
}


def problems() -> dict[str, tuple[str, np.ndarray]]:
    """Name to model and observations."""
    import genbayes as gb

    uni = gb.tasks.g_and_k.univariate()
    outliers = gb.tasks.normal_location(contamination=0.1, outlier=10.0)
    return {
        "g-and-k, n = 10": ("g_and_k", np.asarray(uni.generate(0, 10), float)),
        "normal, 10 % outliers, n = 100": ("normal", np.asarray(outliers.generate(0, 100), float)),
        "g-and-k, n = 100": ("g_and_k", np.asarray(uni.generate(0, 100), float)),
    }


def interpreter(peer: Peer) -> str:
    """The Python to run a peer with; its environment is made the first time."""
    if not peer.requirement:
        return sys.executable
    folder = BUILD / peer.requirement.split("==")[0]
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists():
        venv.create(folder, with_pip=True, clear=True)
        wanted = [["-c", str(peer.pins), peer.requirement]]
        if peer.alone:
            wanted = [["-r", str(peer.pins)], ["--no-deps", peer.requirement]]
        for words in wanted:
            install = [str(python), "-m", "pip", "install", "--quiet", *words]
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = [line.strip() for line in done.stderr.splitlines() if "error:" in line]
                raise RuntimeError(f"does not install: {(lines or [done.stderr[-200:]])[0]}")
        stamp.write_text(peer.requirement)
    return str(python)


def measure(peer: Peer, model: str, y: np.ndarray, seed: int, effort: float) -> dict[str, Any]:
    """One run of one peer: its draws and what they cost."""
    python = interpreter(peer)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "problem.npz", Path(folder) / "draws.npz"
        np.savez(source, model=model, y=y, seed=seed, effort=effort)
        command = [python, str(SCRIPTS / f"{peer.script}.py"), str(source), str(out)]
        done = subprocess.run(
            command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False,
            timeout=TIMEOUT, cwd=folder,
        )  # fmt: skip
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            raise RuntimeError("more processor seconds than allowed")
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        found = np.load(out)
        return {"draws": found["draws"], **json.loads(str(found["spent"]))}


def cell(name: str, model: str, y: np.ndarray, seed: int, effort: float) -> dict[str, Any]:
    """One peer on one problem with one seed and effort."""
    peer = PEERS[name]
    try:
        script = load(peer.script)
        found = measure(peer, model, y, seed, effort)
        exact = exact_draws(model, y.tobytes(), script.TARGET)
    except Exception as met:  # one that fails leaves the others standing
        return {"failed": str(met)}
    draws = found.pop("draws")
    shift = np.max(np.abs(draws.mean(axis=0) - exact.mean(axis=0)) / exact.std(axis=0))
    code = inspect.getsource(script.draw).splitlines()
    return found | {
        "target": script.TARGET,
        "error": energy_distance(draws, exact),
        "floor": energy_distance(exact[::2], exact[1::2]),
        "shift": float(shift),
        "first mean": float(draws[:, 0].mean()),
        "lines": len([line for line in code if line.strip()]),
        "load": os.getloadavg()[0],
    }


@lru_cache
def exact_draws(model: str, y: bytes, target: str) -> np.ndarray:
    """The reference, computed once."""
    return reference(model, np.frombuffer(y), target)


def load(script: str) -> Any:
    """A peer's script as a module; the packages it compares are imported only when it draws."""
    path = SCRIPTS / f"{script}.py"
    if not path.exists():
        return None
    sys.path.insert(0, str(SCRIPTS))
    spec = util.spec_from_file_location(script, path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(quick: bool = False, again: bool = False) -> list[dict[str, str]]:
    """Measure what is missing, write the results and the page, and give the table."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() and not (again or quick) else {}
    result = {"environment": environment(), "cells": {}} | known
    there = problems()
    wanted = [(seed, problem, name) for seed in SEEDS for problem in there for name in PEERS]
    wanted.sort(key=lambda one: one[2] == SLOWEST)
    for seed, problem, name in wanted[:1] if quick else wanted:
        while (effort := next_effort(efforts(result, seed, problem, name))) is not None:
            key = f"{seed} | {problem} | {name} | {effort}"
            found = result["cells"][key] = cell(name, *there[problem], seed, effort)
            print(key, found.get("error", found.get("failed")), file=sys.stderr)
            if not quick:
                save(result)
                write_page(result)
    return table(result)


def efforts(result: dict[str, Any], seed: int, problem: str, name: str) -> dict[float, Any]:
    """Effort to what was measured."""
    start = f"{seed} | {problem} | {name} | "
    cells = result["cells"]
    return {float(k.removeprefix(start)): c for k, c in cells.items() if k.startswith(start)}


def next_effort(known: dict[float, Any]) -> float | None:
    """What to try next, if anything."""
    if len(known) == len(EFFORTS):
        return None
    if known:
        last = known[max(known)]
        if "failed" in last or last["error"] < ACCURACY:
            return None
        dear = last["cpu"] * EFFORTS[1] / EFFORTS[0] > AFFORDED
        if len(known) > 1 and (last["error"] > HOPELESS or dear):
            return None
    return EFFORTS[len(known)]


def save(result: dict[str, Any]) -> None:
    """Write the results: whole, or not at all."""
    RESULTS.parent.mkdir(exist_ok=True)
    part = RESULTS.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(RESULTS)


def table(result: dict[str, Any]) -> list[dict[str, str]]:
    """One row for each peer on each problem: its last effort, with the range over seeds."""
    found = []
    for problem, name in ((p, n) for p in problems() for n in PEERS):
        there = [efforts(result, seed, problem, name) for seed in SEEDS]
        last = [known[max(known)] for known in there if known]
        runs = [c for c in last if "failed" not in c]
        line = {"problem": problem, "peer": name} | dict.fromkeys(COLUMNS, "")
        if runs:
            line |= {
                "aims at": runs[0]["target"],
                "error": _range([r["error"] for r in runs], ".3f"),
                "shift (sds)": _range([r["shift"] for r in runs], ".2f"),
                "mean of the first": _range([r["first mean"] for r in runs], ".2f"),
                "simulator calls": _range([r["calls"] for r in runs], ",d"),
                "processor s": _range([r["cpu"] for r in runs], ".0f"),
                "times FrozenNUTS": _ratios(result, problem, name),
                "memory MB": f"{max(r['memory'] for r in runs):.0f}",
                "lines": str(runs[0]["lines"]),
            }
        elif last:
            line["aims at"] = f"({last[0]['failed'].partition(' (/')[0][:80]})"
        if last:
            found.append(line)
    return found


def _ratios(result: dict[str, Any], problem: str, name: str) -> str:
    """Processor seconds to the accuracy over those of the first peer, seed by seed."""
    found = []
    for seed in SEEDS:
        own, first = (efforts(result, seed, problem, one) for one in (name, FIRST))
        if own and first:
            found.append(_seconds(own) / _seconds(first))
    if not any(np.isfinite(found)):
        return "not reached" if found else ""
    return _range(found, ".2g").replace("inf", "not reached")


def _seconds(known: dict[float, Any]) -> float:
    """The fewest processor seconds with which a peer came nearer than the accuracy, if it did."""
    near = [c["cpu"] for c in known.values() if c.get("error", np.inf) < ACCURACY]
    return min(near, default=np.inf)


def _range(values: list[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} – {high}"


def write_page(result: dict[str, Any]) -> None:
    """The table of the page, from the results."""
    what = ", ".join(f"{k} {v}" for k, v in result["environment"].items())
    versions: dict[str, str] = {}
    for row in result["cells"].values():
        versions |= row.get("versions", {})
    loads = [row["load"] for row in result["cells"].values() if "load" in row]
    used = ", ".join(f"{k} {v}" for k, v in sorted(versions.items()))
    intro = f"{what}; peers: {used}; load averages {min(loads):.0f} to {max(loads):.0f}."
    floors = {
        (k.split(" | ")[1], r["target"]): r["floor"]
        for k, r in result["cells"].items()
        if "target" in r
    }
    said = "; ".join(f"{p} ({t}): {f:.3f}" for (p, t), f in floors.items())
    intro += f" Two halves of a reference are apart by: {said}."
    found = table(result)
    for problem in dict.fromkeys(row["problem"] for row in found):
        lines = [{k: v for k, v in r.items() if k != "problem"} for r in found
                 if r["problem"] == problem]  # fmt: skip
        intro += f"\n\n### {problem}\n\n{markdown(lines)}"
    replace_block(PAGE, "peers", intro[:1].upper() + intro[1:])


if __name__ == "__main__":  # the page from the results that there are
    write_page(json.loads(RESULTS.read_text()))
