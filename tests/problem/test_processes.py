"""Black boxes in other processes, real ones: pools, time-outs that kill, workers that die."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

import genbayes as gb
from genbayes._workers import Failed
from genbayes._workers._hosted import Host
from genbayes.problem import Failures, recording

KEY = jax.random.key(0)
THETA = {"mean": 0.5}


def normal(theta, rng):
    return rng.normal(theta["mean"], 1.0)


def flaky(theta, rng):
    if rng.random() < 0.1:
        raise ValueError("too cold")
    return rng.normal(theta["mean"], 1.0)


def hangs_above_three(theta, rng):
    if theta["mean"] > 3:
        subprocess.Popen(["sleep", "987"])
        while True:
            pass
    return rng.normal(theta["mean"], 1.0)


def dies_above_three(theta, rng):
    if theta["mean"] > 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return rng.normal(theta["mean"], 1.0)


def dies_once(path):
    """Kills its process the first time that it is called, as an operator or the kernel might."""

    def fn(theta, rng):
        if not os.path.exists(path):
            with open(path, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return rng.normal(theta["mean"], 1.0)

    return fn


def draws_and_failures(simulator, num=40):
    failures = Failures()
    with recording(failures):
        draws = simulator.simulate_many({"mean": np.linspace(-1, 1, num)}, np.arange(num))
        one = simulator.simulate(KEY, THETA, num)  # stops at its first failure
    return np.asarray(draws), np.asarray(one), [(f.seed, f.message) for f in failures]


def processes_with(word):
    """Process ids whose command line holds a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_bytes().decode(errors="replace"):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has just ended
    return found


