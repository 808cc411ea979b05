"""Pages whose code is not in the form of a session run from top to bottom, as they stand."""

import pytest
from tests.support.pages import run_page


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_start(tmp_path, capsys):
    shorter = {"num_samples=500": "num_samples=100", "num_simulations=200": "num_simulations=64"}
    found = run_page("start.md", tmp_path, shorter)
    run = found["run"]
    # the sample of logarithms has mean 1.45 and sd 0.32: the parameters' posterior must be near
    assert run.draws["location"].shape == (4, 100)
    assert abs(run.draws["location"].mean() - 1.45) < 0.1
    assert abs(run.draws["spread"].mean() - 0.35) < 0.1
    said = capsys.readouterr().out
    assert "Sampler chosen: FrozenNUTS" in said
    assert "reach" in said
    for made in ("pairs.png", "report.html"):
        assert (tmp_path / made).stat().st_size > 0
