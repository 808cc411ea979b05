"""How a run ended: what its status says."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..samplers import AbstractSampler, AbstractStochasticGradient
from ._loop import Walk
from ._plan import Outcome, Status
from ._sink import Sink

WORTH_A_WARNING = 0.01  # share of estimates that failures may cost


def status_of(
    walk: Walk, sink: Sink, sampler: AbstractSampler, outcome: Outcome, remarks: list[str]
) -> Status:
    """How a run ended and what there is to say of it."""
    found = [*_divergence(walk, outcome), *_halved(walk, sampler, outcome)]
    found += _failed(walk, outcome)
    remarks = list(remarks)
    if 0 < walk.failures.share <= WORTH_A_WARNING:
        remarks.append(f"{walk.failures}.")
    arrays = sink.arrays()
    if not arrays:
        return Status(outcome, tuple(found), tuple(remarks))
    info = {k.removeprefix("info/"): v for k, v in arrays.items() if k.startswith("info/")}
    info["thinning"] = np.asarray(walk.plan.thinning)
    u = arrays["unconstrained"]
    found += sampler.findings(info, u)
    return Status(outcome, tuple(found), (*remarks, *sampler.remarks(info, u)))


def _failed(walk: Walk, outcome: Outcome) -> list[str]:
    failures = walk.failures
    if failures.share <= WORTH_A_WARNING and outcome is not Outcome.FAILURES:
        return []
    more = ""
    if outcome is Outcome.FAILURES:
        latest = "; ".join(str(failure) for failure in failures[-3:])
        more = (
            f" The last: {latest}. Mend the simulator or tighten the prior, and begin again; where "
            "it is right to fail there, give it max_failures=1 and resume."
        )
    return [f"{failures}.{more}"]


def _divergence(walk: Walk, outcome: Outcome) -> list[str]:
    if outcome is not Outcome.DIVERGED:
        return []
    where = {k: np.asarray(v).tolist() for k, v in _stands(walk).items()}
    return [
        f"{walk.tallies.get('refused'):,} of {walk.cost.steps:,} steps were refused because "
        f"{why_refused(walk)}; the chains stand at {where}. Try a smaller step size, a "
        "tighter prior, or a finer integrator in the simulator."
    ]


def _halved(walk: Walk, sampler: AbstractSampler, outcome: Outcome) -> list[str]:
    """What `sample` begins again is not looked at, so that this is said of resumed runs."""
    if outcome is not Outcome.HALVED or not isinstance(sampler, AbstractStochasticGradient):
        return []
    return [
        "A resumed run keeps what was drawn and does not begin again by itself, though "
        f"{why_refused(walk)}: draw it anew with step size {0.5 * sampler.step_size:g}."
    ]


def why_refused(walk: Walk) -> str:
    """What was wrong with steps that were not taken."""
    exploded = walk.tallies.get("exploded")
    if exploded >= walk.tallies.get("refused"):
        return "the thermostat exploded"
    more = f", or the thermostat exploded ({exploded:,} times)" if exploded else ""
    return f"the estimate was not finite{more}"


def _stands(walk: Walk) -> Mapping[str, Any]:
    return jax.vmap(walk.target.problem.prior.constrain)(walk.state.u)
