"""Black boxes and runs on a real Dask cluster of two processes, with its faults."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future
from types import SimpleNamespace

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import genbayes as gb
from genbayes._workers import Lost, _crew

distributed = pytest.importorskip("distributed")

PRIOR = gb.Prior(mean=dist.Normal(0, 1))
KEY, THETA = jax.random.key(0), {"mean": 0.5}


def normal(theta, rng):
    if rng.random() < 0.005:
        raise ValueError("too cold")
    return rng.normal(theta["mean"], 1.0)


def slow_normal(theta, rng):
    time.sleep(0.002)
    return normal(theta, rng)


def hangs_above_three(theta, rng):
    while theta["mean"] > 3:
        pass
    return rng.normal(theta["mean"], 1.0)


def target(simulator):
    problem = gb.Problem(PRIOR, simulator, [0.2, 0.4, 1.1])
    return gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=8)


def sampled(simulator, num_samples=25, **settings):
    sampler = gb.PseudoMarginal(0.5)
    return gb.sample(
        target(simulator), sampler, num_samples=num_samples, progress=False, **settings
    )


def same(run, other):
    np.testing.assert_array_equal(run.unconstrained, other.unconstrained)
    assert [f.seed for f in run.failures] == [f.seed for f in other.failures]


@pytest.fixture(scope="module")
def client():
    settings = {"threads_per_worker": 1, "dashboard_address": None, "processes": True}
    cluster = distributed.LocalCluster(n_workers=2, **settings)
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def serial():
    return sampled(gb.BlackBox(normal))


def test_a_chain_is_the_same_on_a_cluster(client, serial):
    run = sampled(gb.BlackBox(normal, client.get_executor()))
    same(run, serial)


def test_workers_do_without_jax(client):
    gb.BlackBox(normal, client.get_executor()).simulate(KEY, THETA, 4)
    loaded = client.run(lambda: [name for name in ("jax", "equinox") if name in sys.modules])
    assert set(map(tuple, loaded.values())) == {()}


def test_a_hanging_draw_leaves_its_worker_free(client):
    simulator = gb.BlackBox(hangs_above_three, client.get_executor(), timeout=1.0)
    means = np.array([4.0, 0.0, 1.0, 2.0])
    before = set(client.run(os.getpid).values())
    with pytest.warns(RuntimeWarning, match=r"1 of 4 draws failed.*stopped after 1 s"):
        draws = np.asarray(simulator.simulate_many({"mean": means}, np.arange(4)))
    assert np.isnan(draws).tolist() == [True, False, False, False]
    assert set(client.run(os.getpid).values()) == before
    again = simulator.simulate_many({"mean": means[1:]}, np.arange(1, 4))
    np.testing.assert_array_equal(again, draws[1:])


def test_a_worker_killed_in_mid_run_changes_nothing(client, serial):
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    timer.start()
    simulator = gb.BlackBox(slow_normal, client.get_executor())
    run = sampled(simulator, 50)
    timer.join()
    here = sampled(gb.BlackBox(slow_normal), 50)
    same(run, here)
    assert victim not in client.run(os.getpid).values()


def test_a_lost_scheduler_is_told_and_the_run_goes_on_elsewhere(tmp_path, monkeypatch, serial):
    """With an executor that is lost after some tasks; the next test has a real scheduler."""
    monkeypatch.setattr(_crew, "RECONNECT_SECONDS", 0.2)
    simulator = gb.BlackBox(normal, Doomed(30))
    with pytest.raises(Lost, match=r"scheduler tcp://there is lost.*start a cluster and resume"):
        sampled(simulator, store=tmp_path / "run")
    assert gb.load(tmp_path / "run").status.outcome.name == "FAILED"
    same(gb.resume(tmp_path / "run", target(gb.BlackBox(normal)), progress=False), serial)


class Doomed(Executor):
    """Works for a while, then is as Dask's executor is without its scheduler."""

    def __init__(self, tasks):
        self._left = tasks
        self._client = SimpleNamespace(
            status="running", scheduler=SimpleNamespace(address="tcp://there"),
            nthreads=lambda: {"there": 2},
        )  # fmt: skip

    def submit(self, fn, /, *args, **settings):
        future: Future = Future()
        self._left -= 1
        if self._left > 0:
            future.set_result(fn(*args, **settings))
        else:
            self._client.status = "connecting"
            future.cancel()
        return future


