"""The one loop: chunks of a compiled program, with a look at the world between them."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._tree import floats_to_arrays
from .._types import Array, PyTree
from ..problem import Failures, recording
from ..samplers import AbstractABC, AbstractSampler, AbstractWarmup
from ..targets import ScorePosterior
from . import _eager, _program
from ._heartbeat import Heartbeat
from ._plan import Cost, Outcome, Plan, Tallies
from ._population import all_settled
from ._progress import Reporter, Silent
from ._sink import Sink
from ._start import chain_keys, starting_points

CHUNK_SECONDS = 0.25
LARGEST_CHUNK = 4096  # steps
BUFFER_BYTES = 64 * 2**20


class Walk:
    """Where a run stands between two chunks: everything the next chunk needs."""

    def __init__(self, target: ScorePosterior, sampler: AbstractSampler, plan: Plan, seed: Any):
        self.target = floats_to_arrays(target)
        self.plan = plan
        self.keys = chain_keys(seed, plan.num_chains)
        self.step = 0
        warmup = sampler.warmup(plan.num_warmup)
        self.walker = self._stack(warmup if warmup is not None else sampler)
        self.state: PyTree = None
        self.cost = Cost()
        self.tallies = Tallies()
        self.failures = Failures()

    def _stack(self, walker: Any) -> Any:
        """The same settings for every chain, along a leading axis."""
        chains = self.plan.num_chains

        def stack(x: Any) -> Any:
            if isinstance(x, float):  # of a definite type, as from a file: for the same program
                return jnp.full(chains, x, float)
            return jnp.broadcast_to(x, (chains, *x.shape)) if eqx.is_array(x) else x

        return jax.tree.map(stack, walker)

    def begin(self, start: Any) -> None:
        """Put every chain on its starting point; a population draws its own."""
        if self.populated:
            return self.begin_at(jnp.zeros((self.plan.num_chains, self.target.size)))
        with recording(self.failures):
            u = starting_points(self.target, start, self.keys.start)
        return self.begin_at(u)

    def begin_at(self, u: Array) -> None:
        """Put the chains at `u`, `(chain, p)`."""
        program = _program if self.target.traceable else _eager
        with recording(self.failures):
            self.state = program.begin(self.walker, self.target, self.keys.init, u)
        self.cost.simulator_calls += 2 * self.plan.num_chains * self._per_estimate

    @property
    def populated(self) -> bool:
        """Whether the walker is a population, which simulates in its steps alone."""
        return isinstance(self.walker, AbstractABC)

    @property
    def settled(self) -> bool:
        """Whether every population has come to where it was to end."""
        return isinstance(self.walker, AbstractABC) and all_settled(self.walker, self.state)

    @property
    def _per_estimate(self) -> int:
        return 0 if self.populated else self.target.simulations_per_estimate

    @property
    def warming(self) -> bool:
        """Whether the next step is one of the warm-up."""
        return self.step < self.plan.num_warmup

    @property
    def adapting(self) -> bool:
        """Whether the walker is still one that adapts."""
        return isinstance(self.walker, AbstractWarmup)

    def finish_warmup(self) -> None:
        """Fix what was adapted."""
        assert isinstance(self.walker, AbstractWarmup)
        self.walker, self.state = _program.finish(self.walker, self.state)
        self.walker = self._stack_missing(self.walker)

    def _stack_missing(self, walker: Any) -> Any:
        """Settings that the warm-up handed on as they were, along the chain axis as well."""
        chains = self.plan.num_chains

        def stack(x: Any) -> Any:
            return jnp.full(chains, x, float) if isinstance(x, float) else x

        return jax.tree.map(stack, walker)

    def advance(self, count: int, stop: Callable[[], bool] = lambda: False) -> PyTree:
        """At most `count` records further, as `step` then tells; `count=0` only compiles."""
        thinning = 1 if self.warming else self.plan.thinning
        first, number = jnp.asarray(self.step, jnp.int32), jnp.asarray(count, jnp.int32)
        settings: dict[str, Any] = {"capacity": self._capacity(), "thinning": thinning}
        settings["gradients"] = self.plan.keep_gradients
        if self.target.traceable:
            state, records = self._call(first, number, settings)
            records = jax.block_until_ready(records)
        else:
            args = (self.walker, self.state, self.keys.steps, self.target, first, number)
            with recording(self.failures):
                state, records, count = _eager.advance(*args, **settings, stop=stop)
        if count:
            self.state = state
            self.step += count * thinning
        return records

    def _call(self, first: Array, number: Array, settings: dict[str, Any]) -> tuple[PyTree, PyTree]:
        args = (self.walker, self.state, self.keys.steps)
        if self.plan.chain_method == "sequential":
            parts = [
                _program.advance(*_chain(args, c), self.target, first, number, **settings)  # pyright: ignore
                for c in range(self.plan.num_chains)
            ]
            return jax.tree.map(
                lambda *x: jnp.concatenate(x) if eqx.is_array(x[0]) else x[0], *parts
            )
        parallel = self.plan.chain_method == "parallel" and self.plan.num_chains > 1
        program = _program.advance_parallel if parallel else _program.advance
        return program(*args, self.target, first, number, **settings)

    def _capacity(self) -> int:
        if self.populated:  # a generation is work enough between two looks at the world
            return 1
        row = 8 * self.plan.num_chains * (self.target.size * (1 + self.plan.keep_gradients) + 8)
        return max(1, min(LARGEST_CHUNK, BUFFER_BYTES // row))


def _chain(tree: PyTree, c: int) -> PyTree:
    return jax.tree.map(lambda x: x[c : c + 1] if eqx.is_array(x) else x, tree)


class StopAsked:
    """Whether Ctrl-C was pressed: noticed between chunks, so that nothing is left half done."""

    def __init__(self):
        self.flag = False

    def __bool__(self) -> bool:
        return self.flag


@contextmanager
def interruptible() -> Iterator[StopAsked]:
    """Turn the first Ctrl-C into a flag; the second works as ever."""
    asked = StopAsked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        del number, frame
        asked.flag = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, handle)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def walk_on(walk: Walk, sink: Sink, reporter: Reporter) -> Outcome:
    """Walk to the end of the plan, or until there is a reason to stop."""
    # a single step of a black box may take minutes
    plan, chunk = walk.plan, 8 if walk.target.traceable else 1
    compiled: tuple[bool, bool] | None = None
    began, spent = time.perf_counter(), walk.cost.seconds
    listens = not walk.target.traceable and not isinstance(reporter, Silent)
    heartbeat = Heartbeat(walk, reporter.say if listens else None)
    with interruptible() as asked, heartbeat:
        while walk.step < plan.num_steps and not walk.settled:
            if walk.adapting and not walk.warming:
                walk.finish_warmup()
            if compiled != (walk.adapting, walk.warming and plan.thinning > 1):
                _compile(walk)
                compiled = (walk.adapting, walk.warming and plan.thinning > 1)

            def stop() -> bool:
                walk.cost.seconds = spent + time.perf_counter() - began
                return _reason_within(walk, bool(asked)) is not None

            chunk = _one_chunk(walk, sink, reporter, heartbeat, chunk, stop)
            walk.cost.seconds = spent + time.perf_counter() - began
            outcome = _reason_to_stop(walk, sink, bool(asked))
            if outcome is not None:
                return outcome
    return Outcome.COMPLETE if walk.step >= plan.num_steps else Outcome.REACHED


def _compile(walk: Walk) -> None:
    began = time.perf_counter()
    walk.advance(0)
    walk.cost.compile_seconds += time.perf_counter() - began


def _one_chunk(
    walk: Walk,
    sink: Sink,
    reporter: Reporter,
    heartbeat: Heartbeat,
    chunk: int,
    stop: Callable[[], bool],
) -> int:
    """One chunk of at most `chunk` records; gives the length of the next."""
    plan, warming = walk.plan, walk.warming
    left = (
        plan.num_warmup - walk.step
        if warming
        else -(-(plan.num_steps - walk.step) // plan.thinning)
    )
    count = min(chunk, left, walk._capacity(), _affordable(walk))
    began, before = time.perf_counter(), walk.step
    records = walk.advance(count, stop)
    seconds = time.perf_counter() - began
    count = (walk.step - before) // (1 if warming else plan.thinning)
    info = {k: np.asarray(v)[:, :count] for k, v in records["info"].items()}
    walk.tallies.add(info)
    steps = count * (1 if warming else plan.thinning) * plan.num_chains
    walk.cost.steps += steps
    evaluations = int(np.sum(info["num_evaluations"])) if "num_evaluations" in info else steps
    walk.cost.simulator_calls += evaluations * walk._per_estimate
    walk.cost.simulator_calls += int(np.sum(info.get("simulator_calls", 0)))
    sink.add(walk, records["u"], info, count, keep=not warming)
    reporter.update(walk.step, info)
    heartbeat.hear(info)
    wanted = int(count * CHUNK_SECONDS / max(seconds, 1e-6))
    return max(1, min(wanted, 4 * chunk, LARGEST_CHUNK))


def _affordable(walk: Walk) -> int:
    """Records until `max_simulations` are made, where a step makes one estimate."""
    most = walk.plan.max_simulations
    if most is None:
        return LARGEST_CHUNK
    steps = 1 if walk.warming else walk.plan.thinning
    each = walk._per_estimate * walk.plan.num_chains * steps
    return max(1, -(-(most - walk.cost.simulator_calls) // max(each, 1)))


def _reason_to_stop(walk: Walk, sink: Sink, asked: bool) -> Outcome | None:
    plan = walk.plan
    refused, steps = walk.tallies.get("refused"), walk.cost.steps
    if plan.on_divergence == "halve" and (refused or walk.tallies.get("exploded")):
        return Outcome.HALVED  # in the last chunk as in any other
    if walk.step >= plan.num_steps or walk.settled:
        return None
    within = _reason_within(walk, asked)
    if within is not None:
        return within
    if steps >= 1000 and refused > 0.5 * steps:
        return Outcome.DIVERGED
    if plan.max_simulations is not None and walk.cost.simulator_calls >= plan.max_simulations:
        return Outcome.MAX_SIMULATIONS
    if plan.min_ess is not None and sink.reached(plan.min_ess):
        return Outcome.MIN_ESS
    return None


def _reason_within(walk: Walk, asked: bool) -> Outcome | None:
    """What is looked at between the steps of a black box too."""
    if asked:
        return Outcome.INTERRUPTED
    handling = getattr(walk.target.problem.simulator, "handling", None)
    if handling is not None and walk.failures.too_many(handling.max_failures):
        return Outcome.FAILURES
    most = walk.plan.max_seconds
    return Outcome.MAX_SECONDS if most is not None and walk.cost.seconds >= most else None
