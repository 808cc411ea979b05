"""Reports in a real browser: they are quiet, ask for nothing, and their charts answer."""

import re

import numpy as np
import pytest

import genbayes as gb
from genbayes.runs import Outcome

from ..plots.made import moving_run
from .browser import Opened, launched

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">$$\\frac{x}$$"


@pytest.fixture(scope="module")
def browser():
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    from ..conftest import maker_of_runs

    run = moving_run(maker_of_runs, chains=2, draws=500)
    run.draws[HOSTILE] = run.unconstrained[..., 1] + 0.1
    run.provenance["sampler"] = f"Made({HOSTILE})"
    truth = {"A": 0.3, HOSTILE: 0.0}
    return gb.report(
        run, tmp_path_factory.mktemp("page") / "report.html", truth=truth, title=f"Title {HOSTILE}"
    )


@pytest.fixture(scope="module")
def page(browser, path):
    opened = Opened(browser, path)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def at_rest(request):
    """Each test starts from the page as it opens."""
    if "page" in request.fixturenames:
        page = request.getfixturevalue("page").page
        page.click("#brush-clear")
        for box in page.locator("input[data-series]").all():
            box.check()


def selected(page):
    return page.model("draws", "Array.from(m.selected.indices)")


def test_is_quiet_and_looks_well(page):
    assert page.wrong == []
    assert page.page.locator(".marginals canvas").count() >= 4
    page.shot("report-wide")


def test_a_hostile_name_stays_text(page):
    assert page.page.title().startswith("Title </script><img")
    assert page.page.locator("img").count() == 0
    titles = [page.text(f"#title-marginal-{j}") for j in range(4)]
    assert HOSTILE in titles
    page.page.locator("#marginal-3").hover()
    assert page.page.evaluate("document.title").endswith("$$\\frac{x}$$")


def test_the_form_brushes_by_keyboard(page):
    page.page.focus("#brush-low")
    page.page.keyboard.type("0")
    page.page.keyboard.press("Tab")
    page.page.keyboard.type("1")
    page.page.keyboard.press("Tab")
    chosen = selected(page)
    a = np.array(page.model("draws", "Array.from(m.get_column('p0'))"))
    np.testing.assert_array_equal(chosen, np.flatnonzero((a >= 0) & (a <= 1)))
    said = page.text("#brushed")
    assert f"{len(chosen)} of {a.size} draws shown have A between 0 and 1" in said
    # b[0] is correlated with A: its brushed histogram moves, and the text says where to
    mean = np.array(page.model("draws", "Array.from(m.get_column('p1'))"))[chosen].mean()
    found = re.search(r"b\[0\] (-?[\d.]+) \(all", said)
    assert found is not None
    assert float(found[1]) == pytest.approx(mean, rel=1e-3)
    assert len(page.model("brushed-1", "m.data.top")) == 40
    assert page.page.evaluate("document.activeElement.id") == "brush-clear"
    page.page.keyboard.press("Enter")
    assert selected(page) == []
    assert page.text("#brushed").startswith("Drag over a chart")


def test_dragging_over_a_marginal_brushes_it(page):
    page.drag("#marginal-0", (0.55, 0.3), (0.75, 0.5))
    chosen = selected(page)
    a = np.array(page.model("draws", "Array.from(m.get_column('p0'))"))[chosen]
    assert 0 < len(chosen) < 1000
    low, high = (float(page.page.input_value(f"#brush-{end}")) for end in ("low", "high"))
    assert low <= a.min() + 1e-3
    assert a.max() <= high + 1e-3
    assert "have A between" in page.text("#brushed")
    page.shot("report-brushed")


def test_a_box_in_a_pair_selects_points_everywhere(page):
    page.drag("#pair-1-0", (0.3, 0.2), (0.6, 0.6))
    assert 0 < len(selected(page)) < 1000
    assert "draws shown are in the box" in page.text("#brushed")
    assert len(page.model("brushed-2", "m.data.top")) == 40


