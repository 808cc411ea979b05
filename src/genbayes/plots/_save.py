"""Figures on disk that say where they come from."""

import json
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from matplotlib.figure import Figure

from .. import __version__
from ._series import Series

# what each figure shows, until it is saved
_ABOUT: WeakKeyDictionary[Figure, dict[str, Any]] = WeakKeyDictionary()
FORMATS = (".png", ".svg", ".pdf")


def stamp(figure: Figure, title: str, series: list[Series]) -> Figure:
    """Remember what a figure shows and the provenance of its runs; the same figure."""
    runs = {one.label: one.run.provenance for one in series if one.run is not None}
    figure.set_label(title)
    _ABOUT[figure] = {"title": title, "runs": runs}
    return figure


def save(figure: Figure, path: str | Path, *, dpi: float = 150) -> Path:
    """Write a figure as PNG, SVG or PDF, with the provenance of its runs in the file's metadata.

    A PNG has it as the text `Description`, an SVG as `dc:description`, a PDF as `Subject`: JSON
    with the target, sampler, seed, versions and machine of each run.

    **Arguments:** `figure`, made by a function of `genbayes.plots`; any other is saved with the
    version of the library alone. `path` ends in `.png`, `.svg` or `.pdf`. `dpi`, dots an inch.

    **Returns:** the path.

    ```python
    >>> import genbayes as gb, numpy as np, xarray as xr, pathlib, tempfile
    >>> draws = np.random.default_rng(0).normal(size=(2, 100))
    >>> run = xr.Dataset({"A": (("chain", "draw"), draws), "B": (("chain", "draw"), draws**2)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = gb.plots.save(gb.plots.marginals(run), pathlib.Path(folder) / "marginals.svg")
    ...     "<dc:creator>" in path.read_text()
    True

    ```
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(
            f"A figure is saved as one of {', '.join(FORMATS)}, which keep metadata; got "
            f"{path.name!r}. For another format use figure.savefig(path)."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi, metadata=_metadata(figure, path.suffix.lower()))
    return path


def _metadata(figure: Figure, suffix: str) -> dict[str, Any]:
    about = _ABOUT.get(figure, {"title": str(figure.get_label()), "runs": {}})
    library, text = f"genbayes {__version__}", json.dumps(about, default=str)
    if suffix == ".svg":
        return {"Title": about["title"], "Creator": library, "Description": text, "Date": None}
    if suffix == ".pdf":
        return {
            "Title": about["title"], "Creator": library, "Subject": text, "CreationDate": None,
        }  # fmt: skip
    return {"Title": about["title"], "Software": library, "Description": text}
