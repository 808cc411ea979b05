"""Other packages on the same problems: error against what each one aims at, and what it cost.

    python -m benchmarks peers [--quick] [--again]     (or: genbayes bench peers)

Each peer runs in a process of its own, on one thread, and those whose pins are not ours in a
virtual environment of their own, made below benchmarks/build/peers. Each script in
benchmarks/peer_scripts draws 1000 values; `draw` in it is the user code that is counted. There are
two kinds of target, the ordinary posterior and the scoring-rule posterior, and nobody is judged by
the other's: references are exact or independent of all peers (`_peer_references`). What is measured
is kept cell by cell in benchmarks/results/peers.json, and is not measured again unless `--again`
says so.
"""

import inspect
import json
import os
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor, as_completed
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


@dataclass(frozen=True)
class Peer:
    """A script, and what has to be installed for it; nothing where our own environment does."""

    script: str
    requirement: str = ""
    pinned: bool = False  # with our constraints


PEERS = {
    "genbayes FrozenNUTS": Peer("genbayes_frozen"),
    "genbayes AdSGLD": Peer("genbayes_adsgld"),
    "genbayes PseudoMarginal": Peer("genbayes_pseudo"),
    "BlackJAX SGNHT by hand": Peer("blackjax_sgnht"),
    "pyABC ABC-SMC": Peer("pyabc_smc"),
    "sbi NPE": Peer("sbi_npe", "sbi==0.27.0", pinned=True),
    "sbi NLE": Peer("sbi_nle", "sbi==0.27.0", pinned=True),
    "sbijax": Peer("sbijax_nle", "sbijax==0.3.4"),
    "ABCpy": Peer("abcpy", "abcpy==0.6.3"),
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
        pins = ["-c", str(HOME.parent / "constraints.txt")] if peer.pinned else []
        install = [str(python), "-m", "pip", "install", "--quiet", *pins, peer.requirement]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line.strip() for line in done.stderr.splitlines() if "error:" in line]
            raise RuntimeError(f"does not install: {lines[0] if lines else done.stderr[-200:]}")
        stamp.write_text(peer.requirement)
    return str(python)


def measure(peer: Peer, model: str, y: np.ndarray, seed: int) -> dict[str, Any]:
    """One run of one peer: its draws and what they cost."""
    python = interpreter(peer)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "problem.npz", Path(folder) / "draws.npz"
        np.savez(source, model=model, y=y, seed=seed)
        command = [python, str(SCRIPTS / f"{peer.script}.py"), str(source), str(out)]
        done = subprocess.run(
            command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False,
            timeout=TIMEOUT, cwd=folder,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        found = np.load(out)
        return {"draws": found["draws"], **json.loads(str(found["spent"]))}


def cell(name: str, model: str, y: np.ndarray, seed: int) -> dict[str, Any]:
    """One peer on one problem with one seed."""
    peer = PEERS[name]
    try:
        script = load(peer.script)
        found = measure(peer, model, y, seed)
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
    there = dict(list(problems().items())[: 1 if quick else None])
    wanted = [(seed, problem, name) for seed in SEEDS for problem in there for name in PEERS]
    wanted = [one for one in wanted if " | ".join(map(str, one)) not in result["cells"]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a process
        jobs = {
            pool.submit(cell, name, *there[problem], seed): (seed, problem, name)
            for seed, problem, name in (wanted[:1] if quick else wanted)
        }
        for job in as_completed(jobs):
            key, found = " | ".join(map(str, jobs[job])), job.result()
            result["cells"][key] = found
            print(key, found.get("error", found.get("failed")), file=sys.stderr)
            if not quick:
                save(result)
    if not quick:
        write_page(result)
    return table(result)


def save(result: dict[str, Any]) -> None:
    """Write the results: whole, or not at all."""
    RESULTS.parent.mkdir(exist_ok=True)
    part = RESULTS.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(RESULTS)


def table(result: dict[str, Any]) -> list[dict[str, str]]:
    """One row for each peer on each problem, with the range over seeds."""
    found = []
    for problem, name in ((p, n) for p in problems() for n in PEERS):
        cells = [result["cells"].get(f"{seed} | {problem} | {name}") for seed in SEEDS]
        runs = [c for c in cells if c is not None and "failed" not in c]
        failed = [c["failed"] for c in cells if c is not None and "failed" in c]
        line = {"problem": problem, "peer": name}
        columns = ("aims at", "error", "shift (sds)", "mean of the first", "simulator calls")
        columns += ("processor s", "memory MB", "lines")
        line |= dict.fromkeys(columns, "")
        if failed and not runs:
            line["aims at"] = f"({failed[0].partition(' (/')[0][:80]})"
        if runs:
            line |= {
                "aims at": runs[0]["target"],
                "error": _range([r["error"] for r in runs], ".3f"),
                "shift (sds)": _range([r["shift"] for r in runs], ".2f"),
                "mean of the first": _range([r["first mean"] for r in runs], ".2f"),
                "simulator calls": f"{runs[0]['calls']:,}",
                "processor s": _range([r["cpu"] for r in runs], ".0f"),
                "memory MB": _most([r["memory"] for r in runs]),
                "lines": str(runs[0]["lines"]),
            }
        if runs or failed:
            found.append(line)
    return found


def _range(values: list[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} – {high}"


def _most(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known):.0f}" if known else "?"


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
    replace_block(PAGE, "peers", f"{intro}\n\n{markdown(table(result))}")


if __name__ == "__main__":  # the page from the results that there are
    write_page(json.loads(RESULTS.read_text()))
