"""`sample`: validate, prepare, loop, collect."""

import contextlib
import copy
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from .._types import Key
from ..problem import remarks_on_noise
from ..samplers import AbstractSampler, choose_sampler
from ..targets import ScorePosterior
from ._ending import status_of, why_refused
from ._loop import Walk, walk_on
from ._plan import Outcome, Plan, Status, extended
from ._population import counts, parts, recorded
from ._progress import reporter
from ._provenance import describe_run
from ._refusals import (
    check_devices,
    check_halving,
    check_keeping,
    check_pair,
    check_seed,
    check_target,
)
from ._run import Run
from ._sink import Sink
from ._tune import evidence, tuned

CHOSEN_WARMUP = 500  # steps, where the sampler was chosen and the warm-up was not
MOST_HALVINGS = 20


def sample(
    target: ScorePosterior,
    sampler: AbstractSampler | None = None,
    *,
    num_samples: int | None = None,
    num_warmup: int = 0,
    num_chains: int = 1,
    seed: int | Key = 0,
    start: Any = "prior",
    thinning: int = 1,
    chain_method: str = "vectorized",
    store: str | Path | None = None,
    progress: bool = True,
    max_seconds: float | None = None,
    max_simulations: int | None = None,
    min_ess: float | None = None,
    on_divergence: str = "refuse",
    keep_gradients: bool = False,
    notes: Mapping[str, Any] | None = None,
) -> Run:
    """Draw from a target.

    **Main arguments:**

    - `target`: a `ScorePosterior`.
    - `sampler`: such as `FrozenNUTS()` or `PseudoMarginal(...)`. Left out, one is chosen that
        suits the target, with a warm-up of 500 steps unless told otherwise; the run says why.
    - `num_samples`: draws that are kept, of each chain. A sampler of populations (`SMCABC`) has
        its particles as draws and its generations as steps, and sets both itself.
    - `num_warmup`: steps before them, which are not kept; samplers that adapt do it here.
    - `num_chains`: independent chains. `seed`: a whole number or a JAX key.
    - `store`: a folder in which the run is kept while it goes on, for `resume`.

    **Other arguments:**

    - `start`: `"prior"` (a prior draw where the estimate is finite), `"zero"` (the origin of
        unconstrained space), a mapping from name to value, or a tuner.
    - `thinning`: keep every so many-th draw; flags in `info` are counted over those between.
    - `chain_method`: `"vectorized"` (one program), `"parallel"` (over devices), `"sequential"`.
    - `progress`: draw a bar on standard error.
    - `max_seconds`, `max_simulations`, `min_ess`: stop before, with a valid run. They are totals
        of the run, also where it is resumed.
    - `on_divergence`: `"refuse"` does not take a step whose estimate is not finite, and counts it;
        `"halve"` begins the whole run again with half the step size, for exploded thermostats too.
    - `keep_gradients`: keep the gradient estimate that a stochastic-gradient sampler met at each
        kept draw, as `info["gradient"]`: so many more numbers as a draw has coordinates.
    - `notes`: anything that JSON can hold, kept in the run's provenance.

    The key of step t of chain c is a function of the seed, c and t alone: neither chunks nor
    interruptions nor other chains change a draw. Ctrl-C keeps what was drawn.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> run.draws["mean"].shape
    (1, 200)

    ```
    """
    why = None
    if sampler is None:
        check_target(target)
        sampler, why = choose_sampler(target)
        num_warmup = num_warmup or CHOSEN_WARMUP
    num_samples, num_generations = counts(
        sampler, num_samples, num_warmup=num_warmup, thinning=thinning, min_ess=min_ess, start=start
    )
    plan = Plan(
        num_samples, num_warmup, num_chains, thinning, chain_method,
        max_seconds, max_simulations, min_ess, on_divergence, num_generations, keep_gradients,
    )  # fmt: skip
    check_pair(target, sampler)
    check_devices(target, plan)
    if on_divergence == "halve":
        check_halving(sampler)
    if keep_gradients:
        check_keeping(sampler)
    check_seed(seed)
    sampler, found = tuned(target, sampler, start, seed)
    before = [] if why is None else [f"Sampler chosen: {why}."]
    before += [t.remark for t in found.values()]
    before += remarks_on_noise(target.problem)
    remarks = before
    for _ in range(MOST_HALVINGS):
        provenance = describe_run(target, sampler, seed, start, notes)
        if found:
            provenance["tuning"] = evidence(found)
        walk = Walk(target, sampler, plan, seed)
        walk.cost.simulator_calls += sum(t.simulator_calls for t in found.values())
        walk.cost.seconds += sum(t.seconds for t in found.values())
        walk.begin(start)
        sink = Sink(_create_store(store, provenance, plan, sampler, target, remarks))
        run = go(walk, sink, target, sampler, provenance, progress, remarks)
        if run.status.outcome is not Outcome.HALVED:
            return run
        sampler, remark = _halved(sampler, why_refused(walk))
        remarks = [*before, remark]
        if run.path is not None:
            shutil.rmtree(run.path)  # begun by this very call
    raise RuntimeError(
        f"Steps were refused still after halving the step size {MOST_HALVINGS} times: look at the "
        "simulator's draws, tighten the prior, or start nearer to the bulk of the posterior."
    )


