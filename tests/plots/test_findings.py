"""What diagnostics found, over each other: what these figures take, and what they refuse."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

import genbayes as gb

from . import found


def labels(figure):
    return [text.get_text() for one in figure.legends for text in one.get_texts()]


def test_ksd_paths_over_each_other():
    figure = gb.plots.ksd({"fine": found.made_ksd(0), "coarse": found.made_ksd(1, bias=0.1)})
    assert labels(figure) == ["fine", "coarse", "root-N rate"]
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_xdata(), found.made_ksd(0).sizes)
    np.testing.assert_allclose(figure.axes[0].lines[1].get_ydata(), found.made_ksd(1, 0.1).path)


def test_influences_over_each_other():
    both = [found.made_influence(0), found.made_influence(0, robust=False)]
    figure = gb.plots.influence(both, parameters=["B"])
    assert [ax.get_title() for ax in figure.axes] == ["mean of B, in sds", "size of the influence"]
    assert labels(figure) == ["1", "2"]
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), both[1].mean[:, 1])


def test_coverages_over_each_other():
    figure = gb.plots.coverage(
        {"right": found.made_coverage(0), "wrong": found.made_coverage(0, 3)}
    )
    assert [ax.get_title() for ax in figure.axes] == ["A", "B", "all together"]
    _, right, wrong = figure.axes[0].lines
    low, high = found.made_coverage(0).band()
    inside = [np.all((low <= x.get_ydata()) & (x.get_ydata() <= high)) for x in (right, wrong)]
    assert inside == [True, False]


def test_coverage_of_one_method():
    figure = found.made_coverage(0).plot()
    assert labels(figure) == ["by chance", "A", "B", "all together"]


@pytest.mark.parametrize("event", [(12, 2), (12,), ()])
def test_forecasts_of_every_shape(event):
    one, two = (found.made_predictive(0, shift, event) for shift in (0.0, 1.0))
    figure = gb.plots.predictive({"one": one, "two": two})
    assert len(figure.axes) == (2 if len(event) == 2 else 1)
    assert len(labels(figure)) == 3
    assert labels(figure)[-1] == "observed"
    one.plot().canvas.draw()


@pytest.mark.parametrize("form", ["tree", "arviz"])
def test_forecasts_of_other_libraries(form):
    rng = np.random.default_rng(0)
    groups = {
        "posterior_predictive": xr.Dataset(
            {"y": (("chain", "draw", "row", "time"), 2 + rng.normal(size=(2, 50, 3, 12)))}
        ),
        "observed_data": xr.Dataset({"y": (("row", "time"), rng.normal(size=(3, 12)))}),
    }
    theirs = xr.DataTree.from_dict(groups)
    if form == "arviz":
        arviz = pytest.importorskip("arviz")
        if hasattr(arviz, "InferenceData"):
            theirs = arviz.InferenceData(**groups)
    figure = gb.plots.predictive({"ours": found.made_predictive(0, event=(12,)), "theirs": theirs})
    assert labels(figure) == ["ours, 90%", "theirs, 90%", "observed"]
    middle = figure.axes[0].lines[1].get_ydata()
    assert abs(np.mean(middle) - 2) < 0.2
    assert len(gb.plots.predictive(theirs).axes) == 1
    with pytest.raises(ValueError, match="one kind of observation"):
        gb.plots.predictive([found.made_predictive(0), theirs])
    with pytest.raises(ValueError, match="needs the groups"):
        gb.plots.predictive(
            xr.DataTree.from_dict({"posterior_predictive": groups["observed_data"]})
        )


def test_scores_of_forecasts():
    parts = [found.made_scores(j) for j in range(4)]
    of_draws = gb.plots.predictive_scores({"one": parts[0], "another": parts[1]})
    assert of_draws.axes[0].get_ylabel() == "score, 95% of draws"
    np.testing.assert_array_equal(of_draws.axes[0].lines[1].get_ydata(), parts[1].values)
    repeated = gb.plots.predictive_scores({"one": parts[:2], "another": parts[2:]}, level=0.9)
    assert repeated.axes[0].get_ylabel() == "mean and 90% t interval"
    middle = (parts[0].values + parts[1].values) / 2
    np.testing.assert_allclose(repeated.axes[0].lines[0].get_ydata(), middle)
    assert labels(gb.plots.predictive_scores(found.made_over(0))) == list(found.METHODS)


def test_the_race_of_a_run_is_that_of_its_tuner(made_run):
    tuned = found.made_step_size(0)
    step = {"tuner": "Bandit", "value": 0.01, "seconds": 1.0, "arms": tuned.table().to_dicts()}
    run = dataclasses.replace(made_run(), provenance={"tuning": {"step_size": step}})
    for given in (tuned, run):
        figure = gb.plots.bandit(given)
        assert labels(figure) == ["1,000 steps", "4,000 steps", "diverged", "chosen"]
        lines = figure.axes[0].lines
        assert [len(line.get_xdata()) for line in lines[:3]] == [4, 2, 1]
        assert lines[2].get_xdata()[0] == 0.1


REFUSED = {
    "no result": (lambda r: gb.plots.ksd([3]), TypeError, "ksd_path, got int for '1'"),
    "nothing": (lambda r: gb.plots.coverage({}), TypeError, "a result of .*coverage, a list"),
    "no points": (lambda r: gb.plots.influence(r), ValueError, "Give the points"),
    "no such parameter": (
        lambda r: gb.plots.influence(found.made_influence(0), parameters=["c"]), ValueError,
        r"among \['A', 'B'\]",
    ),
    "no bandit": (lambda r: gb.plots.bandit(r), ValueError, "not found by a bandit"),
    "a number": (lambda r: gb.plots.bandit(0.1), TypeError, "a result of .*step_size, got float"),
}  # fmt: skip


@pytest.mark.parametrize(("draw", "kind", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_drawn_is_refused(made_run, draw, kind, message):
    with pytest.raises(kind, match=message):
        draw(made_run())