def wait_until(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def serial():
    return draws_and_failures(gb.BlackBox(flaky))


class TestDrawsDependOnNothingElse:
    @pytest.mark.parametrize("timeout", [None, 30.0])
    def test_a_pool_of_processes(self, pool, serial, timeout):
        found = draws_and_failures(gb.BlackBox(flaky, pool, timeout))
        np.testing.assert_array_equal(found[0], serial[0])
        assert found[2] == serial[2]
        assert len(serial[2]) > 2
        # what follows the first failure of an estimate was not needed, and may have been made
        assert np.isnan(found[1]).any()

    def test_a_process_of_its_own(self, serial):
        found = draws_and_failures(gb.BlackBox(flaky, timeout=30.0))
        np.testing.assert_array_equal(found[0], serial[0])
        np.testing.assert_array_equal(found[1], serial[1])
        assert found[2] == serial[2]

    def test_threads(self, serial):
        with ThreadPoolExecutor(3) as threads:
            found = draws_and_failures(gb.BlackBox(flaky, threads))
        np.testing.assert_array_equal(found[0], serial[0])
        assert found[2] == serial[2]

    @pytest.mark.parametrize("seconds", [1e-6, 0.05, 10.0])
    def test_batching(self, serial, seconds):
        with ThreadPoolExecutor(3) as threads:
            simulator = gb.BlackBox(flaky, threads)
            simulator.runtime.spread._seconds = seconds  # what it takes a draw to last
            found = draws_and_failures(simulator)
        np.testing.assert_array_equal(found[0], serial[0])
        assert found[2] == serial[2]

    def test_functions_of_the_moment_travel(self, pool):
        scale = np.array([1.0, 2.0])
        simulator = gb.BlackBox(lambda theta, rng: scale * rng.normal(theta["mean"]), pool)
        here = gb.BlackBox(lambda theta, rng: scale * rng.normal(theta["mean"]))
        np.testing.assert_array_equal(
            simulator.simulate(KEY, THETA, 6), here.simulate(KEY, THETA, 6)
        )


class TestTimeouts:
    def test_a_hanging_draw_is_killed_with_all_it_started(self):
        simulator = gb.BlackBox(hangs_above_three, timeout=1.0)
        means = np.array([0.0, 4.0, 1.0])
        began = time.monotonic()
        with pytest.warns(RuntimeWarning, match=r"1 of 3 draws failed.*stopped after 1 s"):
            draws = np.asarray(simulator.simulate_many({"mean": means}, np.arange(3)))
        assert time.monotonic() - began < 30
        assert np.isnan(draws).tolist() == [False, True, False]
        expected = gb.BlackBox(normal).simulate_many({"mean": means}, np.arange(3))
        np.testing.assert_array_equal(draws[[0, 2]], np.asarray(expected)[[0, 2]])
        wait_until(lambda: not processes_with("sleep\x00987"))

    def test_in_a_pool_the_worker_lives_on(self, pool):
        simulator = gb.BlackBox(hangs_above_three, pool, timeout=1.0)
        workers = set(pool._processes)
        means = np.array([4.0, 0.0, 1.0, 4.0, 2.0])
        with pytest.warns(RuntimeWarning, match=r"2 of 5 draws failed"):
            draws = np.asarray(simulator.simulate_many({"mean": means}, np.arange(5)))
        assert np.isnan(draws).tolist() == [True, False, False, True, False]
        assert workers <= set(pool._processes)
        wait_until(lambda: not processes_with("sleep\x00987"))


class TestDeaths:
    def test_a_draw_that_kills_its_process_is_a_failure(self):
        simulator = gb.BlackBox(dies_above_three, timeout=30.0)
        found = simulator.try_draw({"mean": 4.0}, np.array([1], np.uint32))
        assert isinstance(found, Failed)
        assert found.message == "its process was killed by SIGKILL"
        assert not isinstance(simulator.try_draw({"mean": 0.0}, np.array([1])), Failed)

    def test_a_worker_killed_in_mid_run_changes_nothing(self, tmp_path):
        means = {"mean": np.linspace(-1, 1, 20)}
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            simulator = gb.BlackBox(dies_once(str(tmp_path / "died")), pool)
            draws = simulator.simulate_many(means, np.arange(20))
            assert (tmp_path / "died").exists()
            again = simulator.simulate_many(means, np.arange(20))
        expected = gb.BlackBox(normal).simulate_many(means, np.arange(20))
        np.testing.assert_array_equal(draws, expected)
        np.testing.assert_array_equal(again, expected)

    @pytest.mark.slow
    def test_a_draw_that_kills_every_worker_is_a_failure(self):
        means = np.array([0.0, 1.0, 4.0, 2.0])
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            simulator = gb.BlackBox(dies_above_three, pool)
            with pytest.warns(RuntimeWarning, match=r"1 of 4 draws failed.*ended its worker"):
                draws = simulator.simulate_many({"mean": means}, np.arange(4))
        assert np.isnan(np.asarray(draws)).tolist() == [False, False, True, False]


class TestRefusals:
    def test_pools_that_fork(self):
        fork, message = multiprocessing.get_context("fork"), r"mp_context=multiprocessing\.get_con"
        with ProcessPoolExecutor(1, fork) as pool, pytest.raises(ValueError, match=message):
            gb.BlackBox(normal, pool)

    def test_what_cannot_travel(self, pool):
        import threading

        lock = threading.Lock()
        simulator = gb.BlackBox(lambda theta, rng: lock and rng.normal(), pool)
        with pytest.raises(TypeError, match=r"cannot be sent to another process.*lock"):
            simulator.simulate(KEY, THETA, 2)

    def test_what_cannot_be_unpacked_there(self):
        with pytest.raises(RuntimeError, match=r"could not be started.*UnpicklingError"):
            Host(b"nonsense")


ORPHANS = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from genbayes._workers import Program, Recipe, Spread, portable

def main():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        program = "import sys, time; time.sleep(0 if sys.argv[1] == '0.0' else 987); print(1.0)"
        command = (sys.executable, "-S", "-c", program, "{{hang}}", "genbayes-orphan-{word}")
        recipe = Recipe(portable(Program(command)), "float32", isolated=True)
        spread = Spread({executor})
        print(spread(recipe, [{{"hang": 0.0}}] * 2, [1, 2], False), flush=True)
        spread(recipe, [{{"hang": 1.0}}] * 2, [3, 4], False)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("executor", "number"),
    [("None", signal.SIGKILL), pytest.param("pool", signal.SIGKILL, marks=pytest.mark.slow),
     pytest.param("pool", signal.SIGTERM, marks=pytest.mark.slow)],
)  # fmt: skip
def test_no_orphans_whatever_kills_the_run(tmp_path, executor, number):
    word = f"{os.getpid()}-{number}-{executor}"
    script = tmp_path / f"run_{os.getpid()}.py"
    script.write_text(textwrap.dedent(ORPHANS.format(word=word, executor=executor)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert run.stdout is not None
        assert run.stdout.readline().count("array(1.") == 2
        wait_until(lambda: processes_with(f"genbayes-orphan-{word}"))
        run.send_signal(number)
        run.wait(20)
        wait_until(lambda: not processes_with(f"genbayes-orphan-{word}"))
    finally:
        run.kill()
        run.wait()
        run.stdout.close()
