"""The page: complete, loads nothing, and nothing in a run becomes markup."""

import dataclasses
from html.parser import HTMLParser

import genbayes as gb
from genbayes.runs import Outcome, Status


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    VOID = ("meta", "br", "path", "use")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
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
        self.words.append(data)


def page_of(run, tmp_path, **settings):
    return gb.report(run, tmp_path / "new" / "report.html", **settings).read_text()


def test_everything_is_on_the_page(made_run, tmp_path):
    run = made_run()
    findings = ("The chain is sticky.",)
    run = dataclasses.replace(run, status=Status(Outcome.MAX_SECONDS, findings))
    page = Page(page_of(run, tmp_path, truth={"A": 0.0}, title="A title"))
    text = " ".join(" ".join(page.words).split())
    assert page.open == []
    for expected in (
        "A title", "Marginal posteriors", "Traces", "b[1]", "true value", "r-hat",
        "The chain is sticky.", Outcome.MAX_SECONDS.value, "A ~ Normal(0, 1)", "seed", "jax 1.2.3",
    ):  # fmt: skip
        assert expected in text, expected
    pictures = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(pictures) == 2
    assert all(p["role"] == "img" and "Made" in p["aria-label"] for p in pictures)


def test_the_page_loads_nothing(made_run, tmp_path):
    text = page_of(made_run(), tmp_path)
    for tag, attributes in Page(text).tags:
        assert tag not in ("script", "link", "img", "iframe", "object"), tag
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
    assert "url(http" not in text
    assert "@import" not in text


def test_names_and_settings_are_not_markup(made_run, tmp_path):
    run = made_run(name="<b>&\"'x")
    run.provenance["sampler"] = "<script>alert(1)</script>"
    text = page_of(run, tmp_path, title="<i>title</i>")
    assert "<script" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert "&lt;script&gt;" in text


def test_several_runs_each_have_a_summary(made_run, tmp_path):
    text = page_of({"one": made_run(), "two": made_run(seed=1)}, tmp_path)
    assert "Summary: one" in text
    assert "Summary: two" in text


def test_a_run_that_knows_little_of_itself_has_a_page(made_run, tmp_path):
    run = made_run()
    run.provenance.clear()
    assert "not recorded" in page_of(run, tmp_path)


def test_the_same_run_gives_the_same_page(made_run, tmp_path):
    assert page_of(made_run(), tmp_path / "a") == page_of(made_run(), tmp_path / "b")
