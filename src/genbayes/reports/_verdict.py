"""Whether a run can be trusted, in one word and with the reasons."""

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runs import Outcome, Run

# beyond the first the chains ask for a look, beyond the second they say different things
RHAT_LOOK, RHAT_DISTRUST = 1.01, 1.1
ESS_LOOK, ESS_DISTRUST = 100, 50  # the first for each chain, the second in all
REFUSED_DISTRUST = 0.05  # share of steps
BROKEN = (Outcome.DIVERGED, Outcome.HALVED)
NAMED = 4  # parameters named in a reason


class Level(enum.Enum):
    """What to do with a run."""

    FINE = "fine"
    LOOK = "look here"
    DISTRUST = "do not trust"


@dataclass(frozen=True)
class Verdict:
    """A level and the reasons for it, the gravest first; each reason is `(level, sentence)`."""

    level: Level
    reasons: tuple[tuple[Level, str], ...]

    def __str__(self) -> str:
        return "\n".join([self.level.value, *(f"- {text}" for _, text in self.reasons)])


def verdict(run: Run) -> Verdict:
    """What the run itself says of whether it can be trusted.

    It looks at how the run ended, what its sampler noticed, R-hat, effective sample sizes, weights,
    failed simulations. It cannot see whether the model fits the data, nor a mode that no chain
    visited.

    **Arguments:** `run`, a `Run`, live or loaded.

    **Returns:** a `Verdict`, with `level` and `reasons`.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem()
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=20, progress=False)
    >>> gb.reports.verdict(run).level
    <Level.DISTRUST: 'do not trust'>

    ```
    """
    reasons = [*_ending(run), *_noticed(run)]
    if run.unconstrained.shape[1] and run.draws:
        reasons += [*_chains(run), *_weights(run)]
    order = (Level.DISTRUST, Level.LOOK, Level.FINE)
    reasons.sort(key=lambda reason: order.index(reason[0]))
    return Verdict(reasons[0][0], tuple(reasons)) if reasons else _nothing(run)


def _nothing(run: Run) -> Verdict:
    chains, draws = run.unconstrained.shape[:2]
    text = (
        f"Complete: {chains} x {draws:,} draws, and nothing was noticed that gives reason to doubt."
    )
    return Verdict(Level.FINE, ((Level.FINE, text),))


def _ending(run: Run) -> Iterator[tuple[Level, str]]:
    draws, outcome = run.unconstrained.shape[1], run.status.outcome
    if draws == 0:
        yield Level.DISTRUST, "There are no draws: the run was stopped before it kept any."
    if outcome in BROKEN:
        yield Level.DISTRUST, outcome.value
    elif not outcome.good:
        asked = f"{draws:,} of {run.plan.num_samples:,} draws a chain were made."
        if run.plan.num_generations is not None:
            asked = (
                f"{run.num_generations:,} of {run.plan.num_generations:,} generations were made."
            )
        yield Level.LOOK, f"{outcome.value} {asked}"


def _noticed(run: Run) -> Iterator[tuple[Level, str]]:
    exploded = int(np.sum(run.info["exploded"])) if "exploded" in run.info else 0
    refused = np.asarray(run.info["refused"]) if "refused" in run.info else np.zeros(0)
    grave = exploded > 0 or (refused.size > 0 and refused.mean() > REFUSED_DISTRUST)
    for finding in run.status.findings:
        yield Level.DISTRUST if grave else Level.LOOK, finding
    failed = len(getattr(run, "failures", ()))
    if failed:
        yield (
            Level.LOOK,
            (
                f"{failed:,} simulation{'s' * (failed > 1)} failed; their draws were refused, so "
                "the posterior leaves out parameters where the simulator does not run."
            ),
        )


def _chains(run: Run) -> Iterator[tuple[Level, str]]:
    if run.weights is not None:  # particles are no chains
        return
    rows, chains = run.summary().to_dicts(), run.unconstrained.shape[0]
    for limit, level in ((RHAT_DISTRUST, Level.DISTRUST), (RHAT_LOOK, Level.LOOK)):
        above = {r["parameter"]: r["r-hat"] for r in rows if not r["r-hat"] <= limit}
        if above:
            yield (
                level,
                (
                    f"R-hat is above {limit} for {_named(above, largest=True)}: "
                    + ("chains" if chains > 1 else "the two halves of the chain")
                    + " do not agree. Draw more, or look at the traces for a chain that sits apart."
                ),
            )
            break
    least = {r["parameter"]: min(r["ess bulk"], r["ess tail"]) for r in rows}
    few = {name: x for name, x in least.items() if not x >= ESS_LOOK * chains}
    if few:
        grave = any(not x >= ESS_DISTRUST for x in few.values())
        yield (
            Level.DISTRUST if grave else Level.LOOK,
            (
                f"The effective sample size is under {ESS_LOOK * chains} for {_named(few)}: means "
                "and intervals are known only roughly. Draw more."
            ),
        )


def _named(values: dict[str, float], largest: bool = False) -> str:
    """Parameters with their values, the worst first; a value that is none is the worst."""
    sign = -1 if largest else 1
    worst = sorted(values, key=lambda k: -math.inf if math.isnan(values[k]) else sign * values[k])
    shown = ", ".join(f"{name} ({_short(values[name])})" for name in worst[:NAMED])
    return shown + (f" and {len(worst) - NAMED} more" if len(worst) > NAMED else "")


def _short(x: Any) -> str:
    return "not computable" if math.isnan(x) else f"{x:.3g}" if x < 100 else f"{x:.0f}"


def _weights(run: Run) -> Iterator[tuple[Level, str]]:
    if run.weights is None:
        return
    size = 1 / float(np.sum(run.weights**2))
    if not size >= ESS_LOOK:
        yield (
            Level.DISTRUST if not size >= ESS_DISTRUST else Level.LOOK,
            (
                f"The weights leave {size:.0f} effective draws of {run.weights.size:,}: few "
                "particles carry the posterior. Use more of them."
            ),
        )
