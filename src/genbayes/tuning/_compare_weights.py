"""All rules for the weight side by side."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._checks import check_between
from .._result import AbstractResult
from .._table import Table
from .._types import Key
from ..problem import Problem
from ..runs import Run
from ..scores import AbstractScore
from ..targets import ScorePosterior
from ._match_coverage import coverage_of
from ._match_information import check_bootstrap, information_of
from ._match_minimisers import minimisers_of
from ._match_variance import reference_variance, variance_of_reference
from ._match_weight import match_weight
from ._prior_draws import as_key, check_problem, rng_of
from ._risk import Fit, fit
from ._weight import AbstractWeight

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Weights(AbstractResult):
    """Weights by several rules: `found`, by name of the function; `failed`, why others gave none.

    `shared_calls` are simulations for the fit that several rules share; each counts them too.
    """

    found: dict[str, AbstractWeight]
    failed: dict[str, str]
    shared_calls: int
    seconds: float

    def __getitem__(self, rule: str) -> AbstractWeight:
        """The weight by one rule, such as `"match_information"`."""
        return self.found[rule]

    def table(self) -> Table:
        """One row for each rule."""
        rows: list[tuple[Any, ...]] = [
            (name, w.value, *w.interval, w.rule) for name, w in self.found.items()
        ]
        notes = [f"! {name}: {f}" for name, w in self.found.items() for f in w.findings]
        notes += [f"! {name}: {why}" for name, why in self.failed.items()]
        notes += ["from, to: each rule's own interval, see the result of the rule"]
        notes += [f"{self.simulator_calls:,} simulations, {self.seconds:.1f} s"]
        heads = ("rule", "weight", "from", "to", "matches")
        return Table(heads, rows, "Weights", notes)

    @property
    def simulator_calls(self) -> int:
        """Of all rules together."""
        sharing = [w for name, w in self.found.items() if name != "match_weight"]
        repeated = max(0, len(sharing) - 1) * self.shared_calls
        return sum(w.simulator_calls for w in self.found.values()) - repeated

    def plot(self) -> "Figure":
        """Weights with their intervals on one logarithmic axis."""
        from .._figure import COLOURS, axis_labels, panels

        figure, (ax,) = panels(["weights by rule"], 1, (6.0, 1.2 + 0.4 * len(self.found)))
        for j, w in enumerate(self.found.values()):
            ax.plot(w.interval, (j, j), color=COLOURS[0], linewidth=2)
            ax.plot(w.value, j, "o", color=COLOURS[1])
        ax.set_yticks(range(len(self.found)), list(self.found))
        ax.set_ylim(len(self.found) - 0.5, -0.5)
        ax.set_xscale("log")
        axis_labels(ax, "weight", "")
        return figure


def compare_weights(
    problem: Problem,
    score: AbstractScore,
    *,
    reference: AbstractScore | None = None,
    posterior: ScorePosterior | Run | None = None,
    nominal: float = 0.9,
    num_bootstrap: int = 200,
    num_draws: int = 1000,
    num_simulations: int = 500,
    level: float = 0.95,
    seed: int | Key = 0,
) -> Weights:
    r"""The weights that all rules give for one problem: how much they differ is worth knowing.

    **Arguments:**

    - `reference`: a score for `match_weight`. `posterior`: a target or a run for
        `match_variance`. Without them these two rules are left out.
    - `nominal`: the level whose coverage `match_coverage` looks at.
    - `num_bootstrap`, `num_simulations`, `level`, `seed`: as for the single rules.
    - `num_draws`: prior draws of `match_weight`, and points of `match_coverage` and
        `match_variance`.

    **Returns:** a result with a `table()` and a `plot()`; `result["match_information"]` is that of
    one rule, with its evidence. A rule that does not apply (a simulator without gradients, too few
    observations) is told in the notes, and the others go on. Rules answer different questions:
    see the page on weights.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -2.0 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=40)
    >>> found = gb.tuning.compare_weights(problem, score, num_bootstrap=50, num_draws=300)
    >>> found.table().column("rule")
    ['match_information', 'match_minimisers', 'match_coverage']

    ```

    Reference: those of the rules.
    """
    begun = time.perf_counter()
    check_problem(problem)
    check_bootstrap(num_bootstrap, level)
    check_between("nominal", nominal, 0, 1)
    key = as_key(seed)
    done: dict[str, AbstractWeight] = {}
    failed: dict[str, str] = {}

    def attempt(name: str, rule: Callable[[], AbstractWeight]) -> None:
        try:
            done[name] = rule()
        except ValueError as error:
            failed[name] = str(error)

    if reference is not None:
        attempt("match_weight", lambda: match_weight(
            problem, score, reference=reference, num_draws=num_draws, level=level, seed=key,
            num_simulations=num_simulations,
        ))  # fmt: skip
    try:
        near: Fit | None = fit(key, problem, score, num_simulations)
    except ValueError as error:
        near = None
        failed["all others"] = str(error)
    if near is not None:
        for name, rule in _rules(
            key, near, posterior, nominal, num_bootstrap, num_draws, num_simulations, level
        ).items():
            attempt(name, rule)
    if not done:
        raise ValueError(f"No rule gave a weight. {'; '.join(failed.values())}")
    return Weights(done, failed, 0 if near is None else near.calls, time.perf_counter() - begun)


def _rules(
    key: Key, near: Fit, posterior: ScorePosterior | Run | None, nominal: float,
    num_bootstrap: int, num_draws: int, num_simulations: int, level: float,
) -> dict[str, Callable[[], AbstractWeight]]:  # fmt: skip
    """The rules that go from the same fit."""
    now = time.perf_counter

    def variance() -> AbstractWeight:
        begun, rng, prior = now(), rng_of(key), near.risk.target.problem.prior
        wanted = reference_variance(key, prior, posterior, num_draws, num_simulations, rng)
        return variance_of_reference(near, wanted, num_draws, level, rng, begun)

    rules: dict[str, Callable[[], AbstractWeight]] = {
        "match_information": lambda: information_of(near, num_bootstrap, level, rng_of(key), now()),
        "match_minimisers": lambda: minimisers_of(near, num_bootstrap, level, rng_of(key), now()),
        "match_coverage": lambda: coverage_of(
            near, nominal, 2 * num_bootstrap, num_draws, level, rng_of(key), now()
        ),
    }
    return rules if posterior is None else rules | {"match_variance": variance}
