"""Runs whose draws are known, because no sampler made them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import genbayes as gb
from genbayes.runs import Cost, Outcome, Plan, Run, Status


def run_of(target: gb.ScorePosterior, u: Any, *, log_weight: Any = None, **fields: Any) -> Run:
    """A run with given unconstrained draws `(draw, p)` or `(chain, draw, p)`."""
    u = np.asarray(u)
    u = u[None] if u.ndim == 2 else u
    theta = jax.vmap(jax.vmap(target.problem.prior.constrain))(jnp.asarray(u, float))
    info = {} if log_weight is None else {"log_weight": np.asarray(log_weight).reshape(u.shape[:2])}
    settings = {
        "draws": {name: np.asarray(x) for name, x in theta.items()},
        "unconstrained": u,
        "info": info,
        "status": Status(Outcome.COMPLETE),
        "cost": Cost(),
        "provenance": {"sampler": "Made()", "seed": 0},
        "plan": Plan(u.shape[1], num_chains=u.shape[0]),
        "observations": np.asarray(target.problem.observations),
        "target": target,
    }
    return Run(**settings | fields)
