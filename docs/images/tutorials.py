"""The pictures of the tutorials, by running their pages as they stand.

.venv/bin/python docs/images/tutorials.py [NAME...]
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGES = ("g_and_k", "epidemic", "pytorch")


def main(names: list[str]) -> None:
    """Run each page in an empty folder, and take the picture that it saves."""
    sys.path.insert(0, str(ROOT))
    from tests.support.pages import run_page

    for name in names or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run_page(f"tutorials/{name}.md", Path(folder))
            shutil.move(f"{name}.png", HERE / f"tutorial-{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