def cell(seed):
    """One cell of a study: its own data and its own chain."""
    problem = gb.tasks.normal_location().problem(seed=seed, num_observations=10)
    at = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=10)
    return gb.sample(at, gb.PseudoMarginal(0.5), num_samples=20, seed=seed, progress=False)


@pytest.mark.slow
def test_many_runs_on_a_cluster_are_the_runs_here(client, precision):
    runs = gb.map_runs(cell, [3, 4, 5], executor=client.get_executor())
    for run, seed in zip(runs, (3, 4, 5), strict=True):
        np.testing.assert_array_equal(run.unconstrained, cell(seed).unconstrained)
        assert run.unconstrained.dtype == f"float{precision}"
        assert run.target is None


FILE = """
import genbayes as gb, numpyro.distributions as dist

def fn(theta, rng):
    return rng.normal(theta["mean"], 1.0)

problem = gb.Problem(gb.Prior(mean=dist.Normal(0, 1)), gb.BlackBox(fn), [0.2, 0.4, 1.1])
target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=8)
"""


@pytest.mark.slow
def test_the_command_on_a_cluster(client, tmp_path, monkeypatch):
    from genbayes.cli._run import Request, resume_path, run_file

    monkeypatch.chdir(tmp_path)
    (tmp_path / "dask_model.py").write_text(FILE)
    address = client.scheduler.address
    options = {"num_samples": 10, "seed": 3, "num_warmup": 0}
    settings = ("proposal_scale=0.5",)
    for out, dask in (("there", address), ("here", None)):
        request = Request(
            sampler="pm", settings=settings, options=options, precision=None, tune=False,
            out=tmp_path / out, dask=dask,
        )  # fmt: skip
        assert run_file("dask_model.py", request, quiet=True, as_json=False) == 0
    assert resume_path(
        tmp_path / "there", None, {"num_samples": 15}, dask=address, quiet=True, as_json=False
    ) == 0  # fmt: skip
    assert resume_path(
        tmp_path / "here", None, {"num_samples": 15}, quiet=True, as_json=False
    ) == 0  # fmt: skip
    there, here = gb.load(tmp_path / "there"), gb.load(tmp_path / "here")
    np.testing.assert_array_equal(there.unconstrained, here.unconstrained)


@pytest.mark.slow
def test_a_real_scheduler_killed(tmp_path, monkeypatch, serial):
    monkeypatch.setattr(_crew, "RECONNECT_SECONDS", 2.0)
    address = "tcp://127.0.0.1:18786"
    run_module = [sys.executable, "-m"]
    scheduler = subprocess.Popen(
        [*run_module, "distributed.cli.dask_scheduler", "--port", "18786", "--no-dashboard"],
        stderr=subprocess.DEVNULL,
    )
    worker = subprocess.Popen(
        [*run_module, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
         "--no-dashboard", "--death-timeout", "60"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    client = None
    try:
        client = distributed.Client(address, timeout=60)
        client.wait_for_workers(1, timeout=60)
        killer = threading.Thread(target=kill_when_drawn, args=(scheduler, tmp_path / "run"))
        killer.start()
        with pytest.raises(Lost, match=r"scheduler tcp://127.0.0.1:18786 is lost"):
            sampled(gb.BlackBox(slow_normal, client.get_executor()), 5000, store=tmp_path / "run")
        killer.join()
    finally:
        if client is not None:
            client.close(timeout=1)
        for process in (worker, scheduler):
            process.kill()
            process.wait()
    kept = gb.load(tmp_path / "run").unconstrained.shape[1]
    assert kept > 0
    more = gb.resume(
        tmp_path / "run", target(gb.BlackBox(slow_normal)), progress=False,
        max_simulations=8 * (kept + 20),
    )  # fmt: skip
    here = sampled(gb.BlackBox(slow_normal), more.unconstrained.shape[1])
    np.testing.assert_array_equal(more.unconstrained, here.unconstrained)


def kill_when_drawn(process, path):
    """Once something has been committed, and more is on its way."""
    while not (path / "manifest.json").is_file() or gb.runs.peek(path).draws == 0:
        time.sleep(0.05)
    process.kill()
