"""`run` and `resume`: what a file defines is drawn from, kept, gone on with, refused."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import MODEL, PM, SMALL, call, command, environment, words

import genbayes as gb
from genbayes.cli._samplers import CLASSES, make_sampler
from genbayes.runs import Outcome


def refused(capsys, *arguments, status=2) -> str:
    assert call(*arguments) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert "\n\n" not in said.err.strip()
    return words(said.err)


def test_a_run_is_kept_and_told_about(here, capsys):
    assert call("run", "model.py", *PM, "--samples", 50, "--warmup", 0, "--seed", 7) == 0
    said = capsys.readouterr()
    assert said.out.startswith("PseudoMarginal: 2 x 50 draws")
    assert "Kept in runs/model. A page about it: genbayes report runs/model" in said.err
    run = gb.load("runs/model")
    assert (run.provenance["seed"], run.draws["mean"].shape) == (7, (2, 50))
    notes = run.provenance["notes"]
    assert notes["file"] == str((here / "model.py").resolve())
    assert notes["target"] == "target"
    assert call("run", "model.py", *SMALL) == 0
    assert gb.load("runs/model-2").status.ok  # the first is not written over
    assert capsys.readouterr() == ("", "")


def test_the_model_of_a_folder_gives_the_run_its_name(here):
    (here / "queue").mkdir()
    (here / "model.py").rename(here / "queue/model.py")
    assert call("run", "queue/model.py", *SMALL) == 0
    assert gb.load("runs/queue").status.ok


def test_it_is_the_run_that_python_gives(here):
    from tests.samplers.table import small_target

    run = gb.sample(
        small_target(), gb.PseudoMarginal(0.8), num_samples=50, num_chains=2, seed=0,
        start="zero", progress=False,
    )  # fmt: skip
    np.testing.assert_array_equal(gb.load("runs/whole").draws["mean"], run.draws["mean"])


def test_json_is_all_there_is_on_standard_output(here, capsys):
    assert call("run", "model.py:make", *PM, "--samples", 20, "--warmup", 0, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"], told["draws"], told["path"]) == ("COMPLETE", 20, "runs/model")
    assert told["summary"][0]["parameter"] == "mean"
    assert {"ok", "findings", "remarks", "sampler", "seed", "cost", "chains"} <= told.keys()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.txt", "Expected FILE.py or FILE.py:NAME, got 'model.txt'"),
        ("model.py:", "Expected FILE.py or FILE.py:NAME, got 'model.py:'"),
        ("other.py", r"There is no file other.py \(seen from .*genbayes new other"),
        ("model.py:nope", "defines no 'nope'. It defines target: say model.py:target"),
        ("model.py:number", "'number' of .* must be a genbayes.ScorePosterior.* got int"),
        ("model.py:nothing", "got NoneType: return one"),
        ("model.py:problem", r"got Problem: add a score: problem = genbayes.ScorePosterior\("),
    ],
)
def test_files_without_a_target_are_refused(here, capsys, file, message):
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(refused(capsys, "run", file, *SMALL))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", r"broken.py, line 1: SyntaxError: "),
        ("x = 1\ny = nowhere\n", r"broken.py, line 2: NameError: name 'nowhere' is not defined"),
        ("import numpi\n", r"broken.py, line 1: ModuleNotFoundError: No module named 'numpi'"),
        ("x = 1\n", "defines no 'target'. Expected `target = genbayes.ScorePosterior"),
    ],
)
def test_files_that_fail_say_where(here, capsys, text, message):
    (here / "broken.py").write_text(text)
    status = 2 if "defines no" in message else 1
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(refused(capsys, "run", "broken.py", *SMALL, status=status))


def test_a_function_that_fails_says_where(here, capsys):
    said = refused(capsys, "run", "model.py:fails", *SMALL, status=1)
    line = MODEL.splitlines().index("    return 1 / 0") + 1
    assert f"model.py, line {line}: ZeroDivisionError: division by zero" in said


def test_debug_shows_the_users_own_traceback(here, capsys):
    assert call("run", "--debug", "model.py:fails", *SMALL) == 1
    assert "return 1 / 0" in capsys.readouterr().err


SETTINGS = [
    ("sgld", ["step_size=3e-3"], gb.SGLD(0.003)),
    ("adsgld", ["step_size=1", "diffusion=2", "clip=none"], gb.AdSGLD(1.0, diffusion=2.0)),
    ("adsgld", ["step-size=0.1", "diffusion=auto"], gb.AdSGLD(0.1)),
    ("psgld", ["step_size=0.1", "allow_biased_gradients=yes"],
     gb.PSGLD(0.1, allow_biased_gradients=True)),
    ("sghmc", ["step_size=0.1", "friction=2", "noise=iid"],
     gb.SGHMC(0.1, friction=2.0, noise="iid")),
    ("pm", [], gb.PseudoMarginal()),
    ("pm", ["adapt=true", "groups=10"], gb.PseudoMarginal(adapt=True, groups=10)),
    ("pm-nuts", ["noise=groups"], gb.PseudoMarginalNUTS(noise="groups")),
    ("smc-abc", ["num_particles=50"], gb.SMCABC(num_particles=50)),
    ("frozen-nuts", ["max_doublings=5"], gb.FrozenNUTS(max_doublings=5)),
    ("nuts", ["target_acceptance=0.9"], gb.NUTS(target_acceptance=0.9)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "expected"), SETTINGS)
def test_settings_are_those_of_the_sampler(name, settings, expected):
    made = make_sampler(name, settings)
    assert repr(made) == repr(expected)
    assert [type(x) for x in vars(made).values()] == [type(x) for x in vars(expected).values()]


def test_a_step_size_is_tuned_if_asked():
    sampler = make_sampler("adsgld", ["diffusion=2"], tune=True)
    assert isinstance(sampler.step_size, gb.tuning.Bandit)


def test_lists_become_arrays():
    sampler = make_sampler("pm", ["proposal_scale=[0.5, 2]"])
    np.testing.assert_array_equal(sampler.proposal_scale, [0.5, 2])


def test_every_sampler_of_the_table_exists():
    assert all(hasattr(gb, name) for name in CLASSES.values())
    assert make_sampler("auto", []) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sampler", "adsgld"], "AdSGLD needs step_size: add --set step_size=VALUE, or --tune."),
        (["--sampler", "sgld", "--set", "step_sise=1"],
         "SGLD has no setting 'step_sise'. Did you mean step_size"),
        (["--sampler", "sgld", "--set", "step_size"], "expects NAME=VALUE, such as step_size=3e-3"),
        (["--sampler", "sgld", "--set", "step_size=fast"], "must be a number, got 'fast'"),
        (["--sampler", "sgld", "--set", "step_size=true"], "must be a number, got 'true'"),
        (["--sampler", "sgld", "--set", "step_size=[1,2]"], "must be a number, got"),
        (["--sampler", "pm", "--set", "groups=2.5"], "must be a whole number or none, got '2.5'"),
        (["--sampler", "pm", "--set", "proposal_scale=__import__('os')"], "a number or a list"),
        (["--sampler", "adsgld", "--set", "step_size=1", "--set", "integrator=rk4"],
         "must be 'badodab' or 'euler', got 'rk4'"),
        (["--sampler", "smc-abc", "--set", "distance=none"],
         "must be 'energy' or 'euclidean', got 'none'"),
        (["--set", "step_size=1"], "needs a sampler to belong to, and --sampler is auto"),
        (["--tune"], "--tune needs a sampler to belong to, and --sampler is auto"),
        (["--sampler", "pm", "--tune"], "--tune finds a step size, and PseudoMarginal has none"),
        (["--sampler", "sgld", "--tune", "--set", "step_size=1"], "leave one of them out"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(here, capsys, options, message):
    assert message in refused(capsys, "run", "model.py", *options, "--quiet")


def test_what_the_library_refuses_is_one_paragraph_too(here, capsys):
    said = refused(
        capsys, "run", "model.py", "--quiet", "--sampler", "sgld", "--set", "step_size=-1", status=1
    )
    assert "step_size must be a finite number above 0, got -1" in said
    said = refused(capsys, "run", "model.py", *SMALL, "--out", "runs/whole", status=1)
    assert "runs/whole already holds a run" in said


class TestResume:
    def test_a_stopped_run_goes_on_where_it_was(self, here, capsys):
        assert gb.load("runs/part").status.outcome is Outcome.MAX_SIMULATIONS
        assert call("resume", "runs/part") == 0
        assert "PseudoMarginal: 2 x 50 draws" in capsys.readouterr().out
        part, whole = gb.load("runs/part"), gb.load("runs/whole")
        np.testing.assert_array_equal(part.draws["mean"], whole.draws["mean"])

    def test_more_draws_can_be_asked_for(self, here, capsys):
        assert call("resume", "runs/whole", "--samples", 60, "--json") == 0
        assert json.loads(capsys.readouterr().out)["draws"] == 60

    def test_a_changed_target_is_refused_unless_told_otherwise(self, here, made, capsys):
        file = ("--file", "model.py")
        other = "gb.Simulator(lambda theta, z: theta['mean'] + 2 * z, noise=SIMULATOR.noise)"
        (here / "model.py").write_text(MODEL.replace("= SIMULATOR", f"= {other}"))
        said = refused(capsys, "resume", "runs/part", *file, "--quiet", status=1)
        assert "not the one that the run was begun with (simulator:" in said
        assert "give --allow-changes if the change is harmless" in said
        assert call("resume", "runs/part", *file, "--quiet", "--allow-changes") == 0

    def test_a_file_that_changed_in_other_ways_is_noted(self, here, capsys):
        (here / "model.py").write_text(MODEL + "\nunrelated = 1\n")
        assert call("resume", "runs/part", "--file", "model.py") == 0
        assert "model.py has changed since the run began" in words(capsys.readouterr().err)

    def test_a_file_that_is_gone_is_asked_for(self, here, capsys, monkeypatch):
        found = []
        monkeypatch.setattr(Path, "is_file", lambda path: found.append(path) and False)
        with monkeypatch.context():
            said = refused(capsys, "resume", "runs/part", status=1)
        assert "which is not there any more: say where it is now, with --file" in said

    def test_a_run_of_python_is_asked_for_its_file(self, here, capsys):
        from tests.samplers.table import small_target

        gb.sample(
            small_target(), gb.PseudoMarginal(0.8), num_samples=5, progress=False, store="runs/py"
        )
        said = refused(capsys, "resume", "runs/py", status=1)
        assert "was not begun by genbayes run" in said
        assert call("resume", "runs/py", "--file", "model.py", "--samples", 9, "--quiet") == 0

    def test_what_is_no_run_is_refused(self, here, capsys):
        assert "nowhere holds no run" in refused(capsys, "resume", "nowhere", status=1)


def start(*arguments):
    return subprocess.Popen(
        command(*arguments), env=environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for(path: Path, process, found) -> None:
    """Until the folder of a run shows something."""
    import time

    for _ in range(6000):
        if found(path) or process.poll() is not None:
            break
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()


def has_draws(path: Path) -> bool:
    from genbayes.runs import peek
    from genbayes.runs._store_errors import StoreError

    try:
        return peek(path).draws > 0
    except StoreError:
        return False


def test_ctrl_c_keeps_the_run_and_watch_shows_it_first(here, capsys):
    long = (*PM, "--samples", 10**8, "--warmup", 0, "--out", "runs/long")
    with start("run", "model.py", *long) as process:
        wait_for(here / "runs/long", process, has_draws)
        assert call("watch", "runs/long", "--once") == 0
        assert call("runs") == 0
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=120)
    said = capsys.readouterr().out
    assert "sampling: " in said
    assert "% accepted" in said
    (row,) = [line.split() for line in said.splitlines() if line.startswith("long ")]
    assert row[1] == "running"
    assert process.returncode == 130
    assert out.startswith("PseudoMarginal: 2 x ")
    assert "Go on with genbayes resume runs/long" in words(error)
    assert gb.load("runs/long").status.outcome is Outcome.INTERRUPTED


def test_a_killed_run_is_cut_off_and_goes_on(here, capsys):
    long = (*PM, "--samples", 40_000, "--warmup", 0, "--max-seconds", 1e6)
    whole = gb.sample(
        _target_of(here / "model.py"), gb.PseudoMarginal(0.8), num_samples=40_000, num_chains=2,
        start="zero", progress=False,
    )  # fmt: skip
    with start("run", "model.py", *long, "--out", "runs/long") as process:
        wait_for(here / "runs/long", process, lambda p: (p / "manifest.json").exists())
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert call("watch", "runs/long") == 3
    said = capsys.readouterr()
    assert "cut off: " in said.out
    assert "Go on with genbayes resume runs/long" in words(said.err)
    assert call("resume", "runs/long", "--quiet") == 0
    np.testing.assert_array_equal(gb.load("runs/long").draws["mean"], whole.draws["mean"])


# commits as often as there are chunks, so that kills find every kind of moment
HASTY = """
from genbayes.runs import _loop, _sink

