"""`check`: what a file's target would stumble over, and what a run of it would cost."""

import math
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import genbayes as gb

from .._table import Table
from ..problem import Result
from ..samplers import AbstractSampler, choose_sampler
from ..targets import why_no_sobol
from ._errors import BAD_END, DONE
from ._precision import set_precision
from ._show import say, show, show_json
from ._target_file import load_target

CHAINS, STEPS = 4, 1500  # of `genbayes run` where nothing else is said
TRAJECTORY = 10  # gradients of a trajectory of NUTS, about
PSEUDO_MARGINAL, FROZEN = 1.5, 0.1  # variances of the log density that are small enough
ENOUGH_SECONDS = 20.0  # for the noise, and for a call that is not worth a second
ENOUGH_TO_TIME = 0.2
FEWEST, REPEATS = 8, 64  # estimates, for the noise


@dataclass(frozen=True)
class Costs:
    """Seconds; and the noise of the estimated log density at the prior's centre."""

    seconds_per_draw: float
    seconds_per_estimate: float
    seconds_per_gradient: float | None
    log_density: float
    variance: float | None
    num_simulations: int
    suggested_simulations: int | None
    sampler: str
    why: str
    seconds_of_run: float


def check_file(file: str, precision: int | None, *, as_json: bool) -> int:
    """Check the target of a file; give the exit status."""
    if precision is not None:
        set_precision(precision)
    loaded = load_target(file)
    target = loaded.target
    checked = gb.check(target.problem)
    costs = None if target.is_exact else measure(target)
    fault = any(f.result is Result.FAULT for f in checked.findings)
    if as_json:
        found = [{"subject": f.subject, "result": f.result.value, "text": f.text}
                 for f in checked.findings]  # fmt: skip
        costs_data = None if costs is None else asdict(costs)
        data = {"file": str(loaded.file), "target": loaded.name, "ok": checked.ok}
        show_json(data | {"findings": found, "non_finite": checked.non_finite, "costs": costs_data})
    else:
        print(checked)
        if costs is not None:
            print()
            show(cost_table(costs))
        _say_how_to_go_on(loaded.file, loaded.name, fault)
    return BAD_END if fault else DONE


def measure(target: gb.ScorePosterior) -> Costs:
    """Time a draw, an estimate and a gradient at the prior's centre, and measure the noise."""
    simulator = target.problem.simulator
    assert simulator is not None
    u = centre(target)
    noise = target.draw_noise(jax.random.key(0))
    estimate, value = timed(_value, target, u, noise)
    gradient = None
    if simulator.differentiable:
        gradient, _ = timed(_gradient, target, u, noise)
    sampler, why = choose_sampler(target)
    frozen = isinstance(sampler, gb.FrozenNUTS)
    found = None
    repeats = min(REPEATS, int(ENOUGH_SECONDS / (1.25 * max(estimate, 1e-9))))
    if jnp.isfinite(value) and repeats >= FEWEST:
        even = frozen and why_no_sobol(target) is None
        found = gb.diagnostics.noise(target, u, num_repeats=repeats, sobol=even)
    return Costs(
        seconds_per_draw=time_of_a_draw(target, u, noise),
        seconds_per_estimate=estimate,
        seconds_per_gradient=gradient,
        log_density=float(value),
        variance=None if found is None else found.variance,
        num_simulations=target.num_simulations,
        suggested_simulations=_suggested(found, sampler, target),
        sampler=type(sampler).__name__,
        why=why,
        seconds_of_run=CHAINS * STEPS * _step(sampler, estimate, gradient),
    )


def centre(target: gb.ScorePosterior) -> jax.Array:
    """The middle of the prior in unconstrained coordinates, `(p,)`."""
    prior = target.problem.prior
    draws = prior.sample(jax.random.key(0), 200)
    return jnp.median(jax.vmap(prior.unconstrain)(draws), axis=0)


def _value(target: gb.ScorePosterior, u: Any, noise: Any) -> Any:
    return target.log_density(u, noise)