def _halved(sampler: Any, why: str) -> tuple[AbstractSampler, str]:
    half = sampler.step_size / 2
    sampler = eqx.tree_at(lambda s: s.step_size, sampler, half)
    return sampler, f"Begun again with step size {half:g}, since {why}."


def go(
    walk: Walk,
    sink: Sink,
    target: ScorePosterior,
    sampler: AbstractSampler,
    provenance: dict[str, Any],
    progress: bool,
    remarks: list[str],
) -> Run:
    """Walk, and collect what there is, whatever happens."""
    bar = reporter(progress, walk.plan.num_steps, walk.plan.num_warmup, walk.step)
    outcome = Outcome.FAILED
    try:
        _begin_session(sink)
        sink.commit(walk)
        outcome = walk_on(walk, sink, bar)
        status = status_of(walk, sink, sampler, outcome, remarks)
        _end_session(walk, sink, status)
    except BaseException as error:
        _note_failure(walk, sink, error, remarks)
        raise
    finally:
        bar.close({Outcome.COMPLETE: "done"}.get(outcome, outcome.name.lower()))
        if sink.store is not None:
            sink.store.close()
    run = _collect(walk, sink, target, sampler, provenance, status)
    if outcome is Outcome.INTERRUPTED and progress:
        print(
            f"\n{outcome.value} {run.unconstrained.shape[1]:,} draws of each chain are kept. "
            f"{_how_to_go_on(run)}",
            file=sys.stderr,
        )
    return run


def _collect(
    walk: Walk,
    sink: Sink,
    target: ScorePosterior,
    sampler: AbstractSampler,
    provenance: dict[str, Any],
    status: Status,
) -> Run:
    return Run(
        **parts(sink.arrays() or _empty(walk), walk.plan),
        status=status,
        cost=walk.cost,
        provenance=provenance,
        plan=walk.plan,
        observations=np.asarray(target.problem.observations),
        failures=walk.failures,
        target=target,
        sampler=sampler,
        path=None if sink.store is None else Path(sink.store.path),
        walk=walk,
    )


def _empty(walk: Walk) -> dict[str, np.ndarray]:
    prior, chains = walk.target.problem.prior, walk.plan.num_chains
    draws = {f"draws/{name}": np.zeros((chains, 0, *shape)) for name, shape in prior.shapes.items()}
    return draws | {"unconstrained": np.zeros((chains, 0, prior.size))}