def test_a_chain_is_switched_off_everywhere(page):
    before = page.model("outlines-0", "m.data.ys.length")
    page.page.focus("input[data-series='1']")
    page.page.keyboard.press("Space")
    assert page.model("outlines-0", "m.data.ys.length") == before - 1
    assert page.model("seen", "m.booleans.filter((x) => x).length") == 500
    assert page.model("steps-0", "m.data.who") == ["chain 1"]
    page.page.click("#brush-clear")
    page.page.fill("#brush-low", "-10")
    page.page.press("#brush-low", "Tab")
    assert len(selected(page)) == 500


def test_hovering_shows_values(page):
    page.page.locator("#marginal-0").scroll_into_view_if_needed()
    box = page.page.locator("#marginal-0").bounding_box()
    page.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.8 * box["height"])
    page.page.wait_for_timeout(300)
    # Bokeh draws in shadow roots, which text selectors of Playwright pierce
    assert page.page.locator("text=/^share: *$/").first.is_visible()


@pytest.mark.parametrize(("scheme", "paper"), [("dark", (20, 24, 29)), ("light", (255, 255, 255))])
def test_both_colour_schemes_are_painted(page, scheme, paper):
    page.page.emulate_media(color_scheme=scheme)
    page.page.wait_for_timeout(150)
    back = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert tuple(map(int, re.findall(r"\d+", back))) == paper
    ink = page.model("marginal-0", "m.below[0].major_label_text_color")
    assert contrast(ink, paper) >= 4.5
    page.shot(f"report-{scheme}")


def contrast(ink, paper):
    """The ratio of luminances by the definition of the web's accessibility guidelines."""
    colour = [int(ink.lstrip("#")[j : j + 2], 16) for j in (0, 2, 4)]

    def luminance(rgb):
        x = np.array(rgb) / 255
        x = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
        return float(x @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(colour), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_a_phone_sees_it_all_without_scrolling_sideways(browser, path):
    opened = Opened(browser, path, width=390, has_touch=True, is_mobile=True)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = [opened.page.locator(f"#marginal-{j}").bounding_box() for j in range(4)]
    assert all(box["width"] > 250 for box in boxes)
    assert opened.model("marginal-0", "m.toolbar.active_drag") is None
    opened.shot("report-phone")
    opened.close()


def test_every_picture_has_words_and_every_control_a_name(page):
    named = page.page.evaluate("""() => [...document.querySelectorAll("[role=img]")]
        .map((e) => e.getAttribute("aria-label") || "")""")
    assert len(named) >= 15
    assert all(len(text) > 15 for text in named)
    controls = page.page.evaluate("""() => [...document.querySelectorAll("input, select, button")]
        .map((e) => e.getAttribute("aria-label") || (e.labels && e.labels[0] || e).innerText)""")
    assert all(text.strip() for text in controls)
    ids = page.page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_runs_are_laid_over_and_switched_off(browser, made_run, tmp_path):
    runs = {
        "first": moving_run(made_run, chains=1),
        "second": moving_run(made_run, chains=1, seed=1, shift=1.0),
        "theirs": made_run(seed=2).to_xarray(),
    }
    opened = Opened(browser, gb.report(runs, tmp_path / "report.html"))
    assert opened.model("outlines-0", "m.data.ys.length") == 3
    opened.page.uncheck("input[data-series='1']")
    assert opened.model("outlines-0", "m.data.ys.length") == 2
    assert "(theirs)" in opened.text("#caption-pair-1-0")
    opened.close()


def test_a_run_without_draws_opens(browser, made_run, tmp_path):
    import dataclasses

    from genbayes.runs import Status

    run = dataclasses.replace(made_run(draws=0), status=Status(Outcome.INTERRUPTED))
    opened = Opened(browser, gb.report(run, tmp_path / "report.html"))
    assert "Do not trust" in opened.text("header")
    opened.shot("report-no-draws")
    opened.close()
