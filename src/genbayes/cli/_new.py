"""`new`: the starting files, copied from the folder `starters`."""

import shlex
from pathlib import Path

from ._errors import CommandError
from ._show import say

STARTERS = Path(__file__).parent / "starters"
# what each kind consists of; files are kept with .txt behind their names
FILES = {
    "jax": {"model.py": "jax.py"},
    "numpy": {"model.py": "numpy.py"},
    "torch": {"model.py": "torch.py"},
    "program": {"model.py": "program.py", "simulator.sh": "simulator.sh"},
}


def write_starter(folder: Path, kind: str) -> None:
    """Copy the files of a kind into a new or empty folder, and say how to go on."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(
            f"{folder} is not empty. Expected a new or empty folder; give another name."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in FILES[kind].items():
        (folder / name).write_text((STARTERS / f"{source}.txt").read_text())
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)
    model = folder / "model.py"
    print(model)
    said = shlex.quote(str(model))
    say(
        f"Wrote {', '.join(FILES[kind])} to {folder}. Look at it, then:\n"
        f"  genbayes check {said}\n  genbayes run {said}"
    )
