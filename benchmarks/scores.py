"""Energy and Gaussian kernel scores: value and gradient against PyTorch, plain JAX and C."""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks._rounds import clock, interleaved, median, ratio, verdict

from genbayes import kernels
from genbayes.scores import AbstractScore, EnergyScore, KernelScore

HERE = Path(__file__).parent
PLOT = HERE.parent / "docs" / "images" / "score_cost.png"
SCORES = ("energy", "gaussian")
DIMENSIONS, DRAWS, OBSERVATIONS = (1, 5, 160), 500, 10
AIM_TORCH, AIM_JAX, AIM_C, AIM_MEMORY = 60, 4, 2.5, 1.5


def bandwidth(d: int) -> float:
    """The scale of the distances: with 1 in 160 dimensions every kernel value is a denormal."""
    return d**0.5


def score_of(name: str, d: int) -> AbstractScore:
    gaussian = KernelScore(kernels.Gaussian(bandwidth(d)))
    return gaussian if name == "gaussian" else EnergyScore()


def timed(call: Callable[[], Any], repeats: int) -> Callable[[], float]:
    """A case for the rounds: seconds of one call, the mean of some."""

    def measure() -> float:
        start = clock()
        for _ in range(repeats):
            call()
        return (clock() - start) / repeats

    call()
    return measure


def ours(name: str, x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    score = score_of(name, x.shape[1])
    step = jax.jit(jax.value_and_grad(score.total))
    prepared, draws = score.prepare(y), jnp.asarray(x)
    return lambda: jax.block_until_ready(step(draws, prepared))


def plain_jax(name: str, x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """The formula as a textbook writes it, left to automatic differentiation."""

    def pair_function(squared: jax.Array) -> jax.Array:
        if name == "gaussian":
            return -jnp.exp(-0.5 * squared / x.shape[1])
        safe = jnp.where(squared > 0, squared, 1.0)
        return jnp.where(squared > 0, jnp.sqrt(safe), 0.0)

    def total(x: jax.Array, y: jax.Array) -> jax.Array:
        m, n = x.shape[0], y.shape[0]
        within = pair_function(jnp.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1))
        within = jnp.sum(within * (1 - jnp.eye(m, dtype=x.dtype)))
        cross = pair_function(jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1))
        return 2 / m * jnp.sum(cross) - n / (m * (m - 1)) * within

    step = jax.jit(jax.value_and_grad(total))
    draws, data = jnp.asarray(x), jnp.asarray(y)
    return lambda: jax.block_until_ready(step(draws, data))


def pytorch(name: str, x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """Double precision, automatic differentiation through the matrix of all pairs."""
    import torch

    data = torch.tensor(y, dtype=torch.float64)
    draws = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    m, n = x.shape[0], y.shape[0]
    off = 1 - torch.eye(m, dtype=torch.float64)

    def pair_function(squared: Any) -> Any:
        if name == "gaussian":
            return -torch.exp(-0.5 * squared / x.shape[1])
        return torch.sqrt(squared + 1e-300)

    def step() -> Any:
        draws.grad = None
        within = pair_function(((draws[:, None] - draws[None]) ** 2).sum(-1)) * off
        cross = pair_function(((draws[:, None] - data[None]) ** 2).sum(-1))
        total = 2 / m * cross.sum() - n / (m * (m - 1)) * within.sum()
        total.backward()
        return total.detach(), draws.grad

    return step


def in_c(name: str, x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """The limit: one thread, single precision, every pair once."""
    pointer = ctypes.POINTER(ctypes.c_float)
    function = ctypes.CDLL(str(_compiled())).score
    function.restype = ctypes.c_float
    columns = [np.ascontiguousarray(part.T, np.float32) for part in (x, y)]
    gradient = np.empty_like(columns[0])
    arguments = [a.ctypes.data_as(pointer) for a in (*columns, gradient)]
    numbers = [ctypes.c_int(v) for v in (x.shape[0], y.shape[0], x.shape[1])]
    kind, width = ctypes.c_int(name == "gaussian"), ctypes.c_float(bandwidth(x.shape[1]))

    def step() -> Any:
        return function(kind, width, *numbers, *arguments), gradient.T

    return step


def _compiled() -> Path:
    source, library = HERE / "_pairs.c", HERE / "build" / "pairs.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(exist_ok=True)
        flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, str(source), "-o", str(library), "-lm"], check=True)
    return library


def data(m: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(m, d)).astype(np.float32), rng.normal(size=(n, d)).astype(np.float32)


CONTESTANTS = {"ours": ours, "PyTorch": pytorch, "plain JAX": plain_jax, "C": in_c}
# seconds that one measurement of each may take, and a bound on the calls it consists of
_BUDGET, _MOST = 0.02, 40


def _case(call: Callable[[], Any]) -> Callable[[], float]:
    once = min(timed(call, 1)() for _ in range(2))
    return timed(call, max(1, min(_MOST, int(_BUDGET / once))))


