"""The command: quick to answer, clear when it refuses, and a demo that runs."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import genbayes as gb
from genbayes.cli import main
from genbayes.cli._demo import demo_problem


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


def test_help_names_the_commands(capsys):
    assert call("--help") == 0
    assert "demo" in capsys.readouterr().out


def test_help_comes_quickly():
    """Within half a second of the processor, which JAX alone would take to be imported."""
    before = seconds_of_children()
    subprocess.run(
        [sys.executable, "-c", "from genbayes.cli import main; main(['--help'])"],
        check=True, capture_output=True,
    )  # fmt: skip
    assert seconds_of_children() - before < 0.5


def seconds_of_children() -> float:
    """Processor time, which other work on the machine does not lengthen."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_installed_command_is_this_one():
    command = Path(sys.executable).parent / "genbayes"
    done = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"genbayes {gb.__version__}\n"


def test_an_unknown_command_is_refused(capsys):
    assert call("dmeo") == 2
    assert "No such command 'dmeo'" in capsys.readouterr().err


def test_a_wrong_option_is_refused(capsys):
    assert call("demo", "--precision", "16") == 2
    assert "'16' is not one of '32', '64'" in capsys.readouterr().err


def test_too_few_draws_are_refused(capsys):
    assert call("demo", "--samples", "0") == 2
    assert "greater than or equal to 1" in capsys.readouterr().err


@pytest.fixture
def taken(tmp_path) -> Path:
    """A folder where the demo wants to write, with something of somebody's in it."""
    folder = tmp_path / "adsgld"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    return tmp_path


def test_errors_are_one_paragraph_and_what_is_no_demo_is_left_alone(capsys, taken):
    assert call("demo", "--folder", str(taken)) == 1
    error = capsys.readouterr().err
    words = " ".join(error.split())
    assert words.startswith(f"Error: {taken / 'adsgld'} holds something that no demo wrote.")
    assert "choose another with --folder" in words
    assert words.endswith("(--debug shows where.)")
    assert "Traceback" not in error
    assert "\n\n" not in error
    assert (taken / "adsgld" / "thesis.tex").read_text() == "years of work"


def test_debug_shows_where(capsys, taken):
    assert call("demo", "--debug", "--folder", str(taken)) == 1
    assert "Traceback" in capsys.readouterr().err


def test_another_run_is_left_alone(capsys, tmp_path):
    target = gb.ScorePosterior(
        gb.tasks.normal_location().problem(), gb.EnergyScore(), num_simulations=10
    )
    store = tmp_path / "adsgld"
    gb.sample(target, gb.PseudoMarginal(0.5), num_samples=5, progress=False, store=store)
    assert call("demo", "--folder", str(tmp_path)) == 1
    assert "holds something that no demo wrote" in " ".join(capsys.readouterr().err.split())
    assert gb.load(store).draws["mean"].shape == (1, 5)


def test_the_demo_writes_a_run_and_a_page_and_replaces_an_earlier_one(tmp_path):
    """In another process, as people run it, and in double precision, which is set there."""
    folder = tmp_path / "demo"
    target = gb.ScorePosterior(demo_problem(), gb.EnergyScore(), num_simulations=10)
    earlier = {"num_samples": 5, "progress": False, "store": folder / "adsgld"}
    gb.sample(target, gb.PseudoMarginal(0.5), **earlier)
    command = [
        sys.executable, "-c", "from genbayes.cli import main; main()", "demo", "--precision", "64",
        "--samples", "200", "--warmup", "50", "--folder", str(folder),
    ]  # fmt: skip
    environment = os.environ | {"JAX_ENABLE_X64": "0"}
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert "FrozenNUTS: 4 x 10 draws" in ran.stdout
    assert "AdSGLD: 1 x 200 draws" in ran.stdout
    assert (folder / "report.html").resolve().as_uri() in ran.stdout
    assert f"Replacing the earlier demo in {folder / 'adsgld'}" in ran.stderr
    run = gb.load(folder / "adsgld")
    assert run.draws["A"].shape == (1, 200)
    assert run.provenance["precision"] == 64
