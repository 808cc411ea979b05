"""A chain as the paper's tables need it: thinned draws, and numbers with their errors."""

from functools import partial
from typing import Any

import numpy as np

from ..runs import Run, sample
from ..samplers import AbstractSampler
from ..targets import ScorePosterior
from ._experiment import Result
from ._statistics import BLOCKS, jackknife, trace_of_covariance

MOST_KEPT = 2000  # draws that are kept for pictures


def walk(
    target: ScorePosterior,
    sampler: AbstractSampler,
    *,
    num_samples: int,
    num_warmup: int,
    seed: int,
    start: Any = "prior",
) -> Result:
    """Run one chain and keep what tables and pictures need."""
    run = sample(
        target, sampler, num_samples=num_samples, num_warmup=num_warmup, seed=seed, start=start,
        progress=False,
    )  # fmt: skip
    return digest(run)


def digest(run: Run) -> Result:
    """Numbers of a run, each as a pair of value and standard error.

    The error of one chain comes from blocks of it, that of several from leaving each out in turn.
    """
    theta, chains = flat_draws(run), run.unconstrained.shape[0]
    blocks = BLOCKS if chains == 1 else chains
    kept: dict[str, np.ndarray] = {
        "draws": theta[:: max(1, -(-theta.shape[0] // MOST_KEPT))].astype(np.float32),
        "trace": np.array(jackknife(trace_of_covariance, theta, blocks)),
        "mean": _each(np.mean, theta, blocks),
        "sd": _each(partial(np.std, ddof=1), theta, blocks),
        "simulations": np.array(run.cost.simulator_calls),
    }
    if "accepted" in run.info:
        accepted = np.asarray(run.info["accepted"])[0] > 0
        kept["acceptance"] = np.array(jackknife(np.mean, accepted))
    return kept


def flat_draws(run: Run) -> np.ndarray:
    """The draws of all chains, one after another, `(draw, p)`, parameters as in the prior.

    Weighted ones are copied as often as they weigh.
    """
    total = run.unconstrained.shape[0] * run.unconstrained.shape[1]
    columns = [np.asarray(x, float).reshape(total, -1) for x in run.draws.values()]
    theta = np.concatenate(columns, axis=1)
    if run.weights is None:
        return theta
    heights = np.cumsum(np.ravel(run.weights))
    places = (np.arange(total) + 0.5) / total * heights[-1]
    return theta[np.searchsorted(heights, places)]


def _each(statistic: Any, theta: np.ndarray, blocks: int) -> np.ndarray:
    """Value and error of a statistic of each coordinate, `(2, p)`."""
    return np.array([jackknife(statistic, theta[:, j], blocks) for j in range(theta.shape[1])]).T
