"""Step size by bandit: many chains race, and the Stein discrepancy decides who goes on."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from .._checks import check_count, check_positive
from .._result import AbstractResult
from .._table import Table
from .._tree import floats_to_arrays
from .._types import Key, Unconstrained
from ..diagnostics import fresh_gradients, stein_discrepancy
from ..runs import start_at
from ..samplers import PSGLD, SGHMC, SGLD, AbstractSampler, AdSGLD, Tuned
from ..targets import ScorePosterior
from ._race import Field, Leg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = tuple(float(10 ** (-0.5 * j)) for j in range(2, 16))  # 10^-1 ... 10^-7.5
MOST_REFUSED = 0.01  # beyond this share of steps, or of gradients, an arm has diverged
LEAST_WARMUP = 20


class Bandit(eqx.Module):
    r"""A step size found by successive halving, each arm judged by its Stein discrepancy.

    Stands in place of a step size, and `gb.sample` asks it before the run starts:
    `AdSGLD(step_size=gb.tuning.Bandit())`. What it chose and why is in the run's remarks and
    provenance, and in its store, so that a run that is resumed is not tuned again.

    All arms of a round walk together as one compiled program. After a round, the $1/\eta$ of the
    arms with the lowest discrepancy over that round's draws go on, with longer walks. Arms that
    diverge (more than 1 % of steps refused, or draws or gradients that are not finite) are dropped.

    **Arguments:**

    - `grid`: the step sizes. Absent, the published $10^{-1}, 10^{-1.5}, \dots, 10^{-7.5}$, which
        are squares of the step size $\epsilon$ of samplers with momentum (`AdSGLD`, `SGHMC`).
    - `eta`: how many times fewer arms each round has.
    - `budget`: steps of all arms together, shared equally among rounds: the same seed gives the
        same choice on every machine. `seconds`, in its place: wall-clock time, as published, which
        does not.
    - `num_draws`: draws of each arm and round, evenly spaced, that the discrepancy is computed
        from, with a fresh gradient at each.
    - `num_simulations` of those gradients; absent, as many as the target takes.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, score)
    >>> sampler = gb.SGLD(step_size=gb.tuning.Bandit(grid=(0.02, 0.002), budget=200))
    >>> run = gb.sample(target, sampler, num_samples=200, progress=False)
    >>> run.sampler.step_size in (0.02, 0.002)
    True

    ```

    ??? cite "Reference"
        Coullon, South and Nemeth (2023), *Efficient and generalizable tuning strategies for
        stochastic gradient MCMC*.
    """

    grid: tuple[float, ...] | None
    eta: int
    budget: int
    seconds: float | None
    num_draws: int
    num_simulations: int | None

    def __init__(
        self,
        grid: Sequence[float] | None = None,
        *,
        eta: int = 3,
        budget: int = 28_000,
        seconds: float | None = None,
        num_draws: int = 300,
        num_simulations: int | None = None,
    ):
        self.grid = None if grid is None else _checked_grid(grid)
        check_count("eta", eta, 2, "Each round keeps one arm in so many.")
        arms = len(PUBLISHED if self.grid is None else self.grid)
        check_count("budget", budget, 2 * arms * _num_rounds(arms, eta), "Steps of all arms.")
        if seconds is not None:
            check_positive("seconds", seconds)
        check_count("num_draws", num_draws, 2)
        if num_simulations is not None:
            check_count("num_simulations", num_simulations, 2)
        self.eta = eta
        self.budget = budget
        self.seconds = seconds
        self.num_draws = num_draws
        self.num_simulations = num_simulations

    def arms(self, sampler: AbstractSampler) -> tuple[float, ...]:
        """The step sizes that are tried for a sampler."""
        if self.grid is not None:
            return self.grid
        momentum = isinstance(sampler, AdSGLD | SGHMC)
        return tuple(x**0.5 if momentum else x for x in PUBLISHED)

    def tune(
        self,
        key: Key,
        target: ScorePosterior,
        sampler: AbstractSampler,
        setting: str,
        u: Unconstrained,
    ) -> Tuned:
        """The step size of a sampler whose chain starts at `u`."""
        if setting != "step_size":
            raise ValueError(
                f"Bandit chooses step sizes, and stands for {setting} of "
                f"{type(sampler).__name__}: give it as step_size."
            )
        found = _race(self, key, target, sampler, u)
        evidence = {"tuner": type(self).__name__, "arms": found.table().to_dicts()}
        return Tuned(
            found.value, found.table().notes[0], evidence, found.simulator_calls, found.seconds
        )


@dataclass(frozen=True, eq=False)
class Round:
    """One round of the race: an entry for each arm in it."""

    arms: np.ndarray
    discrepancy: np.ndarray  # infinite where the arm diverged
    refused: np.ndarray  # share of steps
    steps: int


@dataclass(frozen=True, eq=False)
class StepSize(AbstractResult):
    """A tuned step size: `value`, the `sampler` that has it, and the rounds of the race."""

    value: float
    sampler: AbstractSampler
    rounds: tuple[Round, ...]
    simulator_calls: int
    seconds: float

    def table(self) -> Table:
        """One row for each arm: its discrepancy in each round that it was in."""
        rounds = self.rounds
        columns = ("step size", *(f"KSD, {r.steps:,} steps" for r in rounds), "refused", "fate")
        rows = []
        for arm in sorted(rounds[0].arms, reverse=True):
            seen = [_entry(r, arm) for r in rounds]
            ksds = [float("nan") if e is None else e[0] for e in seen]
            met = [e for e in seen if e is not None]
            rows.append((float(arm), *ksds, f"{max(e[1] for e in met):.1%}", self._fate(arm, met)))
        name = type(self.sampler).__name__
        total = sum(r.steps * len(r.arms) for r in rounds)
        note = (
            f"Step size {self.value:.3g} of {name} chosen among {len(rounds[0].arms)} by the "
            f"lowest Stein discrepancy, in {len(rounds)} rounds of {total:,} steps in all."
        )
        return Table(columns, rows, "Step size by bandit", [note, *self._edges()])

    def _fate(self, arm: float, met: list[tuple[float, float]]) -> str:
        if arm == self.value:
            return "chosen"
        if not np.isfinite(met[-1][0]):
            return "diverged"
        return f"out after round {len(met)}"

    def _edges(self) -> list[str]:
        arms = self.rounds[0].arms
        if len(arms) > 1 and self.value in (arms.min(), arms.max()):
            side = "smallest" if self.value == arms.min() else "largest"
            return [f"! The {side} of all was chosen: give a grid that reaches further."]
        return []

    def plot(self) -> "Figure":
        """Discrepancy against step size, a line for each round."""
        from .._figure import COLOURS, INK, legend, panels

        figure, (ax,) = panels(["Step size by bandit"], 1, (6.0, 3.6))
        for j, r in enumerate(self.rounds):
            order = np.argsort(r.arms)
            y = np.where(np.isfinite(r.discrepancy), r.discrepancy, np.nan)[order]
            label = f"{r.steps:,} steps"
            ax.plot(r.arms[order], y, color=COLOURS[j % len(COLOURS)], marker="o", label=label)
        ax.axvline(self.value, color=INK, lw=1, ls="--")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("step size", color=INK)
        ax.set_ylabel("KSD", color=INK)
        legend(figure, ax)
        return figure


def _entry(r: Round, arm: float) -> tuple[float, float] | None:
    (index,) = np.nonzero(r.arms == arm)
    if not index.size:
        return None
    return float(r.discrepancy[index[0]]), float(r.refused[index[0]])


def step_size(
    target: ScorePosterior,
    sampler: AbstractSampler,
    *,
    grid: Sequence[float] | None = None,
    eta: int = 3,
    budget: int = 28_000,
    seconds: float | None = None,
    num_draws: int = 300,
    num_simulations: int | None = None,
    start: Any = "prior",
    seed: int | Key = 0,
) -> StepSize:
    """The step size whose draws are closest to the target in Stein discrepancy, for a given cost.

    **Arguments:** `sampler`, one with a step size, whose present value does not matter; `start`, as
    for `gb.sample`; all others as for `Bandit`, which does the same inside `gb.sample`.

    The arms pay for the way from the start as well: start near the bulk, for instance with
    `start=gb.tuning.Optimise()`, where that way is not to count.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, score)
    >>> tuned = gb.tuning.step_size(target, gb.SGLD(1.0), grid=(0.02, 0.002), budget=200)
    >>> tuned.sampler.step_size == tuned.value
    True

    ```
    """
    bandit = Bandit(
        grid, eta=eta, budget=budget, seconds=seconds, num_draws=num_draws,
        num_simulations=num_simulations,
    )  # fmt: skip
    key_start, key_race = jax.random.split(
        jax.random.key(seed) if isinstance(seed, (int, np.integer)) else seed
    )
    sampler.check(target)
    return _race(bandit, key_race, target, sampler, start_at(target, start, key_start))


def _race(
    bandit: Bandit, key: Key, target: ScorePosterior, sampler: AbstractSampler, u: Unconstrained
) -> StepSize:
    _check_has_step_size(sampler)
    arms = np.array(bandit.arms(sampler))
    number = _num_rounds(len(arms), bandit.eta)
    began = time.perf_counter()
    key_field, key_gradients = jax.random.split(key)
    field = Field(key_field, target, [_with_step(sampler, float(x)) for x in arms], u)
    warmup = max(LEAST_WARMUP, bandit.budget // (5 * number * len(arms)))
    field.warm_up(warmup)
    rounds: list[Round] = []
    m = bandit.num_simulations or target.num_simulations
    calls = 2 * len(arms) * warmup * target.simulations_per_estimate
    for i in range(number):
        leg = _walk(bandit, field, len(arms), number)
        gradients = jax.random.fold_in(key_gradients, i)
        losses = _losses(bandit, gradients, target, leg)
        rounds.append(Round(arms, losses, leg.refused / leg.steps, leg.steps))
        calls += len(arms) * leg.steps * target.simulations_per_estimate
        calls += 0 if target.is_exact else len(arms) * leg.draws.shape[1] * m
        kept = _survivors(rounds[-1], bandit.eta)
        field.keep_only(kept)
        arms = arms[kept]
    value = float(arms[0])
    return StepSize(
        value, _with_step(sampler, value), tuple(rounds), calls,
        time.perf_counter() - began,
    )  # fmt: skip


def _walk(bandit: Bandit, field: Field, arms: int, rounds: int) -> Leg:
    if bandit.seconds is not None:
        return field.advance_for(bandit.seconds / rounds, bandit.num_draws)
    return field.advance(bandit.budget // (rounds * arms), bandit.num_draws)


def _losses(bandit: Bandit, key: Key, target: ScorePosterior, leg: Leg) -> np.ndarray:
    """The discrepancy of each arm over the round's draws; infinite where it diverged."""
    shared = floats_to_arrays(target)
    m = bandit.num_simulations or target.num_simulations

    def loss(arm: int) -> float:
        x = leg.draws[arm]
        if leg.refused[arm] > MOST_REFUSED * leg.steps or not np.isfinite(x).all():
            return float("inf")
        s = fresh_gradients(shared, x, num_simulations=m, seed=jax.random.fold_in(key, arm))
        fine = np.isfinite(s).all(axis=1)
        if np.mean(~fine) > MOST_REFUSED:
            return float("inf")
        return stein_discrepancy(x[fine], s[fine])

    return np.array([loss(arm) for arm in range(len(leg.draws))])


