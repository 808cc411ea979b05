"""The page: complete, loads nothing, and nothing in a run becomes markup."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import genbayes as gb
from genbayes.runs import Outcome, Status

from ..plots.made import moving_run


class Page(HTMLParser):
    """Tags with their attributes, the text, and what scripts hold."""

    VOID = ("meta", "br", "path", "use", "link", "input")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words, self.scripts = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        (self.scripts if self.open[-1:] == ["script"] else self.words).append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def data(self, name):
        """What a data element of the page holds."""
        elements = [attributes for tag, attributes in self.tags if tag == "script"]
        place = [e.get("id") for e in elements].index(name)
        return json.loads(self.scripts[place])


def page_of(run, tmp_path, **settings):
    return gb.report(run, tmp_path / "new" / "report.html", **settings).read_text()


def test_everything_is_on_the_page(made_run, tmp_path):
    run = made_run()
    findings = ("The chain is sticky.",)
    run = dataclasses.replace(run, status=Status(Outcome.MAX_SECONDS, findings))
    run.provenance["target"] |= {"score": "EnergyScore(beta=1.0)", "weight": 0.7}
    run.provenance["command"] = ["model.py", "--name", "a b"]
    page = Page(page_of(run, tmp_path, truth={"A": 0.0}, title="A title"))
    assert page.open == []
    for expected in (
        "A title", "Do not trust", "The chain is sticky.", Outcome.MAX_SECONDS.value, "Marginals",
        "Pairs", "Traces", "b[1]", "true value 0 lies inside", "r-hat", "A ~ Normal(0, 1)", "seed",
        "jax 1.2.3", "Energy score", "0.7", "python model.py --name 'a b'",
        "gb.Made(step_size=0.1)", "doi:10.1214/24-EJS2283", "1,000", "does not hold its simulator",
    ):  # fmt: skip
        assert expected in page.text, expected
    pictures = [a for tag, a in page.tags if a.get("role") == "img"]
    assert len(pictures) >= 10
    assert all(len(p["aria-label"]) > 10 for p in pictures)
    formula = next(p["aria-label"] for p in pictures if r"\sum_{j \ne k}" in p["aria-label"])
    assert formula.startswith("formula: ")


def test_the_page_loads_nothing(made_run, tmp_path):
    text = page_of(made_run(), tmp_path)
    assert len(text) < 3_000_000
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("img", "iframe", "object"), tag
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:,"))
        assert not [name for name in attributes if name.startswith("on")]
    (policy,) = (a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert not any("url(" in style or "@import" in style for style in styles)


def test_names_and_settings_are_not_markup(made_run, tmp_path):
    run = made_run(name="</script><b>&\"'x")
    run.provenance["sampler"] = "<script>alert(1)</script>"
    text = page_of(run, tmp_path, title="<i>title</i>")
    before = text[: text.index("<script type")]
    assert "<script" not in before
    assert "<b>" not in before
    assert "<i>" not in before
    assert "&lt;script&gt;" in text
    assert text.count("</script>") == 4


def test_several_runs_each_have_a_summary(made_run, tmp_path):
    page = Page(page_of({"one": made_run(), "two": made_run(seed=1)}, tmp_path))
    assert [a["data-level"] for _, a in page.tags if "data-level" in a] == ["do not trust"] * 2
    assert page.text.count("mc error") == 2
    assert "two: mean" in page.text


def test_other_posteriors_are_laid_over(made_run, tmp_path):
    runs = {"ours": made_run(), "theirs": made_run(seed=1).to_xarray()}
    page = Page(page_of(runs, tmp_path))
    assert [s["run"] for s in page.data("page-data")["series"]] == ["ours", "theirs"]
    assert page.text.count("mc error") == 1


def test_only_other_posteriors_are_refused(made_run, tmp_path):
    with pytest.raises(TypeError, match="expected at least one Run, got none"):
        gb.report(made_run().to_xarray(), tmp_path / "page.html")


def test_a_run_that_knows_little_of_itself_has_a_page(made_run, tmp_path):
    run = made_run()
    run.provenance.clear()
    assert "not recorded" in page_of(run, tmp_path)


def test_a_run_without_draws_has_a_page(made_run, tmp_path):
    page = Page(page_of(made_run(draws=0), tmp_path))
    assert "There are no draws: the run was stopped before it kept any." in page.text
    assert page.data("page-data") is None


def test_the_same_run_gives_the_same_page(made_run, tmp_path):
    assert page_of(made_run(), tmp_path / "a") == page_of(made_run(), tmp_path / "b")


def test_histograms_of_the_page_are_those_of_all_draws(made_run, tmp_path):
    run = moving_run(made_run, chains=2, draws=4000)
    data = Page(page_of(run, tmp_path)).data("page-data")
    import base64

    mass = np.frombuffer(base64.b64decode(data["mass"]), "<f4").reshape(2, 3, data["bins"])
    np.testing.assert_allclose(mass.sum(axis=(0, 2)), 1.0, rtol=1e-5)
    counts, _ = np.histogram(run.draws["A"][1], data["bins"], tuple(data["edges"][0]))
    np.testing.assert_allclose(mass[1, 0], counts / 8000, rtol=1e-5)


def test_draws_are_thinned_evenly_and_weighted_ones_by_weight(made_run, tmp_path):
    page = Page(page_of(moving_run(made_run, chains=2, draws=4000), tmp_path))
    assert sum(s["size"] for s in page.data("page-data")["series"]) <= 3000
    weighted = moving_run(made_run, chains=1, draws=4000, weighted=True)
    from genbayes.reports._page_draws import page_draws

    shown = page_draws(gb.plots.as_series(weighted)).column("A")
    # N(0, 1) weighted by exp(-2 (x - 1)^2) is N(0.8, 1/5), here from few distinct draws
    assert abs(shown.mean() - np.average(weighted.draws["A"], weights=weighted.weights)) < 0.01


def test_many_coordinates_are_cut_and_it_is_said(made_run, tmp_path):
    run = made_run(draws=20)
    run.draws["b"] = np.random.default_rng(0).normal(size=(1, 20, 400))
    run.draws["b"][0, 10:, 390] += 100  # its halves disagree most: it must be among those shown
    page = Page(page_of(run, tmp_path))
    data = page.data("page-data")
    assert len(data["coordinates"]) == 150
    assert data["coordinates"][data["worst"][0]] == "b[390]"
    assert "251 coordinates are left out of the charts" in page.text
