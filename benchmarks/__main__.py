"""All benchmarks: `make bench`, or `python -m benchmarks [step] [scores]`."""

import importlib
import importlib.util
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

MODULES = ("step", "scores")


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    """A table with the columns of its rows."""
    table = Table(title=title, title_justify="left")
    for j, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if j == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row.values()))
    console.print(table)


def main(wanted: list[str]) -> None:
    """Run the benchmarks that are asked for, or all of them."""
    unknown = set(wanted) - set(MODULES)
    if unknown:
        sys.exit(f"No benchmark {', '.join(sorted(unknown))}: there are {', '.join(MODULES)}.")
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print("Medians over interleaved rounds, with quartiles in brackets.\n")
    for name in wanted or MODULES:
        if importlib.util.find_spec(f"benchmarks.{name}") is None:
            console.print(f"(there is no benchmark of {name})")
            continue
        module = importlib.import_module(f"benchmarks.{name}")
        show(console, (module.__doc__ or name).splitlines()[0], module.rows())
        if hasattr(module, "start_rows"):
            show(console, "From nothing to the first draw.", module.start_rows())


if __name__ == "__main__":
    main(sys.argv[1:])
