"""The main figures look as they did: small pictures, without their text, as fonts differ.

GENBAYES_GOLDEN=write makes them anew; look at them before they are committed.
"""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image, ImageFilter

import genbayes as gb

from . import found
from .made import moving_run

GOLDEN = Path(__file__).parent / "golden"
# of the range of a pixel, after a blur that forgives a line half a pixel away
MEAN = 0.003


def figures(made_run, seed):
    one, two = moving_run(made_run, seed=seed), moving_run(made_run, seed=seed + 1, shift=0.8)
    weighted = moving_run(made_run, seed=seed, weighted=True)
    truth = {"A": 0.3, "b": [0.0, 0.0]}
    return {
        "marginals": lambda: gb.plots.marginals([one, two], truth=truth, reference=weighted),
        "family": lambda: gb.plots.marginals({"5": one, "50": two}, kind="smooth", family=True),
        "pairs": lambda: gb.plots.pairs(one, truth=truth),
        "traces": lambda: gb.plots.traces(one),
        "ranks": lambda: gb.plots.ranks(one),
        "acceptance": lambda: gb.plots.acceptance(one),
        "thermostat": lambda: gb.plots.thermostat(one),
    } | figures_of_findings(seed)


def figures_of_findings(seed):
    several = [found.made_ksd(seed), found.made_ksd(seed + 1, bias=0.05)]
    influences = {"bounded": found.made_influence(seed), "not": found.made_influence(seed, False)}
    coverages = {"right": found.made_coverage(seed), "narrow": found.made_coverage(seed, 0.3)}
    forecasts = {"one": found.made_predictive(seed), "two": found.made_predictive(seed, 1.0)}
    return {
        "ksd": lambda: gb.plots.ksd(several),
        "influence": lambda: gb.plots.influence(influences),
        "coverage": lambda: gb.plots.coverage(coverages),
        "predictive": lambda: gb.plots.predictive(forecasts),
        "scores": lambda: gb.plots.predictive_scores(found.made_over(seed)),
        "bandit": lambda: gb.plots.bandit(found.made_step_size(seed)),
    }


@pytest.fixture
def figures_of(made_run):
    return lambda seed: figures(made_run, seed)


def picture(figure):
    buffer = io.BytesIO()
    figure.patch.set(alpha=1, facecolor="white")
    for ax in figure.axes:
        ax.tick_params(labelbottom=False, labelleft=False)
    for text in figure.findobj(Text):
        text.set_visible(False)
    figure.savefig(buffer, format="png", dpi=50)
    return Image.open(buffer).convert("RGB")


def difference(a, b):
    """Mean difference of two pictures, each blurred, on a scale from 0 to 1."""
    assert a.size == b.size, f"the size was {b.size} and is {a.size}"
    x, y = (np.asarray(p.filter(ImageFilter.GaussianBlur(1)), float) / 255 for p in (a, b))
    return np.abs(x - y).mean()


NAMES = (
    "marginals", "family", "pairs", "traces", "ranks", "acceptance", "thermostat",
    "ksd", "influence", "coverage", "predictive", "scores", "bandit",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_looks_as_it_did(name, figures_of, tmp_path):
    now, path = picture(figures_of(0)[name]()), GOLDEN / f"{name}.png"
    if os.environ.get("GENBAYES_GOLDEN") == "write":
        now.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    now.save(tmp_path / path.name)
    apart = difference(now, Image.open(path).convert("RGB"))
    assert apart < MEAN, f"differs from {path}: see {tmp_path / path.name}"


@pytest.mark.parametrize("name", NAMES)
def test_other_draws_look_different(name, figures_of):
    other = picture(figures_of(7)[name]())
    assert difference(other, Image.open(GOLDEN / f"{name}.png").convert("RGB")) > 2 * MEAN


def test_golden_pictures_are_small():
    assert all(path.stat().st_size < 30_000 for path in GOLDEN.glob("*.png"))
    assert {path.stem for path in GOLDEN.glob("*.png")} == set(NAMES)
