"""The Python of a page of documentation, to be run as a reader would."""

import runpy
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent.parent / "docs"


def code_of(page: str, shorter: dict[str, str] | None = None) -> str:
    """All Python blocks of a page, one after the other, with some settings made smaller."""
    blocks, inside = [], False
    for line in (DOCS / page).read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```python"
        elif inside:
            blocks.append(line)
    code = "\n".join(blocks) + "\n"
    for long, short in (shorter or {}).items():
        assert long in code, f"{page} no longer says {long}"
        code = code.replace(long, short)
    return code


def run_page(page: str, folder: Path, shorter: dict[str, str] | None = None) -> dict[str, Any]:
    """What the page defines, run in a folder (the current one, if it writes files)."""
    path = folder / (Path(page).stem + "_page.py")
    path.write_text(code_of(page, shorter))
    return runpy.run_path(str(path))