def resume(
    run: Run | str | Path,
    target: ScorePosterior | None = None,
    sampler: AbstractSampler | None = None,
    *,
    num_samples: int | None = None,
    num_generations: int | None = None,
    allow_changes: bool = False,
    progress: bool = True,
    max_seconds: float | None = None,
    max_simulations: int | None = None,
    min_ess: float | None = None,
) -> Run:
    """Go on with a run that stopped, or draw more: the draws are those of a run that never stopped.

    **Arguments:**

    - `run`: a `Run` of this process, or the folder that one was stored in.
    - `target`, `sampler`: for a stored run, what it was begun with (functions are not stored). The
        sampler may be left out if it is one of the library's.
    - `num_samples`: how many draws to have in all, or of a population `num_generations`; absent, as
        many as were first asked for.
    - `allow_changes`: go on though the target is not the one that the run was begun with.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=100, progress=False)
    >>> gb.resume(run, num_samples=150, progress=False).draws["mean"].shape
    (1, 150)

    ```
    """
    stops = {"max_seconds": max_seconds, "max_simulations": max_simulations, "min_ess": min_ess}
    if not isinstance(run, Run):
        if target is None:
            raise ValueError(
                f"The simulator of a stored run is not stored: give the target that {run} was "
                "begun with, as resume(path, target)."
            )
        from ._stored import resume_stored

        return resume_stored(
            Path(run),
            target,
            sampler,
            (num_samples, num_generations),
            stops,
            allow_changes,
            progress,
        )
    if run.path is not None and run.path.is_dir():
        return resume(
            run.path, target or run.target, sampler or run.sampler, num_samples=num_samples,
            num_generations=num_generations, allow_changes=allow_changes, progress=progress,
            **stops,
        )  # fmt: skip
    if run.walk is None or run.target is None or run.sampler is None:
        raise ValueError(
            "This run was read from a file and does not hold the sampler's state. Runs that are to "
            "be resumed in another process need sample(..., store=FOLDER)."
        )
    walk = copy.copy(run.walk)
    walk.plan = extended(run.plan, num_samples, num_generations, stops)
    walk.cost, walk.tallies = copy.copy(walk.cost), copy.deepcopy(walk.tallies)
    walk.failures = walk.failures.copy()
    sink = Sink(None, [recorded(run)] if run.unconstrained.shape[1] else None)
    return go(walk, sink, run.target, run.sampler, run.provenance, progress, [])


def _how_to_go_on(run: Run) -> str:
    if run.path is None:
        return "Go on with genbayes.resume(run)."
    if "file" in run.provenance.get("notes", {}):
        return f"Go on with  genbayes resume {shlex.quote(str(run.path))}"
    return f"Go on with genbayes.resume({str(run.path)!r}, target)."


def _create_store(
    store: str | Path | None,
    provenance: dict[str, Any],
    plan: Plan,
    sampler: AbstractSampler,
    target: ScorePosterior,
    remarks: list[str],
) -> Any:
    if store is None:
        return None
    from ._stored import create

    return create(Path(store), provenance, plan, sampler, target, remarks)


def _begin_session(sink: Sink) -> None:
    if sink.store is not None:
        from ._stored import begin_session

        begin_session(sink.store)


def _end_session(walk: Walk, sink: Sink, status: Status) -> None:
    if sink.store is not None:
        from ._stored import end_session

        sink.commit(walk)
        end_session(sink.store, status, walk.cost)


def _note_failure(walk: Walk, sink: Sink, error: BaseException, remarks: list[str]) -> None:
    """Say in the stored run what ended it, if that can still be written.

    Nothing is committed: the error may have come between a step and the keeping of its draw.
    """
    if sink.store is None:
        return
    from ._stored import end_session

    outcome = Outcome.INTERRUPTED if isinstance(error, KeyboardInterrupt) else Outcome.FAILED
    what = f"{type(error).__name__}: {error}" if outcome is Outcome.FAILED else ""
    with contextlib.suppress(Exception):
        status = Status(outcome, (what,) if what else (), tuple(remarks))
        end_session(sink.store, status, walk.cost)
