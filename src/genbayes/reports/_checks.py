"""Whether the model fits the data, for runs whose target is known."""

from dataclasses import dataclass, field
from typing import Any

from .. import diagnostics
from ..runs import Run
from ..targets import ScorePosterior
from ._pictures import picture
from ._verdict import Level, Verdict

ABSENT = (
    "Not checked: a run that was read from disk does not hold its simulator. "
    "genbayes.report(run, path, target=...) checks it."
)
SLOW = (
    "Not checked, because the simulator is no compiled function and may be slow. "
    "genbayes.report(run, path, checks=True) checks it."
)
UNASKED = "Not checked, as was asked."
EXACT = "Not checked: the target has no simulator, so there are no forecasts to compare with."
NUM_DRAWS = 200
FEW_SIMULATIONS = 50


@dataclass(frozen=True)
class Checks:
    """What is to be shown, and what there is to worry about."""

    parts: list[dict[str, Any]] = field(default_factory=list)
    findings: tuple[str, ...] = ()


def checks(run: Run, target: ScorePosterior | None, wanted: bool | None) -> Checks:
    """Misfit, forecasts and influence, where the simulator is at hand and quick."""
    target = run.target if target is None else target
    why = _why_not(target, wanted)
    if why is not None or target is None:
        return Checks([{"text": why}])
    try:
        misfit = diagnostics.misfit(run, target=target)
        forecast = diagnostics.predictive(run, target=target, num_draws=NUM_DRAWS)
        influence = diagnostics.observation_influence(
            run, target=target, num_draws=NUM_DRAWS, num_simulations=_few(target)
        )
    except Exception as error:  # the simulator is the user's: a page without it is worth having
        return Checks([{"text": f"The check could not be made: {error}"}])
    said = " ".join(misfit.findings) or (
        "Tests against forecasts of the prior and of the posterior saw no misfit. They are "
        "conservative, and see little with few observations."
    )
    caption = (
        "Distance between observations and simulations (line) among its values where labels are "
        "exchanged: a line far to the right is a misfit."
    )
    parts = [
        {"text": said, "picture": picture(misfit.plot(), caption), "table": misfit.table()},
        {"picture": picture(forecast.plot(), _coverage(forecast)), "table": forecast.table()},
        {"picture": picture(influence.plot(), _rows(influence)), "table": influence.table()},
    ]
    return Checks(parts, misfit.findings)


def _why_not(target: ScorePosterior | None, wanted: bool | None) -> str | None:
    if wanted is False:
        return UNASKED
    if target is None:
        return ABSENT
    if target.problem.simulator is None:
        return EXACT
    return None if wanted or target.problem.simulator.traceable else SLOW


def _few(target: ScorePosterior) -> int | None:
    """Simulations at each draw: no more than a glance takes."""
    least = max(2, target.score.min_simulations)
    return None if target.is_exact else max(least, min(FEW_SIMULATIONS, target.num_simulations))


def _rows(influence: Any) -> str:
    said = " ".join(influence.findings) or "No single observation moves a mean by over an sd."
    return f"What leaving out each observation would do to posterior means. {said}"


def _coverage(forecast: Any) -> str:
    low, high = forecast.interval(0.9)
    inside = ((forecast.observations >= low) & (forecast.observations <= high)).mean()
    return (
        f"Posterior forecasts beside the observations: {inside:.0%} of the observed numbers lie "
        "in the central 90 % of the forecasts."
    )


def with_findings(verdict: Verdict, findings: tuple[str, ...]) -> Verdict:
    """A verdict that has also seen whether the model fits."""
    if not findings:
        return verdict
    reasons = [r for r in verdict.reasons if r[0] is not Level.FINE]
    reasons += [(Level.LOOK, text) for text in findings]
    return Verdict(reasons[0][0], tuple(reasons))
