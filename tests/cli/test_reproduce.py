"""`genbayes reproduce`: what it passes on, what it refuses, how it ends."""

from pathlib import Path

import pytest
from tests.cli.conftest import call, words

from genbayes.cli import _reproduce
from genbayes.paper import NUMBERS, Reproduction


@pytest.fixture
def asked(monkeypatch, tmp_path) -> dict:
    """What the library was asked for, in place of work."""
    seen = {}

    def reproduce(names, **settings):
        seen.update(settings, names=names)
        return Reproduction(tmp_path / "index.html", ())

    monkeypatch.setattr(_reproduce, "reproduce", reproduce)
    monkeypatch.setattr(_reproduce, "set_precision", lambda bits: seen.update(bits=bits))
    return seen


def test_options_reach_the_library(asked, capsys):
    assert call("reproduce", "robust_normal", "effect_of_m", "--scale", "paper", "--out", "here",
                "--observations", "y.npz", "--jobs", 3, "--precision", 64) == 0  # fmt: skip
    assert asked["names"] == ["robust_normal", "effect_of_m"]
    assert (asked["scale"], asked["out"], asked["observations"]) == (
        "paper", Path("here"), Path("y.npz"),
    )  # fmt: skip
    assert (asked["jobs"], asked["bits"], asked["executor"]) == (3, 64, None)
    assert "index.html" in capsys.readouterr().out


def test_without_names_all_are_meant(asked, capsys):
    assert call("reproduce", "--quiet") == 0
    assert asked["names"] == "all"
    assert asked["scale"] == "smoke"
    assert capsys.readouterr().out == ""


def test_the_table_of_numbers_goes_where_it_is_wanted(asked, tmp_path):
    (tmp_path / NUMBERS).write_text("all of them")
    assert call("reproduce", "--quiet", "--numbers", tmp_path / "page.md") == 0
    assert (tmp_path / "page.md").read_text() == "all of them"


def test_failed_cells_show_in_the_exit_status(asked, monkeypatch):
    class Failed(Reproduction):
        @property
        def failures(self) -> int:
            return 2

    def reproduce(names, **settings):
        return Failed(Path("index.html"), ())

    monkeypatch.setattr(_reproduce, "reproduce", reproduce)
    assert call("reproduce", "-q") == 3


def test_what_is_unknown_is_refused(capsys, tmp_path):
    assert call("reproduce", "figure_9", "--out", tmp_path) == 1
    assert "no experiment 'figure_9': expected 'all' or some of" in words(capsys.readouterr().err)
    assert call("reproduce", "--scale", "half") == 2
    assert "'half' is not one of 'smoke'" in words(capsys.readouterr().err)
    missing = tmp_path / "none.npz"
    assert call("reproduce", "robust_normal", "--observations", missing, "--jobs", 1) == 1
    assert "no file of observations at" in words(capsys.readouterr().err)
