"""Whether the model fits the data, for runs whose target is known."""

from typing import Any

from ..runs import Run
from ..targets import ScorePosterior

ABSENT = (
    "Not checked: a run that was read from disk does not hold its simulator. "
    "genbayes.report(run, path, target=...) checks it."
)


def checks(run: Run, target: ScorePosterior | None) -> list[dict[str, Any]]:
    """Checks of the model, each with a text, a picture and a table where it has them."""
    if target is None and run.target is None:
        return [{"text": ABSENT}]
    return [{"text": "Not checked."}]