def _gradient(target: gb.ScorePosterior, u: Any, noise: Any) -> Any:
    return target.value_and_grad(u, noise)[1]


def timed(fn: Callable[..., Any], target: gb.ScorePosterior, *rest: Any) -> tuple[float, Any]:
    """Seconds of one call, the best of a few, and its result.

    The first call compiles, if only the score where a simulator cannot be compiled, and counts only
    where a second would take long.
    """
    call = eqx.filter_jit(fn) if target.traceable else fn

    def once() -> tuple[float, Any]:
        start = time.perf_counter()
        result = jax.block_until_ready(call(target, *rest))
        return time.perf_counter() - start, result

    first, result = once()
    if first > ENOUGH_SECONDS and not target.traceable:
        return first, result
    seconds: list[float] = []
    while sum(seconds) < ENOUGH_TO_TIME:
        seconds.append(once()[0])
    return min(seconds), result


def time_of_a_draw(target: gb.ScorePosterior, u: Any, noise: Any) -> float:
    """Seconds of one draw, as one of the many of an estimate."""

    def draws(target: gb.ScorePosterior, u: Any, noise: Any) -> Any:
        simulator = target.problem.simulator
        assert simulator is not None
        return simulator.simulate_from(target.problem.prior.constrain(u), noise.simulator)

    return timed(draws, target, u, noise)[0] / target.num_simulations


def _suggested(found: Any, sampler: AbstractSampler, target: gb.ScorePosterior) -> int | None:
    """How many simulations bring the noise to what the sampler bears; none where all do."""
    wanted = {gb.PseudoMarginal: PSEUDO_MARGINAL, gb.FrozenNUTS: FROZEN}.get(type(sampler))
    if found is None or wanted is None or target.batch_size is not None:
        return None
    return found.simulations_for(wanted) if found.variance > 0 else None


def _step(sampler: AbstractSampler, estimate: float, gradient: float | None) -> float:
    if gradient is None or not sampler.needs_gradient:
        return estimate
    return TRAJECTORY * gradient if "NUTS" in type(sampler).__name__ else gradient


def cost_table(costs: Costs) -> Table:
    """What was measured, and what it suggests."""
    m = costs.num_simulations
    rows: list[tuple[Any, ...]] = [
        ("one draw", _seconds(costs.seconds_per_draw)),
        (f"one estimate, m = {m:,}", _seconds(costs.seconds_per_estimate)),
    ]
    if costs.seconds_per_gradient is not None:
        rows.append(("one gradient", _seconds(costs.seconds_per_gradient)))
    rows.append(("log density there", costs.log_density))
    if costs.variance is not None:
        rows.append(("its variance from the noise", costs.variance))
    rows.append((f"{CHAINS} x {STEPS:,} steps, about", _seconds(costs.seconds_of_run)))
    return Table(("at the prior's centre", ""), rows, "What it takes", _notes(costs))


def _notes(costs: Costs) -> list[str]:
    notes = [f"Sampler: {costs.why}."]
    wanted = costs.suggested_simulations
    if wanted is not None:
        limit = PSEUDO_MARGINAL if costs.sampler == "PseudoMarginal" else FROZEN
        notes.append(
            f"num_simulations: {wanted:,} for a variance of {limit:g}, {costs.num_simulations:,} "
            "now. Where the posterior is, the noise may be another."
        )
    elif costs.variance is not None:
        notes.append(f"num_simulations: {costs.num_simulations:,} will do; measure the result.")
    elif not math.isfinite(costs.log_density):
        notes.append("! The estimate is not finite there, so that its noise has no measure.")
    else:
        notes.append("The noise was not measured, because that would take long.")
    return notes


def _seconds(value: float) -> str:
    for limit, unit, name in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if value < limit:
            return f"{value * unit:.3g} {name}"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"


def _say_how_to_go_on(file: Path, name: str, fault: bool) -> None:
    if fault:
        say("Mend what is said to be a fault before a run.")
        return
    shown = os.path.relpath(file)
    spelled = shown if name == "target" else f"{shown}:{name}"
    say(f"Draw from it: genbayes run {shlex.quote(spelled)}")