def _survivors(r: Round, eta: int) -> np.ndarray:
    """The places of the arms that go on, the best first."""
    order = np.argsort(r.discrepancy, kind="stable")
    order = order[np.isfinite(r.discrepancy[order])]
    if not order.size:
        raise RuntimeError(
            f"Every step size diverged ({r.arms.min():.3g} to {r.arms.max():.3g}): the estimate or "
            "its gradient was not finite. Give a grid of smaller step sizes, or start elsewhere, "
            "for instance at gb.tuning.Optimise()."
        )
    return order[: max(1, len(r.arms) // eta)]


def _num_rounds(arms: int, eta: int) -> int:
    rounds = 0
    while arms > 1 or rounds == 0:
        arms, rounds = max(1, arms // eta), rounds + 1
    return rounds


def _with_step(sampler: AbstractSampler, value: float) -> AbstractSampler:
    return eqx.tree_at(
        lambda s: s.step_size,
        sampler,
        value,
        is_leaf=lambda x: x is sampler.step_size,  # pyright: ignore
    )


def _check_has_step_size(sampler: Any) -> None:
    if not isinstance(sampler, SGLD | PSGLD | SGHMC | AdSGLD):
        raise ValueError(
            f"{type(sampler).__name__} has no step size to be tuned by a bandit: AdSGLD, SGLD, "
            "PSGLD and SGHMC have. Others adapt in warm-up."
        )


def _checked_grid(grid: Sequence[float]) -> tuple[float, ...]:
    steps = tuple(float(x) for x in grid)
    if len(set(steps)) < len(steps) or not steps:
        raise ValueError(f"grid must hold at least one step size, and none twice; got {steps}.")
    for x in steps:
        check_positive("each step size of grid", x)
    return steps
