"""All benchmarks: `make bench`, or `python -m benchmarks NAME...`, names as in `MODULES`, `LONG`.

Each table of `MODULES` also goes into docs/speed.md, with what it was measured on. Those in `LONG`
take long and run only when they are asked for by name. The comparison of samplers goes on where it
was interrupted; `--again` begins it anew, and `--quick` is a short look that writes nothing.
"""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ._environment import LIBRARIES, environment, markdown, replace_block
from ._rounds import one_thread

PAGE = Path(__file__).resolve().parent.parent / "docs" / "speed.md"
MODULES = ("step", "scores", "pm_steps", "chains", "storing")
LONG = ("black_box", "samplers", "integrators", "smc_abc", "peers")  # only by name
FURTHER = {
    "start_rows": "From nothing to the first draw.",
    "memory_rows": "Peak memory.",
    "growth_rows": "Cost against the numbers of draws and of observations.",
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


def keep(block: str, began: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """Write a table into its place in the page."""
    cells = [
        {k: f"{v:.3g}" if isinstance(v, float) else str(v) for k, v in r.items()} for r in rows
    ]
    setting = ", ".join(f"{k} {v}" for k, v in began.items())
    text = f"{markdown(cells)}\n\n{setting[:1].upper()}{setting[1:]}."
    replace_block(PAGE, block, text)


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
    if not set(wanted) - set(MODULES):
        one_thread()
    for name in wanted or MODULES:
        if importlib.util.find_spec(f"benchmarks.{name}") is None:
            console.print(f"(there is no benchmark of {name})")
            continue
        module = importlib.import_module(f"benchmarks.{name}")
        taken = inspect.signature(module.rows).parameters
        settings = {flag: value for flag, value in flags.items() if flag in taken}
        tables = {"rows": (module.__doc__ or name).splitlines()[0], **FURTHER}
        for kind, title in tables.items():
            measure = getattr(module, kind, None)
            began = environment((*LIBRARIES, "torch"))
            found = measure and measure(**(settings if kind == "rows" else {}))
            if found:
                show(console, title, found)
                if name in MODULES and not flags["quick"]:
                    keep(f"{name} {kind}", began, found)


if __name__ == "__main__":
    main(sys.argv[1:])
