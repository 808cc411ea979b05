"""Each kind of figure: what it takes, what it refuses, and that weights count."""

import dataclasses
import json
import re
import types

import numpy as np
import pytest
from PIL import Image

import genbayes as gb
from genbayes.plots._density import contour_levels, plane, smooth_density, weighted_quantile
from genbayes.plots._moves import stay_lengths

from .made import moving_run


def test_weights_count_in_marginals(made_run):
    run = moving_run(made_run, chains=2, draws=3000, weighted=True)
    stairs = gb.plots.marginals(run, parameters=["A"]).axes[0].patches[-1]
    heights, edges, _ = stairs.get_data()
    centres = (edges[1:] + edges[:-1]) / 2
    mean = np.sum(heights * np.diff(edges) * centres)
    # N(0, 1) weighted by exp(-2 (x - 1)^2) is N(0.8, 1/5); bins round by half their width
    assert abs(mean - 0.8) < 0.05
    assert abs(run.draws["A"].mean()) < 0.1


def test_a_smooth_density_is_one():
    x = np.random.default_rng(0).normal(size=4000)
    grid = np.linspace(-6, 6, 600)
    density = smooth_density(x, None, grid)
    np.testing.assert_allclose(np.trapezoid(density, grid), 1.0, rtol=1e-3)
    np.testing.assert_allclose(density[300], 0.3989, rtol=0.08)


def test_weighted_quantiles():
    x, weights = np.array([3.0, 1.0, 2.0]), np.array([0.2, 0.5, 0.3])
    np.testing.assert_array_equal(weighted_quantile(x, weights, [0.4, 0.6, 0.99]), [1.0, 2.0, 3.0])


def test_contours_enclose_their_share():
    x, y = np.random.default_rng(0).normal(size=(2, 20_000))
    *_, density = plane(x, y, None)
    low, high = contour_levels(density, (0.5, 0.9))
    assert density[density >= low].sum() / density.sum() == pytest.approx(0.9, abs=0.02)
    assert density[density >= high].sum() / density.sum() == pytest.approx(0.5, abs=0.02)


def test_stays_are_counted():
    u = np.array([[1, 1, 1, 2, 2, 3]], float)[..., None]
    np.testing.assert_array_equal(stay_lengths(u)[0], [3, 2, 1])


@pytest.mark.parametrize("form", ["to_xarray", "to_arviz"])
def test_other_posteriors_are_laid_over(made_run, form):
    other = getattr(moving_run(made_run, weighted=True), form)()
    figure = gb.plots.marginals({"ours": moving_run(made_run), "theirs": other})
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["ours", "theirs"]
    (_, theirs) = gb.plots.as_series({"ours": moving_run(made_run), "theirs": other})
    assert theirs.weights is not None
    np.testing.assert_allclose(theirs.weights.sum(), 1.0)


def test_a_dataset_is_a_posterior(made_run):
    data = made_run().to_xarray()["posterior"].to_dataset().transpose("draw", "chain", ...)
    assert len(gb.plots.pairs(data).axes) == 6


def test_parameters_are_chosen(made_run):
    titles = [ax.get_title() for ax in gb.plots.marginals(made_run(), parameters=["b"]).axes]
    assert titles == ["b[0]", "b[1]"]
    assert len(gb.plots.traces(made_run(), parameters=["b[1]", "A"]).axes) == 2


def test_many_parameters_in_pairs_are_cut_and_it_is_said(made_run):
    run = made_run()
    run.draws["b"] = np.random.default_rng(0).normal(size=(1, 50, 30))
    figure = gb.plots.pairs(run)
    assert len(figure.axes) == 36
    assert any("8 of 31" in text.get_text() for text in figure.texts)


def test_chains_that_disagree_leave_the_band_of_ranks(made_run):
    run = moving_run(made_run, chains=2)
    run.draws["A"][1] += 3
    shares = [line.get_ydata() for line in gb.plots.ranks(run).axes[0].lines[1:]]
    assert max(np.max(s) for s in shares) > 0.08
    assert all(np.isclose(np.sum(s), 1.0) for s in shares)


FAILED = tuple(types.SimpleNamespace(theta={"A": 2.0, "b": [1.0, x]}) for x in (0.0, 1.0))


@pytest.mark.parametrize("parameters", [None, ["A"], ["A", "b[1]"]])
def test_failures_lie_where_they_happened(made_run, parameters):
    run = made_run()
    object.__setattr__(run, "failures", FAILED)
    figure = gb.plots.failures(run, parameters=parameters)
    assert len(figure.axes) == {None: 3}.get(parameters and len(parameters), 1)
    figure.canvas.draw()


REFUSED = {
    "ranks of weights": (lambda r, w: gb.plots.ranks(w), "particles without an order"),
    "traces of weights": (lambda r, w: gb.plots.traces(w), "A trace follows a chain in time"),
    "no thermostat": (lambda r, w: gb.plots.thermostat(r), "needs thermostat in run.info"),
    "no infos": (lambda r, w: gb.plots.acceptance(r.to_xarray()), "needs a Run of genbayes"),
    "no failures": (lambda r, w: gb.plots.failures(r), "No simulation of this run failed"),
    "unknown name": (lambda r, w: gb.plots.marginals(r, parameters=["z"]), "no parameter 'z'"),
    "unknown kind": (lambda r, w: gb.plots.marginals(r, kind="kde"), "kind must be"),
    "no posterior": (
        lambda r, w: gb.plots.marginals(r.to_xarray()["posterior"].to_dataset().isel(chain=0)),
        "no group `posterior` with the dimensions",
    ),
    "a format": (lambda r, w: gb.plots.save(gb.plots.traces(r), "a.jpg"), "one of .png, .svg"),
}


@pytest.mark.parametrize(("draw", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_drawn_is_refused(made_run, draw, message):
    run = made_run()
    weighted = dataclasses.replace(run, info={"log_weight": np.zeros((1, 50))})
    with pytest.raises(ValueError, match=re.escape(message)):
        draw(run, weighted)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_saved_figures_say_where_they_come_from(made_run, tmp_path, suffix):
    run = made_run()
    path = gb.plots.save(gb.plots.marginals(run), tmp_path / "new" / f"figure.{suffix}")
    if suffix == "png":
        about = json.loads(Image.open(path).text["Description"])
        assert about["runs"]["Made"] == run.provenance
        assert about["title"] == "Marginal posteriors"
        return
    text = path.read_bytes().decode("latin-1").replace("\\(", "(").replace("\\)", ")")
    assert "Made(step_size=0.1)" in text
    assert "genbayes 0.1.0" in text


def test_the_same_figure_is_saved_as_the_same_bytes(made_run, tmp_path):
    paths = [gb.plots.save(gb.plots.ranks(made_run()), tmp_path / f"{j}.png") for j in (1, 2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
