"""The documentation builds as a site, strictly, and asks for nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import genbayes as gb

ROOT = Path(__file__).parent.parent
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?(https?:[^\"'> ]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        assert not LOADED.findall(page.read_text()), page


def test_formulas_need_no_script(site):
    text = (site / "samplers.html").read_text()
    assert text.count("<math") > 5
    assert 'href="maths.css"' in text  # fonts that place indices
    for page in site.rglob("*.html"):
        assert "arithmatex" not in page.read_text(), page


def test_reference_has_every_name(site):
    for stage, names in gb._STAGES.items():
        page = (site / "reference" / f"{stage}.html").read_text()
        for name in names:
            assert f"<code>gb.{name}</code>" in page


def test_examples_are_shown_as_code(site):
    for page in (site / "reference").glob("*.html"):
        outside = re.sub(r"<pre>.*?</pre>", "", page.read_text(), flags=re.DOTALL)
        assert "&gt;&gt;&gt;" not in outside, page
