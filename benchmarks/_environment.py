"""What a measurement was made with: date, machine, versions."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("genbayes", "jax", "jaxlib", "blackjax", "numpyro", "numpy", "scipy")


def environment(libraries: Sequence[str] = LIBRARIES) -> dict[str, str]:
    """Date, processor, cores, load and versions, as text."""
    versions = {}
    for name in libraries:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.platform()}",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
    } | versions


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((s.partition(":")[2].strip() for s in lines if s.startswith("model name")), "?")


def markdown(rows: Sequence[dict[str, str]]) -> str:
    """A Markdown table with the columns of its rows."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def replace_block(path: Path, name: str, text: str) -> None:
    """Put text between the markers of that name in a page; the rest of the page stays."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = path.read_text()
    if begin not in page or end not in page:
        raise ValueError(f"{path} has no block between {begin} and {end}.")
    before, rest = page.split(begin, 1)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end, 1)[1]}")
