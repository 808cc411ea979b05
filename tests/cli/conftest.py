"""A model file that compiles fast, and one run of it that all tests of the command may read."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from genbayes.cli import main

# the simulator is that of other tests, so that its program is compiled once
MODEL = """
from tests.samplers.table import PRIOR, SIMULATOR
from tests.support.problems import OBSERVATIONS, PlainEnergy

import genbayes as gb

simulator = SIMULATOR


def make(num_simulations=8):
    problem = gb.Problem(PRIOR, simulator, OBSERVATIONS)
    return gb.ScorePosterior(problem, PlainEnergy(), num_simulations=num_simulations)


target = make()
problem = target.problem
number = 3


def fails():
    return 1 / 0


def nothing():
    pass
"""
PM = ("--sampler", "pm", "--set", "proposal_scale=0.8", "--start", "zero", "--chains", "2")
SMALL = (*PM, "--samples", "50", "--warmup", "0", "--quiet")


def call(*arguments: object) -> int:
    """Run the command in this process; give its exit status."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in arguments])
    return int(end.value.code or 0)


def words(text: str) -> str:
    """Text without its line breaks."""
    return " ".join(text.split())


def environment() -> dict[str, str]:
    """That of a subprocess which must find the tests' own modules."""
    paths = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "src")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def command(*arguments: object) -> list[str]:
    """The command as another process is given it."""
    return [sys.executable, "-m", "genbayes", *map(str, arguments)]


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A folder with `model.py`, and the runs `whole` (complete) and `part` (stopped by a rule)."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "model.py").write_text(MODEL)
    file = folder / "model.py"
    assert call("run", file, *SMALL, "--out", folder / "runs/whole") == 0
    stop = ("--max-simulations", "200")
    assert call("run", file, *SMALL, *stop, "--out", folder / "runs/part") == 0
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch) -> Path:
    """A copy of that folder to work in; the copied runs know of the copied file."""
    shutil.copytree(made, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"
