"""`watch`: a run that goes on in another process, as its folder shows it."""

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..runs import Outcome, Peek, labelled, latest_draws, peek
from ._errors import BAD_END, DONE, CommandError
from ._run import STATUS
from ._show import say

if TYPE_CHECKING:
    from rich.console import Group

LAST = 2000  # draws of the traces
MOST_LINES = 16
BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.-=+*%#"


def watch_run(path: Path, *, interval: float, once: bool) -> int:
    """Look until the run ends; give the exit status that the run itself would have had."""
    rate = Rate()
    found = _look(path, rate)
    if sys.stdout.isatty():
        found = _live(found, path, rate, interval, once)
    else:
        found = _lines(found, path, rate, interval, once)
    if found.going_on:
        return DONE
    _say_end(found)
    return BAD_END if found.state == "cut off" else STATUS.get(found.status.outcome, DONE)


def _look(path: Path, rate: "Rate") -> Peek:
    found = peek(path)
    if found.error:
        raise CommandError(found.error)
    rate.add(int(found.progress.get("step", 0)))
    return found


def _live(found: Peek, path: Path, rate: "Rate", interval: float, once: bool) -> Peek:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(_frame(found, rate), console=console, auto_refresh=False) as live:
        while found.going_on and not once:
            time.sleep(interval)
            found = _look(path, rate)
            live.update(_frame(found, rate), refresh=True)
    return found


def _lines(found: Peek, path: Path, rate: "Rate", interval: float, once: bool) -> Peek:
    print(line(found, rate), flush=True)
    while found.going_on and not once:
        time.sleep(interval)
        found = _look(path, rate)
        print(line(found, rate), flush=True)
    return found


def _say_end(found: Peek) -> None:
    if found.state == "cut off":
        say(
            "The run was cut off: no process writes to it. Go on with  genbayes resume "
            + shlex.quote(str(found.path))
        )
    elif found.status.outcome is not Outcome.RUNNING:
        say(str(found.status))


class Rate:
    """Steps a second between the last looks."""

    def __init__(self):
        self._seen: list[tuple[float, int]] = []

    def add(self, step: int) -> None:
        """So many steps are done now."""
        self._seen = [*self._seen[-9:], (time.monotonic(), step)]

    @property
    def value(self) -> float:
        """Steps a second, 0 where it is not known yet."""
        (before, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - before) if now > before else 0.0


def line(found: Peek, rate: Rate) -> str:
    """How far a run has come, on one line."""
    step, plan = int(found.progress.get("step", 0)), found.plan
    phase = found.state if not found.going_on else _phase(step, plan.num_warmup)
    parts = [f"{phase}: {step:,}/{plan.num_steps:,} steps"]
    if found.going_on and rate.value:
        parts += [
            f"{rate.value:,.0f} steps/s",
            f"{_clock((plan.num_steps - step) / rate.value)} left",
        ]
    parts += [f"{plan.num_chains} x {found.draws:,} draws", *_moves(found)]
    return ", ".join(parts)


def bar(share: float, width: int) -> str:
    """How much is done, as a row of a given width.

    >>> bar(0.5, 10)
    '━━━━━     '
    """
    mark = "━" if _can_print("━") else "="
    return (mark * round(share * width)).ljust(width)


def _phase(step: int, num_warmup: int) -> str:
    return "warm-up" if step < num_warmup else "sampling"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _moves(found: Peek) -> list[str]:
    """Steps that were accepted or refused, since the run began."""
    tallies, steps = found.progress.get("tallies", {}), max(1, found.cost.steps)
    said = [f"{tallies['accepted'] / steps:.0%} accepted"] if "accepted" in tallies else []
    return said + [
        f"{tallies[k]:,} {k}" for k in ("refused", "divergent", "failed") if k in tallies
    ]


def _frame(found: Peek, rate: Rate) -> "Group":
    from rich.console import Group
    from rich.text import Text

    size = shutil.get_terminal_size()
    plan, step = found.plan, int(found.progress.get("step", 0))
    cost, state = found.cost, found.state + (f" ({found.owner})" if found.owner else "")
    about = f"{cost.simulator_calls:,} simulator calls, {_clock(cost.seconds)} so far"
    return Group(
        Text(f"{found.path}  {found.sampler}  {state}", style="bold"),
        Text(bar(step / plan.num_steps, min(60, size.columns))),
        Text(line(found, rate)),
        Text(about, style="dim"),
        *(Text(row, no_wrap=True, overflow="crop") for row in _traces(found, size.columns)),
        *(Text(f"! {finding}", style="yellow") for finding in found.status.findings),
    )


def _traces(found: Peek, width: int) -> list[str]:
    """A line for each chain of each parameter, as far as there is room: its last draws."""
    if not found.draws:
        return ["No draws yet."]
    flat = _coordinates(latest_draws(found.path, LAST))
    chains = next(iter(flat.values())).shape[0]
    shown = chains if len(flat) * chains <= MOST_LINES else 1
    margin = min(24, max(len(name) for name in flat))
    rows = [
        f"{name[:margin]:{margin}} {trace(x[c], x, max(10, width - margin - 26))}"
        f" {x[c].mean():>10.4g} ± {x[c].std():<9.3g}"
        for name, x in list(flat.items())[:MOST_LINES]
        for c in range(shown)
    ]
    last = min(LAST, found.draws)
    which = "each chain" if shown == chains else "the first chain"
    return [f"The last {last:,} draws of {which}, their mean and sd:", *rows]


def _coordinates(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    draws = {k.removeprefix("draws/"): x for k, x in arrays.items() if k.startswith("draws/")}
    return labelled(draws)


def trace(x: np.ndarray, scale: np.ndarray, width: int) -> str:
    """Draws as a row of blocks between the least and the greatest of `scale`.

    >>> trace(np.arange(8.0), np.arange(8.0), 8)
    '▁▂▃▄▅▆▇█'
    """
    blocks = BLOCKS if _can_print(BLOCKS) else ASCII
    shown = x[np.linspace(0, x.size - 1, min(width, x.size)).astype(int)]
    low, high = float(np.min(scale)), float(np.max(scale))
    places = (shown - low) / (high - low) if high > low else np.full(shown.size, 0.5)
    numbers = np.clip((places * len(blocks)).astype(int), 0, len(blocks) - 1)
    return "".join(blocks[n] for n in numbers)


def _can_print(text: str) -> bool:
    try:
        text.encode(getattr(sys.__stdout__, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True
