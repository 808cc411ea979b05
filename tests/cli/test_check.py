"""`genbayes check` and `genbayes new`: before the first run."""

import json
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from genbayes.cli._app import app
from genbayes.cli._check import cost_table, measure, timed
from genbayes.cli._commands_draw import SamplerName
from genbayes.cli._main import _paragraph
from genbayes.cli._target_file import load_target

from .conftest import call, words

# a run of a few steps, by the sampler that compiles fastest
FEW = (
    "--sampler", "pm", "--set", "proposal_scale=0.5", "--samples", "4", "--warmup", "0",
    "--chains", "1", "--quiet",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["jax", "numpy", "torch", "program"])
def test_each_starting_file_runs(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call("new", kind, "--kind", kind) == 0
    told = capsys.readouterr()
    assert told.out == f"{kind}/model.py\n"
    assert f"genbayes check {kind}/model.py" in told.err
    assert call("run", f"{kind}/model.py", *FEW, "--out", "run") == 0
    assert call("summary", "run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["draws"] == 4


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert call("new", tmp_path) == 1
    assert "is not empty. Expected a new or empty folder" in words(capsys.readouterr().err)
    assert os.listdir(tmp_path) == ["mine.txt"]


class TestCheck:
    def test_what_is_found_and_what_it_costs(self, here, capsys):
        assert call("check", "model.py") == 0
        told = capsys.readouterr()
        assert "fine   gradients" in told.out
        assert "one estimate, m = 8" in told.out
        assert "num_simulations:" in told.out
        assert told.err == "Draw from it: genbayes run model.py\n"
        assert not (here / "runs" / "model").exists()

    def test_as_json(self, here, capsys):
        assert call("check", "model.py:make", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert told["ok"] is True
        assert {f["result"] for f in told["findings"]} == {"fine"}
        costs = told["costs"]
        assert 0 < costs["seconds_per_draw"] < costs["seconds_per_estimate"]
        assert costs["seconds_of_run"] == pytest.approx(
            4 * 1500 * 10 * costs["seconds_per_gradient"]
        )
        assert costs["sampler"] == "FrozenNUTS"

    def test_compiling_is_not_counted(self):
        calls = []

        def slow_at_first(target, u):
            calls.append(u)
            time.sleep(0.3 if len(calls) == 1 else 0.001)
            return u

        target = SimpleNamespace(traceable=False)
        seconds, result = timed(slow_at_first, target, 7.0)
        assert (0.001 <= seconds < 0.1, result) == (True, 7.0)

    def test_a_fault_is_an_exit_status(self, here, capsys):
        fault = "import numpy as np\nimport numpyro.distributions as dist\nimport genbayes as gb\n"
        fault += "box = gb.BlackBox(lambda t, rng: np.random.default_rng().normal(t['a']))\n"
        fault += "problem = gb.Problem(gb.Prior(a=dist.Normal(0, 1)), box, [0.5])\n"
        fault += "target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=5)\n"
        (here / "fault.py").write_text(fault)
        assert call("check", "fault.py") == 3
        told = capsys.readouterr()
        assert "fault  same noise" in told.out
        assert "PseudoMarginal, because the simulator has no gradients" in told.out
        assert "Mend what is said to be a fault" in told.err

    def test_a_file_that_is_not_there(self, capsys):
        assert call("check", "nowhere.py") == 2
        assert "There is no file nowhere.py" in words(capsys.readouterr().err)

    def test_an_estimate_that_is_not_finite_is_told(self, here):
        target = load_target("model.py").target
        costs = measure(target)
        bad = type(costs)(**{**vars(costs), "log_density": float("-inf"), "variance": None,
                             "suggested_simulations": None})  # fmt: skip
        assert "! The estimate is not finite there" in str(cost_table(bad))


def test_an_error_of_a_function_that_compiled_code_called_is_one_line():
    text = "INTERNAL: CpuCallback error calling callback: Traceback:\n  File x\nValueError: boom\n"
    said = _paragraph(RuntimeError(text + "\n--------------------\nFor simplicity, ..."))
    assert said == "Error: The simulator failed: ValueError: boom (--debug shows where.)"


def test_a_folder_that_holds_a_run_is_refused_before_the_file_is_run(here, capsys):
    assert call("run", "nowhere.py", "--out", "runs/whole") == 1
    told = words(capsys.readouterr().err)
    assert "runs/whole already holds a run: go on with it, genbayes resume runs/whole" in told


def test_the_page_on_the_command_names_every_command_and_sampler():
    page = (Path(__file__).parents[2] / "docs" / "command.md").read_text()
    rows = re.findall(r"^\| `([a-z]+)", page, flags=re.MULTILINE)
    assert sorted(rows) == sorted(c.callback.__name__ for c in app.registered_commands)
    assert not [name.value for name in SamplerName if f"`{name.value}`" not in page]
