"""Pages whose code is not in the form of a session run from top to bottom, as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.pages import DOCS, run_page

import genbayes as gb
from genbayes.runs import Outcome


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
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


@pytest.mark.slow
def test_tutorial_g_and_k(tmp_path):
    found = run_page("tutorials/g_and_k.md", tmp_path)
    # posterior means of two samplers with different targets at finite m and short chains
    assert max(found["shift"].values()) < 0.5
    assert 1 < found["noise"].variance < 3  # as the page says
    assert (tmp_path / "g_and_k.png").exists()


@pytest.mark.slow
def test_tutorial_outliers(tmp_path):
    runs = run_page("tutorials/outliers.md", tmp_path)["runs"]
    mean = {key: run.draws["mean"].mean() for key, run in runs.items()}
    y = gb.tasks.normal_location(contamination=0.1, outlier=10.0).generate(0, 100)
    # the ordinary posterior is N(sum / 101, 1 / 101): 300 draws know its mean to a few hundredths
    assert mean["standard Bayes", 0.1] == pytest.approx(float(y.sum()) / 101, abs=0.05)
    assert mean["kernel score", 0.1] < mean["energy score", 0.1] < 1.5 < mean["standard Bayes", 0.1]
    clean = [mean[name, 0.0] for name in ("standard Bayes", "energy score", "kernel score")]
    assert max(clean) - min(clean) < 0.1


@pytest.mark.slow
def test_tutorial_lorenz96(tmp_path):
    found = run_page("tutorials/lorenz96.md", tmp_path, {"num_samples=200": "num_samples=50"})
    assert found["problem"].prior.size == 111
    assert found["run"].status.outcome is Outcome.COMPLETE
    assert all(np.isfinite(x).all() for x in found["run"].draws.values())


@pytest.mark.slow
def test_tutorial_epidemic(tmp_path):
    found = run_page("tutorials/epidemic.md", tmp_path)
    ratio = found["ratio"]
    # the truth, 3.2, lies within the posterior of one epidemic
    assert abs(ratio.mean() - 3.2) < 4 * ratio.std()
    assert ratio.std() < 1


@pytest.mark.slow
def test_tutorial_pytorch(tmp_path):
    found = run_page("tutorials/pytorch.md", tmp_path, {"num_samples=500": "num_samples=200"})
    run = found["run"]
    # twelve patients: the truth lies within the posterior
    for name, true in found["truth"].items():
        draws = run.draws[name]
        assert abs(draws.mean() - true) < 4 * draws.std(), name
    assert run.draws["clearance"].std() < 1  # the prior's is 1.8
    (value, slope), (value_jax, slope_jax) = found["estimates"]
    np.testing.assert_allclose(value, value_jax, rtol=1e-5)
    np.testing.assert_allclose(slope, slope_jax, rtol=1e-3, atol=1e-3)
    assert np.abs(slope).max() > 1
    assert (tmp_path / "pytorch.png").exists()


def job_scripts() -> list[str]:
    text = (DOCS / "howto/cluster.md").read_text()
    return [part.partition("```")[0] for part in text.split("```bash\n")[1:]]


def submitted(script: str, folder: Path, srun: str) -> subprocess.CompletedProcess[str]:
    """Run a job script with stand-ins for what a cluster brings."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    stand_ins = {
        "srun": srun,
        "scontrol": 'echo "scontrol $@"',
        "hostname": "echo 127.0.0.1",
        "genbayes": f'exec {sys.executable} -m genbayes "$@"',
        "dask": f'exec {sys.executable} -m dask "$@"',
    }
    for name, line in stand_ins.items():
        (tools / name).write_text(f"#!/bin/bash\n{line}\n")
        (tools / name).chmod(0o755)
    paths = [str(DOCS.parent / "src"), str(DOCS.parent)]
    settings = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(paths)}
    settings |= {"SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_ID": "77"}
    return subprocess.run(
        ["bash", "-c", script], env=os.environ | settings, cwd=folder, capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip


MODEL = """
import numpyro.distributions as dist
import genbayes as gb

box = gb.BlackBox(lambda theta, rng: rng.normal(theta["mean"]))
problem = gb.Problem(gb.Prior(mean=dist.Normal(0, 1)), box, [0.5, 0.2])
target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=4)
"""
FEWER = " --samples 20 --warmup 0 --chains 1"
PASS_ON = 'while [[ $1 == --* ]]; do shift; done; exec "$@"'


@pytest.fixture
def queue(tmp_path) -> Path:
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue/model.py").write_text(MODEL)
    return tmp_path


def test_a_job_that_was_interrupted_goes_back_to_the_queue(queue):
    many, _ = job_scripts()
    assert submitted(many, queue, "exit 130").stdout == "scontrol requeue 77\n"
    assert submitted(many, queue, "exit 0").stdout == ""


@pytest.mark.slow
def test_a_job_of_an_array_begins_and_goes_on(queue):
    many, _ = job_scripts()
    assert '--out "$run"' in many
    many = many.replace('--out "$run"', '--out "$run" --max-simulations 40' + FEWER)
    assert submitted(many, queue, PASS_ON).returncode == 0
    first = gb.load(queue / "runs/queue-3")
    assert (first.provenance["seed"], first.status.outcome) == (3, Outcome.MAX_SIMULATIONS)
    many = many.replace('resume "$run"', 'resume "$run" --max-simulations 4000')
    assert "scontrol" not in submitted(many, queue, PASS_ON).stdout
    assert gb.load(queue / "runs/queue-3").draws["mean"].shape == (1, 20)


@pytest.mark.slow
def test_a_job_with_workers_draws_on_them(queue):
    _, workers = job_scripts()
    line = 'genbayes run queue/model.py --dask "$address"'
    assert line in workers
    done = submitted(workers.replace(line, line + FEWER).replace("8786", "18786"), queue, PASS_ON)
    assert done.returncode == 0, done.stderr
    assert gb.load(queue / "runs/queue").draws["mean"].shape == (1, 20)
