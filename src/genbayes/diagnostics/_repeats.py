"""A method at work on many simulated data sets: one posterior for each, over any executor."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_count
from .._convergence import ess_mean
from .._types import Array, Key
from ..problem import Problem
from ..runs import Outcome, Run, sample
from ..samplers import AbstractSampler, choose_sampler
from ..targets import ScorePosterior
from ._draws import need_simulator, pick
from ._influence import scalar_draws

NUM_SAMPLES = 1000  # draws of each posterior
CHOSEN_WARMUP = 500  # where neither the run nor the caller says
_WORKERS = (
    "Workers in other processes import the simulator and every function that it needs: define them "
    "in a module of yours, not as lambdas, or use concurrent.futures.ThreadPoolExecutor."
)


class Recipe(NamedTuple):
    """What is done with each data set; it travels to the workers of an executor as it is.

    `truth` is `None` where each data set has parameters of its own, drawn from the prior.
    `num_ranks`: how many draws the truth is ranked among; `None` for all.
    """

    target: ScorePosterior
    sampler: AbstractSampler
    settings: dict[str, Any]
    truth: dict[str, np.ndarray] | None
    source: Callable[[Key, int], Any] | None
    num_observations: int
    num_ranks: int | None
    correct: Callable[[Run], Run] | None
    double: bool


class Fit(NamedTuple):
    """What one posterior says of the truth, by scalar parameter `(p,)`.

    - `pit`: where the truth lies among the draws, uniform on [0, 1] where the posterior is right.
    - `joint`: the share of the draws that are nearer to the posterior mean than the truth is.
    - `why`: why there is nothing to go by, or empty.
    """

    pit: np.ndarray
    joint: float
    truth: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    ess: float
    warned: bool
    why: str = ""


def recipe_of(
    run: Any,
    *,
    target: ScorePosterior | None,
    sampler: AbstractSampler | None,
    settings: Mapping[str, Any],
    truth: dict[str, np.ndarray] | None,
    source: Callable[[Key, int], Any] | None,
    num_observations: int | None,
    num_ranks: int | None = None,
    correct: Callable[[Run], Run] | None = None,
) -> Recipe:
    """The recipe that a run, or a target with a sampler, stands for."""
    target = method_target(run, target)
    sampler = sampler or (run.sampler if isinstance(run, Run) else choose_sampler(target)[0])
    if sampler is None:
        raise ValueError(
            "A run that was read from disk does not hold its sampler: give one, as sampler=..."
        )
    sampler.check(target)
    if source is None:
        need_simulator(target, "A simulated data set")
    num = target.problem.num_observations if num_observations is None else num_observations
    check_count("num_observations", num)
    plan = run.plan if isinstance(run, Run) else None
    chosen = {
        "num_samples": NUM_SAMPLES,
        "num_warmup": CHOSEN_WARMUP if plan is None else plan.num_warmup,
        "num_chains": 1 if plan is None else plan.num_chains,
        "thinning": 1 if plan is None else plan.thinning,
    }
    chosen |= {name: value for name, value in settings.items() if value is not None}
    return Recipe(
        target, sampler, chosen, truth, source, num, num_ranks, correct,
        jax.config.jax_enable_x64,  # pyright: ignore[reportAttributeAccessIssue]
    )  # fmt: skip


def method_target(run: Any, target: ScorePosterior | None) -> ScorePosterior:
    """The target of a run, or the target that was given in place of one."""
    if isinstance(run, ScorePosterior):
        return run
    if not isinstance(run, Run):
        raise TypeError(f"Expected a Run or a ScorePosterior, got {type(run).__name__}.")
    return run.need_target(target)


def repeat(recipe: Recipe, num: int, executor: Executor | None, seed: int | Key) -> list[Fit]:
    """One fit for each of `num` data sets. What each gives depends on the seed and its number.

    The precision is sent along, because JAX's own setting may belong to a thread.
    """
    check_count("num_data_sets", num, 2)
    root = jax.random.key(seed) if isinstance(seed, (int, np.integer)) else seed
    keys = [jax.random.fold_in(root, i) for i in range(num)]
    # as plain numbers: keys of JAX do not travel between processes
    jobs = [(np.asarray(jax.random.key_data(k)), str(jax.random.key_impl(k))) for k in keys]
    if executor is None:
        return [fit_one(recipe, *job) for job in jobs]
    futures = [executor.submit(fit_one, recipe, *job) for job in jobs]
    found = []
    try:
        for future in futures:
            found.append(future.result())
    except Exception as error:
        error.add_note(f"This was data set {len(found)}. {_WORKERS}")
        raise
    finally:
        for future in futures:
            future.cancel()
    return found


def fit_one(recipe: Recipe, key_data: np.ndarray, impl: str) -> Fit:
    """Data at the truth, the posterior of them, and where the truth lies in it."""
    with jax.enable_x64(recipe.double):
        key = jax.random.wrap_key_data(jnp.asarray(key_data), impl=impl)
        key_truth, key_data_set, key_run = jax.random.split(key, 3)
        prior = recipe.target.problem.prior
        theta = recipe.truth
        if theta is None:
            theta = {name: np.asarray(x) for name, x in prior.sample(key_truth).items()}
        y = _data_set(recipe, key_data_set, theta)
        if not np.isfinite(y).all():
            return _failed(theta, "the data set was not finite")
        target, rng = with_observations(recipe.target, y), np.random.default_rng(np.ravel(key_data))
        try:  # one data set of many that cannot be fitted is counted, and told of
            run = sample(
                target, recipe.sampler, **recipe.settings, seed=key_run, progress=False
            )  # fmt: skip
            if run.status.outcome not in (Outcome.COMPLETE, Outcome.MIN_ESS):
                return _failed(theta, run.status.outcome.value)
            run = run if recipe.correct is None else recipe.correct(run)
        except (ValueError, RuntimeError, ArithmeticError) as error:
            return _failed(theta, f"of a {type(error).__name__}: {error}")
        return _fit(run, recipe, theta, rng)


def _data_set(recipe: Recipe, key: Key, theta: Mapping[str, Any]) -> np.ndarray:
    if recipe.source is not None:
        return np.asarray(recipe.source(key, recipe.num_observations), float)
    simulator = recipe.target.problem.simulator
    assert simulator is not None
    return np.asarray(simulator.simulate(key, theta, recipe.num_observations), float)


def with_observations(target: ScorePosterior, observations: Array | np.ndarray) -> ScorePosterior:
    """The same target for other data."""
    problem = target.problem
    return ScorePosterior(
        Problem(problem.prior, problem.simulator, observations), target.score,
        weight=target.weight, num_simulations=target.num_simulations,
        batch_size=target.batch_size, gradient=target.gradient,
    )  # fmt: skip


def _fit(
    run: Run, recipe: Recipe, theta: Mapping[str, np.ndarray], rng: np.random.Generator
) -> Fit:
    picked = pick(run, recipe.num_ranks, int(rng.integers(2**31)))
    _, x = scalar_draws(picked.theta)
    truth = scalars_of(theta)
    if not (np.isfinite(x).all() and np.ptp(x, axis=0).all()):
        return _failed(theta, "the chain did not move, or left the finite numbers")
    prior = recipe.target.problem.prior
    u = np.asarray(prior.unconstrain({k: jnp.asarray(v) for k, v in theta.items()}), float)
    pit = (
        np.sum(x < truth, axis=0) + rng.random(x.shape[1]) * (1 + np.sum(x == truth, axis=0))
    ) / (len(x) + 1)
    flat = np.asarray(run.unconstrained, float)
    ess = min(ess_mean(flat[..., j]) for j in range(flat.shape[2]))
    return Fit(
        pit, _nearer(picked.u.astype(float), u, rng), truth, x.mean(axis=0), x.std(axis=0), ess,
        bool(run.status.findings),
    )  # fmt: skip


def _nearer(u: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> float:
    """The share of draws `(S, p)` nearer to their mean than the truth, in Mahalanobis distance."""
    mean = u.mean(axis=0)
    root = np.linalg.pinv(np.atleast_2d(np.cov(u.T)), hermitian=True)
    off = np.concatenate([u, truth[None]]) - mean
    distance = np.einsum("ij,jk,ik->i", off, root, off)
    ties = 1 + np.sum(distance[:-1] == distance[-1])
    return float((np.sum(distance[:-1] < distance[-1]) + rng.random() * ties) / (len(u) + 1))


def scalars_of(theta: Mapping[str, Any]) -> np.ndarray:
    """The scalar parameters of one point, in the order of `scalar_draws`."""
    return scalar_draws({name: np.asarray(x, float)[None] for name, x in theta.items()})[1][0]


def _failed(theta: Mapping[str, Any], why: str) -> Fit:
    truth = scalars_of(theta)
    none = np.full(truth.shape, np.nan)
    return Fit(none, float("nan"), truth, none, none, float("nan"), True, why)


class Collected(NamedTuple):
    """All fits that worked, stacked; and what went wrong with the others."""

    pit: np.ndarray  # (N, p)
    joint: np.ndarray  # (N,)
    truth: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    ess: np.ndarray  # (N,)
    warned: int
    failed: tuple[str, ...]


def collected(fits: list[Fit]) -> Collected:
    """Fits as arrays, those that failed left out and counted."""
    good = [f for f in fits if not f.why]
    failed = tuple(f.why for f in fits if f.why)
    if len(good) < 2:
        raise ValueError(
            f"Hardly any of {len(fits)} data sets could be fitted, the first not because "
            f"{failed[0]}. Try the sampler on one simulated data set first."
        )
    columns = (np.stack([f[j] for f in good]) for j in range(6))
    return Collected(*columns, sum(f.warned for f in good), failed)  # pyright: ignore


def notes_of(found: Collected) -> Iterator[str]:
    """What a table says of data sets that failed or were doubted."""
    if found.failed:
        yield f"! {len(found.failed)} data sets are left out, the first because {found.failed[0]}."
    if found.warned:
        yield f"! {found.warned} runs came with warnings: look at one of them with run.summary()."
