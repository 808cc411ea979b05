"""Figures show what they were given, and leave Matplotlib as it was."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import genbayes as gb
from genbayes.plots._density import bin_edges
from genbayes.plots._series import coordinates


def test_marginals_have_a_panel_for_each_coordinate(made_run):
    figure = gb.plots.marginals(made_run(), truth={"A": 0.5})
    assert isinstance(figure, Figure)
    assert [ax.get_title() for ax in figure.axes] == ["A", "b[0]", "b[1]"]
    marked = [len(ax.lines) for ax in figure.axes]
    assert marked == [1, 0, 0]


def test_histograms_are_densities_of_all_draws(made_run):
    run = made_run(chains=3, draws=200)
    outline = gb.plots.marginals(run).axes[0].patches[-1]
    heights, edges, _ = outline.get_data()
    np.testing.assert_allclose(np.sum(heights * np.diff(edges)), 1.0)
    assert edges[0] == run.draws["A"].min()
    assert edges[-1] == run.draws["A"].max()


def test_a_true_value_outside_the_draws_is_in_sight(made_run):
    low, high = gb.plots.marginals(made_run(), truth={"A": 40.0}).axes[0].get_xlim()
    assert low < 40.0 < high


def test_runs_over_each_other_are_labelled(made_run):
    runs = {"first": made_run(), "second": made_run(seed=1)}
    for figure in (gb.plots.marginals(runs), gb.plots.traces(runs)):
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == ["first", "second"]


def test_labels_from_samplers_are_told_apart(made_run):
    assert list(gb.plots.as_mapping([made_run(), made_run()])) == ["Made", "Made (2)"]


def test_traces_show_each_chain_and_say_how_they_are_thinned(made_run):
    figure = gb.plots.traces(made_run(chains=2, draws=4000))
    assert len(figure.axes[0].lines) == 2
    assert all(line.get_xdata().size <= 1500 for line in figure.axes[0].lines)
    assert figure.axes[-1].get_xlabel() == "draw (one in 3 is shown)"


def test_a_chain_that_never_moved_can_be_drawn(made_run):
    run = made_run()
    run.draws["A"][:] = 2.0
    for figure in (gb.plots.marginals(run), gb.plots.traces(run)):
        figure.canvas.draw()
        left, right = figure.axes[0].get_xlim()
        assert -np.inf < left < right < np.inf


def test_dollar_signs_in_names_are_not_mathematics(made_run):
    run = made_run()
    run.draws["$x^$"] = run.draws.pop("A")  # as mathematics, an error
    figure = gb.plots.marginals(run)
    figure.canvas.draw()
    assert any(r"\$x^\$" in text.get_text() for text in figure.findobj(Text))


def test_many_coordinates_are_cut_and_it_is_said(made_run):
    run = made_run()
    run.draws["b"] = np.random.default_rng(0).normal(size=(1, 50, 30))
    figure = gb.plots.traces(run)
    assert len(figure.axes) == 24
    assert "24 of 31" in figure.get_supxlabel()


def test_pyplot_is_not_used(made_run):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    gb.plots.marginals(made_run())
    gb.plots.traces(made_run())
    assert dict(mpl.rcParams) == before


def test_coordinates_in_row_major_order():
    x = np.arange(8.0).reshape(1, 1, 2, 4)
    assert list(coordinates({"w": x}))[5] == "w[1,1]"
    assert coordinates({"w": x})["w[1,1]"].item() == 5.0


@pytest.mark.parametrize("num_draws", [1, 10, 10**6])
def test_number_of_bins_is_bounded(num_draws):
    assert 5 <= len(bin_edges(np.array([0.0, 1.0]), num_draws)) - 1 <= 60


REFUSED = {
    "nothing": ([], ValueError, "expected a run, or several, got none"),
    "a path": ("runs/demo", TypeError, "got str. Read a stored run with genbayes.load"),
    "a list of numbers": ([1.0], TypeError, "got float for 'posterior 1'"),
    "a mapping of paths": ({"a": "runs/a"}, TypeError, "got str for 'a'"),
}


@pytest.mark.parametrize(("runs", "error", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_run_is_refused(runs, error, message):
    with pytest.raises(error, match=message):
        gb.plots.marginals(runs)


def test_a_run_without_draws_is_refused(made_run):
    run = made_run(draws=0)
    with pytest.raises(ValueError, match="'Made' holds no draws yet"):
        gb.plots.traces(run)
