"""All benchmarks: `make bench`, or `python -m benchmarks NAME...`, names as in `MODULES`, `LONG`.

Those in `LONG` take long and run only when they are asked for by name. The comparison of samplers
goes on where it was interrupted; `--again` begins it anew, and `--quick` is a short look.
"""

import importlib
import importlib.util
import inspect
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

MODULES = ("step", "scores", "pm_steps", "storing")
LONG = ("black_box", "samplers", "integrators", "smc_abc", "peers")  # only by name
FURTHER = {
    "start_rows": "From nothing to the first draw.",
    "sweep_rows": "AdSGLD by integrator, noise, diffusion and step size.",
    "aim_rows": "What was aimed at.",
}


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
    flags = {"quick": "--quick" in wanted, "again": "--again" in wanted}
    wanted = [name for name in wanted if name not in ("--quick", "--again")]
    unknown = set(wanted) - {*MODULES, *LONG}
    if unknown:
        there = ", ".join((*MODULES, *LONG))
        sys.exit(f"No benchmark {', '.join(sorted(unknown))}: there are {there}.")
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print("Medians over interleaved rounds, with quartiles in brackets.\n")
    for name in wanted or MODULES:
        if importlib.util.find_spec(f"benchmarks.{name}") is None:
            console.print(f"(there is no benchmark of {name})")
            continue
        module = importlib.import_module(f"benchmarks.{name}")
        taken = inspect.signature(module.rows).parameters
        settings = {flag: value for flag, value in flags.items() if flag in taken}
        show(console, (module.__doc__ or name).splitlines()[0], module.rows(**settings))
        for further, title in FURTHER.items():
            if hasattr(module, further) and (found := getattr(module, further)()):
                show(console, title, found)


if __name__ == "__main__":
    main(sys.argv[1:])
