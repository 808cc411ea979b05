"""The picture of the README, from the run that `make demo` stores.

.venv/bin/python docs/images/make.py
"""

from pathlib import Path

import genbayes as gb

HERE = Path(__file__).parent


def main() -> None:
    """Draw the marginals of the demo."""
    run = gb.load(HERE.parent.parent / "runs" / "demo" / "adsgld")
    figure = gb.plots.marginals(run, truth=gb.tasks.g_and_k.univariate().truth)
    figure.savefig(HERE / "marginals.png", dpi=120)


if __name__ == "__main__":
    main()