def check(name: str, x: np.ndarray, y: np.ndarray) -> None:
    """All contestants compute one thing, or the comparison is void."""
    value, gradient = pytorch(name, x, y)()
    size = np.sqrt(np.mean(np.square(gradient.numpy())))
    for other in ("ours", "plain JAX", "C"):
        got, slope = CONTESTANTS[other](name, x, y)()
        np.testing.assert_allclose(float(got), float(value), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(slope, gradient.numpy(), rtol=1e-2, atol=1e-2 * size)


def rows(rounds: int = 15) -> list[dict[str, Any]]:
    """One value and gradient at m = 500 and n = 10, all contestants in turn."""
    table = []
    for name in SCORES:
        for d in DIMENSIONS:
            x, y = data(DRAWS, OBSERVATIONS, d)
            check(name, x, y)
            cases = {who: _case(make(name, x, y)) for who, make in CONTESTANTS.items()}
            seconds = interleaved(cases, rounds)
            mine = seconds["ours"]
            torch, plain = (ratio(seconds[who], mine) for who in ("PyTorch", "plain JAX"))
            c = ratio(mine, seconds["C"])
            table.append(
                {
                    "score": f"{name}, d = {d}",
                    "ours (µs)": str(median(mine).scaled(1e6)),
                    "C (µs)": str(median(seconds["C"]).scaled(1e6)),
                    "PyTorch / ours": str(torch),
                    "its aim": verdict(torch, least=AIM_TORCH) if d == 5 else "",
                    "plain JAX / ours": str(plain),
                    "that aim": verdict(plain, least=AIM_JAX),
                    "ours / C": str(c),
                    "C's aim": verdict(c, most=AIM_C),
                }
            )
    return table


SIZES = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)


def cost(m: int, n: int, d: int, name: str, repeats: int) -> float:
    """Median seconds of one value and gradient."""
    measure = timed(ours(name, *data(m, n, d)), 1)
    return median([measure() for _ in range(repeats)]).value


Curves = dict[str, dict[str, dict[int, float]]]  # of m or n, of a score, seconds by size


def curves() -> Curves:
    """Cost against the numbers of draws and of observations."""
    kinds = {
        "energy, d = 1": (1, "energy"),
        "energy, d = 5": (5, "energy"),
        "Gaussian kernel, d = 5": (5, "gaussian"),
    }
    against: Curves = {"m": {}, "n": {}}
    for label, (d, name) in kinds.items():
        against["m"][label] = {
            m: cost(m, OBSERVATIONS, d, name, 9 if m < 10_000 else 1) for m in SIZES[1:6]
        }
        against["n"][label] = {n: cost(DRAWS, n, d, name, 9 if n < 10_000 else 1) for n in SIZES}
    return against


def plot(against: Curves) -> None:
    """Save the cost curves for the documentation."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    titles = {"m": "simulations m (n = 10)", "n": "observations n (m = 500)"}
    for axes, (axis, lines) in zip(figure.subplots(1, 2), against.items(), strict=True):
        for label, line in lines.items():
            axes.loglog(list(line), list(line.values()), marker="o", markersize=3, label=label)
        axes.set(xlabel=titles[axis], ylabel="seconds for value and gradient")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, dpi=120)


def memory(m: int = 100_000, d: int = 5) -> dict[str, float]:
    """Peak resident GiB of a fresh process for one value and gradient of each score.

    From Linux's own account of the process: `getrusage` begins with the peak of its parent.
    """
    code = (
        "import re, sys; from pathlib import Path; from benchmarks import scores; "
        f"scores.ours(sys.argv[1], *scores.data({m}, 10, {d}))(); "
        "status = Path('/proc/self/status').read_text(); "
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) / 2**20)"
    )
    run = partial(subprocess.run, capture_output=True, text=True, check=True, cwd=HERE.parent)
    return {name: float(run([sys.executable, "-c", code, name]).stdout) for name in SCORES}


def memory_rows() -> list[dict[str, Any]]:
    """Peak memory, with what Python and JAX take anyway."""
    return [
        {"score": f"{name}, m = 100 000, d = 5", "peak (GiB)": f"{peak:.2f}",
         "aim": f"< {AIM_MEMORY}: {'met' if peak < AIM_MEMORY else 'missed'}"}
        for name, peak in memory().items()
    ]  # fmt: skip


def growth_rows() -> list[dict[str, Any]]:
    """The curves in milliseconds; the plot goes to the docs."""
    against = curves()
    plot(against)
    rows = []
    for axis, lines in against.items():
        for label, line in lines.items():
            costs = {size: f"{1e3 * line[size]:.3g}" if size in line else "" for size in SIZES}
            rows.append(
                {"score (ms)": label, "against": axis} | {f"{k:,}": v for k, v in costs.items()}
            )
    return rows
