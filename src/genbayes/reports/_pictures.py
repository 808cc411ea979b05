"""Pictures of how the sampler fared, drawn once and put into the page."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from .. import plots
from ..runs import Run
from ._findings import moves_sentence, thermostat_sentence
from ._svg import inline_svg

MOST_RANKED = 8


def picture(figure: Figure, caption: str) -> dict[str, Any]:
    """A figure with the sentence that says what it shows."""
    return {"svg": inline_svg(figure, plots.INK, caption), "caption": caption}


def diagnostics(run: Run, first: Sequence[str]) -> list[dict[str, Any]]:
    """The pictures that fit the sampler of a run; `first`, the coordinates to rank."""
    if run.unconstrained.shape[1] == 0:
        return []
    found: list[dict[str, Any]] = []
    if run.weights is None:
        (own,) = plots.as_series(run)
        ranked = [name for name in first if name in own.draws][:MOST_RANKED]
        found.append(picture(plots.ranks(run, parameters=ranked), RANKS))
    for names, draw, say in MOVES:
        if run.weights is None and any(name in run.info for name in names):
            found.append(picture(draw(run), say(run)))
    if getattr(run, "failures", ()):
        number = len(run.failures)  # pyright: ignore[reportAttributeAccessIssue]
        caption = f"Where {number:,} simulations failed, over the draws."
        found.append(picture(plots.failures(run), caption))
    return found


RANKS = (
    "How often each chain's draws fall into each twentieth of all draws. Chains that agree stay "
    "inside the band."
)
MOVES: tuple[tuple[tuple[str, ...], Callable[[Any], Figure], Callable[[Any], str]], ...] = (
    (("accepted", "acceptance_rate"), plots.acceptance, moves_sentence),
    (("thermostat",), plots.thermostat, thermostat_sentence),
)
