"""A small table that prints well in a terminal, a notebook and a page."""

import html
import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows under named columns, with notes below.

    ```python
    >>> from genbayes._table import Table
    >>> print(Table(("name", "mean"), [("A", 2.5)], title="Posterior"))
    Posterior
    name   mean
    A       2.5

    ```
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    title: str = ""
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        cells = [self.columns, *[tuple(format_cell(c) for c in row) for row in self.rows]]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.columns))]
        lines = [
            "   ".join(
                cell.ljust(width) if j == 0 else cell.rjust(width)
                for j, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        return "\n".join([*([self.title] if self.title else []), *lines, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(format_cell(c))}</td>" for c in row) + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        notes = "".join(f"<p>{html.escape(n)}</p>" for n in self.notes)
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def to_dicts(self) -> list[dict[str, Any]]:
        """One mapping a row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def column(self, name: str) -> list[Any]:
        """The values of one column."""
        return [row[self.columns.index(name)] for row in self.rows]


def format_cell(value: Any) -> str:
    """A number with three or four significant digits; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "–" if math.isnan(value) else str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4g}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.2e}"