_loop.CHUNK_SECONDS, _sink.COMMIT_SECONDS = 0.02, 0.0
"""


@pytest.mark.slow
def test_runs_killed_at_fifty_random_instants_end_like_one_that_was_not(here):
    (here / "model.py").write_text(MODEL + HASTY)
    rng, died = np.random.default_rng(0), 0
    whole = gb.sample(
        _target_of(here / "model.py"), gb.PseudoMarginal(0.8), num_samples=300_000, num_chains=2,
        start="zero", progress=False,
    )  # fmt: skip
    begin = ("run", "model.py", *PM, "--samples", 300_000, "--warmup", 0, "--quiet", "--out")
    for number in range(50):
        path = Path(f"runs/{number}")
        while True:
            again = (here / path / "manifest.json").exists()
            words = ("resume", path, "--quiet") if again else (*begin, path)
            with start(*words) as process:
                if died < 50 and rng.random() < 0.9:  # before, within or after the drawing
                    wait_for_start(process, rng.exponential(1.0))
                    process.kill()
                out, error = process.communicate(timeout=300)
            died += process.returncode == -signal.SIGKILL
            if process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, (out, error)
                break
        run = gb.load(path)
        assert run.cost.steps == whole.cost.steps
        np.testing.assert_array_equal(run.unconstrained, whole.unconstrained)
        np.testing.assert_array_equal(run.info["accepted"], whole.info["accepted"])
        if died == 50:
            return
    pytest.fail(f"Only {died} processes were killed: they are faster than the kills.")


def wait_for_start(process, seconds: float) -> None:
    """Let it import its libraries, or end, and then work for some seconds."""
    for wait in (2.0, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=wait)


def _target_of(file: Path) -> gb.ScorePosterior:
    from genbayes.cli._target_file import load_target

    return load_target(str(file)).target
