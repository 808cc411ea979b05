"""Output: tables that suit the place they are printed to, and JSON."""

import json
import math
import shutil
import sys
import textwrap
from typing import Any

from .._table import Table, format_cell

GAP = 3


def say(text: str) -> None:
    """A line on standard error, where it does not get in the way of what is read by programs."""
    print(text, file=sys.stderr, flush=True)


def show(table: Table) -> None:
    """A table on standard output: as it is in a file or a pipe, fitted to a terminal's width."""
    if not sys.stdout.isatty():
        print(table)
        return
    width = shutil.get_terminal_size().columns
    cells = [table.columns, *[tuple(format_cell(c) for c in row) for row in table.rows]]
    needed = sum(max(len(row[j]) for row in cells) for j in range(len(table.columns)))
    if needed + GAP * (len(table.columns) - 1) <= width:
        _wide(table, cells)
    else:
        _narrow(table, cells)
    for note in table.notes:
        _note(note, width)


def _wide(table: Table, cells: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for j, name in enumerate(table.columns):
        drawn.add_column(name, justify="left" if j == 0 else "right", no_wrap=True)
    for row in cells[1:]:
        drawn.add_row(*map(Text, row))
    console = Console(highlight=False)
    if table.title:
        console.print(Text(table.title, style="bold"))
    console.print(drawn)


def _narrow(table: Table, cells: list[tuple[str, ...]]) -> None:
    """Where the columns do not fit side by side: one block a row, nothing cut off."""
    if table.title:
        print(table.title)
    margin = max((len(name) for name in table.columns[1:]), default=0)
    for row in cells[1:]:
        print(row[0])
        for name, cell in zip(table.columns[1:], row[1:], strict=True):
            print(f"  {name:<{margin}}  {cell}")


def _note(note: str, width: int) -> None:
    from rich.console import Console
    from rich.text import Text

    wrapped = textwrap.fill(note, width, subsequent_indent="  ", break_on_hyphens=False)
    style = "yellow" if note.startswith("!") else "dim"
    Console(highlight=False, soft_wrap=True).print(Text(wrapped, style=style))


def show_json(value: Any) -> None:
    """JSON on standard output; numbers that are not finite become null."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return str(value)
