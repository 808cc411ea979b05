"""What every peer shares: its problem, simulators in NumPy, and what its process took."""

import importlib
import importlib.metadata
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

NAMES = {"g_and_k": ("A", "B", "g", "k"), "normal": ("mean",)}
LIMIT = 240  # processor seconds, after which a process is ended
calls = 0  # draws of the simulator, in single observations


def simulate(model: str, theta: np.ndarray, num: int, rng: np.random.Generator) -> np.ndarray:
    """`num` draws for each row of parameters, `(rows, num)`."""
    global calls
    theta = np.atleast_2d(np.asarray(theta, float))
    calls += len(theta) * num
    z = rng.standard_normal((len(theta), num))
    if model == "normal":
        return theta[:, :1] + z
    a, b, g, k = (theta[:, j : j + 1] for j in range(4))
    return a + b * (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z


def run(
    draw: Callable[[np.ndarray, str, int, float], np.ndarray], packages: tuple[str, ...]
) -> None:
    """Called by each script: draws for the problem of the command line, with what they cost.

    The packages are imported before the clock starts.
    """
    source, out = sys.argv[1:3]
    problem = np.load(source)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    for name in packages:
        importlib.import_module(name)
    began, wall = time.process_time(), time.perf_counter()
    settings = str(problem["model"]), int(problem["seed"]), float(problem["effort"])
    draws = np.asarray(draw(problem["y"], *settings), float)  # JAX may still be computing them
    spent = {
        "cpu": time.process_time() - began,
        "wall": time.perf_counter() - wall,
        "memory": peak_memory(),
        "calls": calls,
        "versions": {n: importlib.metadata.version(n) for n in (p.split(".")[0] for p in packages)},
    }
    np.savez(out, draws=draws, spent=json.dumps(spent))


def peak_memory() -> float:
    """MB at most. (The resource usage of a process begins with that of the one that started it.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
