"""What an experiment came to, kept beside its results, so that an index can tell of all."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .._table import Table, format_cell

NUMBERS = "numbers.md"  # all of them, beside the index
VERDICTS = ("agrees", "differs", "not compared")


@dataclass(frozen=True)
class Number:
    """A published number beside ours, judged."""

    what: str
    published: float
    ours: float
    error: float
    distance: float
    verdict: str
    bound: bool
    note: str = ""  # what explains a difference, if it differs


@dataclass(frozen=True)
class Outcome:
    """What the index says of an experiment.

    `seconds` is how long the last call took, `work_seconds` the processor time of all its cells.
    """

    name: str
    title: str
    scale: str
    page: str
    published: bool
    failures: int
    seconds: float
    work_seconds: float
    numbers: list[Number]

    @property
    def verdicts(self) -> Counter[str]:
        """How many numbers have which verdict."""
        return Counter(number.verdict for number in self.numbers)


@dataclass(frozen=True)
class Reproduction:
    """The page to begin with, and what the experiments of this call came to."""

    index: Path
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> int:
        """How many cells failed."""
        return sum(outcome.failures for outcome in self.outcomes)

    def table(self) -> Table:
        """One row for each experiment."""
        rows = [
            (o.name, *(o.verdicts[v] for v in VERDICTS), o.failures, round(o.work_seconds))
            for o in self.outcomes
        ]
        columns = ("experiment", *VERDICTS, "failed cells", "processor seconds")
        return Table(columns, rows, "Published numbers")


def _path(name: str, scale: str, out: Path) -> Path:
    return out / name / f"{scale}.json"


def write_outcome(outcome: Outcome, out: Path) -> None:
    """Keep it beside the results."""
    path = _path(outcome.name, outcome.scale, out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(outcome)))


def read_outcome(name: str, scale: str, out: Path) -> Outcome | None:
    """What was kept, if the experiment was ever computed in that folder."""
    try:
        kept = json.loads(_path(name, scale, out).read_text())
        return Outcome(**kept | {"numbers": [Number(**n) for n in kept["numbers"]]})
    except (OSError, ValueError, TypeError, KeyError):
        return None  # absent, damaged, or of another version


def write_numbers(outcomes: Sequence[Outcome], out: Path) -> Path:
    """All published numbers beside ours, as Markdown."""
    lines = ["# Published numbers and ours", "", _how(outcomes), "", *_summary(outcomes), ""]
    for outcome in outcomes:
        counts = ", ".join(f"{outcome.verdicts[v]} {v}" for v in VERDICTS if outcome.verdicts[v])
        data = "the published observations" if outcome.published else "generated observations"
        lines += [f"## {outcome.title} (`{outcome.name}`)", "", f"On {data}: {counts}.", ""]
        lines += [
            "| number | published | ours | its error | distance | verdict |",
            "|---" * 6 + "|",
        ]
        lines += [_row(number) for number in outcome.numbers]
        lines += [""]
    path = out / NUMBERS
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _how(outcomes: Sequence[Outcome]) -> str:
    scale = outcomes[0].scale if outcomes else "no"
    return (
        f"Written by `genbayes reproduce`, {scale} scale. The distance is the difference in units "
        "of its Monte Carlo error, beyond what the rounding of the printed number explains."
    )


def _summary(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each experiment, and their sum."""
    counts = [[o.verdicts[v] for v in VERDICTS] for o in outcomes]
    minutes = [o.work_seconds / 60 for o in outcomes]
    rows = [
        [f"`{o.name}`", *map(str, count), f"{spent:.1f}"]
        for o, count, spent in zip(outcomes, counts, minutes, strict=True)
    ]
    total = [str(sum(column)) for column in zip(*counts, strict=True)]
    rows.append(["all", *total, f"{sum(minutes):.1f}"])
    columns = ["experiment", *VERDICTS, "processor minutes"]
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _row(n: Number) -> str:
    published = ("< " if n.bound else "") + format_cell(n.published)
    verdict = f"{n.verdict}: {n.note}" if n.note and n.verdict == "differs" else n.verdict
    rest = (format_cell(n.ours), format_cell(n.error), format_cell(n.distance), verdict)
    return "| " + " | ".join((n.what, published, *rest)) + " |"
