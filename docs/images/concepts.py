"""Pictures of the pages on concepts: everything in closed form or from a few estimates.

.venv/bin/python docs/images/concepts.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import genbayes as gb

HERE = Path(__file__).parent
GRID = np.linspace(-1, 4, 801)


def energy(d: np.ndarray) -> np.ndarray:
    """Energy score of N(theta, 1) at theta + d, but for a constant."""
    return 2 * (2 * norm.pdf(d) + d * (2 * norm.cdf(d) - 1))


def kernel(d: np.ndarray, bandwidth: float = 0.956) -> np.ndarray:
    """Kernel score of N(theta, 1) at theta + d, but for a constant."""
    wide = bandwidth**2 + 1
    return -2 * bandwidth / np.sqrt(wide) * np.exp(-(d**2) / (2 * wide))


def posterior(loss, y: np.ndarray, weight: float) -> np.ndarray:
    """Density over the grid, prior N(0, 1)."""
    log = norm.logpdf(GRID) - weight * loss(y[:, None] - GRID).sum(axis=0)
    density = np.exp(log - log.max())
    return density / (density.sum() * (GRID[1] - GRID[0]))


def posteriors() -> None:
    """Standard Bayes beside score posteriors: clean data, and data with outliers."""
    standard = {"standard Bayes": (lambda d: d**2 / 2, 1.0, "0.4")}
    widths = {f"energy score, w = {w:g}": (energy, w, f"C{j}") for j, w in enumerate((0.5, 1, 2))}
    others = {
        "energy score, w = 1": (energy, 1, "C1"),
        "kernel score, w = 2.8": (kernel, 2.8, "C4"),
    }
    figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
    for ax, share, curves in zip(axes, (0.0, 0.1), (widths, others), strict=True):
        y = np.asarray(gb.tasks.normal_location(contamination=share).generate(0, 100))
        for label, (loss, weight, colour) in (standard | curves).items():
            ax.plot(GRID, posterior(loss, y, weight), color=colour, label=label)
        ax.axvline(1.0, color="k", linestyle="--", linewidth=0.8)
        ax.set(title=f"{share:.0%} outliers at 10", xlabel="mean", xlim=(0, 3))
        ax.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel("posterior density")
    save(figure, "concepts-posteriors")


def estimates() -> None:
    """The estimated log density along one parameter: fresh noise, and noise held fixed."""
    problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    grid = jnp.linspace(-0.5, 2.5, 120)
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
    for ax, m in zip(axes, (10, 100, 1000), strict=True):
        target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=m)
        frozen = target.draw_noise(jax.random.key(1))
        keys = jax.random.split(jax.random.key(2), len(grid))
        fresh = [
            target.log_density(u[None], target.draw_noise(key))
            for u, key in zip(grid, keys, strict=True)
        ]
        ax.plot(grid, np.array(fresh), ".", markersize=3, label="fresh noise at each point")
        held = [target.log_density(u[None], frozen) for u in grid]
        ax.plot(grid, np.array(held), label="one noise for all points")
        ax.set(title=f"m = {m}", xlabel="mean", ylim=(-45, -20))
    axes[0].set_ylabel("estimated log density")
    axes[2].legend(frameon=False, fontsize=8, loc="lower center")
    save(figure, "concepts-estimates")


def save(figure, name: str) -> None:
    """Write a picture."""
    figure.savefig(HERE / f"{name}.png", dpi=100)


if __name__ == "__main__":
    mpl.use("agg")
    posteriors()
    estimates()
