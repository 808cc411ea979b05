"""Runs with all that plots show, made without sampling."""

import dataclasses
from collections.abc import Callable

import numpy as np

from genbayes.runs import Run


def moving_run(
    made_run: Callable[..., Run], *, chains: int = 3, draws: int = 400, seed: int = 0,
    shift: float = 0.0, weighted: bool = False,
) -> Run:  # fmt: skip
    """A run of correlated parameters whose chains stay now and then, with infos of all samplers."""
    run = made_run(chains=chains, draws=draws, seed=seed)
    rng = np.random.default_rng(seed + 100)
    accepted = rng.random((chains, draws)) < 0.5
    u = run.unconstrained
    for t in range(1, draws):
        u[:, t] = np.where(accepted[:, t, None], u[:, t], u[:, t - 1])
    u[..., 1] = 0.8 * u[..., 0] + 0.4 * u[..., 1] + shift
    run.draws["A"][:], run.draws["b"][:] = u[..., 0], u[..., 1:]
    info = {
        "accepted": accepted,
        "thermostat": 2 + np.cumsum(0.02 * rng.normal(size=(chains, draws)), axis=1),
        "kinetic": rng.chisquare(3, size=(chains, draws)) / 3,
    }
    if weighted:
        info = {"log_weight": -2.0 * (u[..., 0] - 1.0) ** 2}
    return dataclasses.replace(run, info=info)
