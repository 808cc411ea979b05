"""`sample` and `resume`: what is refused, how runs stop and go on, and what they cost."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.samplers.table import TRACES, small_target
from tests.support.problems import OBSERVATIONS, PlainEnergy

import genbayes as gb
from genbayes.runs import Outcome, _loop
from genbayes.runs._loop import interruptible
from genbayes.runs._start import chain_keys

ROOT = Path(__file__).parents[2]
SAMPLER = gb.PseudoMarginal(0.8, groups=4)


def draw(target=None, sampler=SAMPLER, **options) -> gb.Run:
    settings = {"num_samples": 300, "seed": 0, "start": "zero", "progress": False}
    return gb.sample(small_target() if target is None else target, sampler, **settings | options)


@pytest.fixture
def short_chunks(monkeypatch):
    """A look at the world after every record."""
    monkeypatch.setattr(_loop, "CHUNK_SECONDS", 1e-9)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"num_samples": 0}, ValueError, "num_samples must be at least 1, got 0. It counts the"),
        ({"num_samples": -3}, ValueError, "num_samples must be at least 1, got -3"),
        ({"num_samples": 10.0}, TypeError, r"must be a whole number, got 10.0 \(float\)"),
        ({"num_warmup": -1}, ValueError, "num_warmup must be at least 0, got -1"),
        ({"num_chains": 0}, ValueError, "num_chains must be at least 1, got 0"),
        ({"thinning": 0}, ValueError, "thinning must be at least 1, got 0"),
        ({"chain_method": "threads"}, ValueError, "one of 'vectorized', 'parallel', 'sequential'"),
        ({"chain_method": "parallel", "num_chains": 2}, ValueError, "JAX sees only one"),
        ({"max_seconds": 0.0}, ValueError, "max_seconds must be a finite number above 0"),
        ({"max_simulations": 0}, ValueError, "max_simulations must be at least 1"),
        ({"min_ess": -5.0}, ValueError, "min_ess must be a finite number above 0"),
        ({"seed": 0.5}, TypeError, "seed must be a whole number or a key.*got 0.5"),
        ({"seed": True}, TypeError, "seed must be a whole number"),
        ({"start": "origin"}, ValueError, 'start must be "prior", "zero".*got \'origin\''),
        ({"start": 0.5}, ValueError, 'start must be "prior"'),
        ({"start": {"mu": 0.0}}, ValueError, r"each of the parameters \['mean'\], got \['mu'\]"),
        ({"start": {}}, ValueError, r"each of the parameters \['mean'\], got \[\]"),
        ({"start": {"mean": [1.0, 2.0]}}, ValueError, r"shape \(\), got a value of shape \(2,\)"),
        ({"start": {"mean": float("nan")}}, ValueError, "'mean' = nan lies outside the support"),
        ({"sampler": "adsgld"}, TypeError, "must be a sampler such as FrozenNUTS.*got str"),
        ({"target": lambda u: u}, TypeError, "target must be a ScorePosterior, got function"),
    ],
)
def test_bad_input_is_refused(options, error, match):
    with pytest.raises(error, match=match):
        draw(**options)


def bounded_target(fn=lambda theta, z: theta["rate"] + z) -> gb.ScorePosterior:
    problem = gb.Problem(
        gb.Prior(rate=dist.Uniform(0.0, 4.0)),
        gb.Simulator(fn, noise=dist.Normal(0.0, 1.0)),
        OBSERVATIONS,
    )
    return gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)


class TestStart:
    @pytest.mark.parametrize(
        ("value", "match"),
        [
            (-1.0, "'rate' = -1.0 lies outside the support"),
            (4.5, "'rate' = 4.5 lies outside the support"),
            (0.0, "'rate' = 0.0 lies on the edge of the support"),
            (4.0, "'rate' = 4.0 lies on the edge of the support"),
        ],
    )
    def test_a_point_outside_the_prior_is_refused(self, value, match):
        with pytest.raises(ValueError, match=match):
            draw(bounded_target(), start={"rate": value})

    def test_a_point_where_the_simulator_fails_is_refused(self):
        def fails_above_three(theta, z):
            return jnp.where(theta["rate"] > 3, jnp.nan, theta["rate"] + z)

        with pytest.raises(ValueError, match=r"not finite at the starting point {'rate': 3\.5"):
            draw(bounded_target(fails_above_three), start={"rate": 3.5})

    def test_a_simulator_that_never_works_is_refused(self):
        with pytest.raises(ValueError, match="not finite at any of 100 draws from the prior"):
            draw(bounded_target(lambda theta, z: theta["rate"] * z / 0.0), start="prior")

    def test_prior_draws_are_tried_until_one_works(self):
        def works_below_a_tenth(theta, z):
            return jnp.where(theta["rate"] > 0.4, jnp.nan, theta["rate"] + z)

        walk = draw(bounded_target(works_below_a_tenth), start="prior", num_samples=1).walk
        assert walk.step == 1

    def test_zero_is_the_origin_of_unconstrained_space(self):
        run = draw(bounded_target(), gb.PseudoMarginal(1e-6), num_samples=1, start="zero")
        np.testing.assert_allclose(run.draws["rate"], 2.0, rtol=1e-4)

    def test_a_mapping_starts_every_chain_there(self):
        run = draw(
            bounded_target(), gb.PseudoMarginal(1e-6), num_samples=1, num_chains=3,
            start={"rate": 3.0},
        )  # fmt: skip
        np.testing.assert_allclose(run.draws["rate"], 3.0, rtol=1e-4)

    def test_chains_start_apart_by_prior_draws(self):
        run = draw(
            bounded_target(), gb.PseudoMarginal(1e-6), num_samples=1, num_chains=3, start="prior"
        )
        assert len(np.unique(run.draws["rate"].round(3))) == 3


def test_keys_depend_on_seed_and_chain_alone():
    few, many = chain_keys(5, 2), chain_keys(5, 4)
    for a, b in zip(few, many, strict=True):
        np.testing.assert_array_equal(jax.random.key_data(a), jax.random.key_data(b)[:2])
    data = np.concatenate([jax.random.key_data(k) for k in many])
    assert len(np.unique(data, axis=0)) == 12


@pytest.mark.usefixtures("short_chunks")
class TestStopRules:
    def test_max_simulations(self):
        run = draw(num_samples=1000, max_simulations=400)
        assert run.status.outcome is Outcome.MAX_SIMULATIONS
        assert 400 <= run.cost.simulator_calls <= 400 + 8 * 8  # the first chunk is of eight
        assert 0 < run.unconstrained.shape[1] < 1000

    def test_max_seconds(self):
        began = time.perf_counter()
        run = draw(num_samples=10**7, max_seconds=0.3)
        assert run.status.outcome is Outcome.MAX_SECONDS
        assert run.cost.seconds >= 0.3
        assert time.perf_counter() - began < 60

    def test_min_ess(self):
        run = draw(num_samples=100_000, min_ess=30)
        assert run.status.outcome is Outcome.MIN_ESS
        assert run.status.ok
        assert run.summary().to_dicts()[0]["ess bulk"] >= 30
        assert 100 <= run.unconstrained.shape[1] < 100_000

    def test_a_run_that_reaches_its_end_is_complete_whatever_the_rules(self):
        run = draw(num_samples=20, max_simulations=10**9, max_seconds=1e6, min_ess=1e6)
        assert run.status.outcome is Outcome.COMPLETE

    def test_a_stopped_run_can_go_on(self):
        stopped = draw(max_simulations=400)
        resumed = gb.resume(stopped, progress=False)
        assert resumed.status.outcome is Outcome.COMPLETE
        np.testing.assert_array_equal(resumed.unconstrained, draw().unconstrained)

    def test_resuming_does_not_change_the_run_that_stopped(self):
        stopped = draw(max_simulations=400)
        before = stopped.unconstrained.copy(), stopped.cost.simulator_calls, stopped.walk.step
        gb.resume(stopped, progress=False)
        np.testing.assert_array_equal(stopped.unconstrained, before[0])
        assert (stopped.cost.simulator_calls, stopped.walk.step) == before[1:]


class TestResume:
    def test_fewer_draws_than_asked_for_are_refused(self):
        with pytest.raises(ValueError, match=r"at least what was asked for first \(300\), got 10"):
            gb.resume(draw(), num_samples=10, progress=False)

    def test_a_run_read_from_a_file_holds_no_state(self, tmp_path):
        again = gb.load(draw().save(tmp_path / "run.nc"))
        with pytest.raises(ValueError, match="does not hold the sampler's state"):
            gb.resume(again, num_samples=400, progress=False)

    @pytest.mark.usefixtures("short_chunks")
    @pytest.mark.parametrize(
        "sampler",
        [SAMPLER, gb.PseudoMarginal(0.8, adapt=True), gb.AdSGLD(0.1, diffusion=1.0)],
        ids=["correlated", "adaptive", "adsgld"],
    )
    @pytest.mark.parametrize("steps", [15, 60], ids=["in warm-up", "in sampling"])
    def test_a_stored_run_goes_on_bit_for_bit(self, sampler, steps, tmp_path):
        settings = {"num_samples": 60, "num_warmup": 30, "num_chains": 2}
        whole = draw(sampler=sampler, **settings)
        calls = 2 * (2 + steps) * 8
        stopped = draw(sampler=sampler, store=tmp_path / "run", max_simulations=calls, **settings)
        assert stopped.status.outcome is Outcome.MAX_SIMULATIONS
        traces = TRACES[0]
        resumed = gb.resume(tmp_path / "run", small_target(), sampler, progress=False)
        assert TRACES[0] == traces + 1, "for the checks: what was compiled before goes on"
        assert resumed.status.outcome is Outcome.COMPLETE
        loaded = gb.load(tmp_path / "run")
        for run in (resumed, loaded):
            np.testing.assert_array_equal(run.unconstrained, whole.unconstrained)
            for name, value in whole.info.items():
                np.testing.assert_array_equal(run.info[name], value)
        assert loaded.cost.simulator_calls == whole.cost.simulator_calls
        assert loaded.status.outcome is Outcome.COMPLETE

    def test_the_sampler_of_a_stored_run_is_known_by_its_settings(self, tmp_path):
        stored = draw(num_samples=20, store=tmp_path / "run")
        longer = gb.resume(tmp_path / "run", small_target(), num_samples=30, progress=False)
        np.testing.assert_array_equal(longer.unconstrained[:, :20], stored.unconstrained)
        np.testing.assert_array_equal(longer.unconstrained, draw(num_samples=30).unconstrained)

    def test_a_stored_run_needs_its_target(self, tmp_path):
        draw(num_samples=5, store=tmp_path / "run")
        with pytest.raises(ValueError, match=r"give the target that .* was begun with"):
            gb.resume(tmp_path / "run", progress=False)

    def test_another_target_is_refused_unless_said_to_be_fine(self, tmp_path):
        draw(num_samples=5, store=tmp_path / "run")
        other = small_target(weight=2.0)
        with pytest.raises(ValueError, match=r"weight: 1\.0 then, 2.0 now"):
            gb.resume(tmp_path / "run", other, num_samples=8, progress=False)
        run = gb.resume(tmp_path / "run", other, num_samples=8, allow_changes=True, progress=False)
        assert run.unconstrained.shape == (1, 8, 1)

    def test_a_key_as_the_seed_survives_the_store(self, tmp_path):
        key = jax.random.fold_in(jax.random.key(1), 2)
        draw(num_samples=20, store=tmp_path / "run", seed=key)
        longer = gb.resume(tmp_path / "run", small_target(), num_samples=30, progress=False)
        whole = draw(num_samples=30, seed=key)
        np.testing.assert_array_equal(longer.unconstrained, whole.unconstrained)


class TestCost:
    @pytest.mark.parametrize("sampler", [SAMPLER, gb.AdSGLD(0.1, diffusion=1.0)])
    def test_simulator_calls_are_those_that_a_counting_simulator_sees(self, sampler):
        """The simulator calls back with its noise, so every draw it makes is counted by value."""
        seen = []

        def counting(theta, z):
            jax.debug.callback(lambda z: seen.append(np.size(z)), z)
            return theta["mean"] + z

        prior = gb.Prior(mean=dist.Normal(0.0, 1.0))
        problem = gb.Problem(prior, gb.Simulator(counting, noise=dist.Normal(0, 1)), OBSERVATIONS)
        target = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=5)
        run = draw(target, sampler, num_samples=7, num_warmup=2, thinning=2, start="prior")
        jax.effects_barrier()
        assert run.cost.simulator_calls == sum(seen)
        assert run.cost.steps == 2 + 2 * 7

    def test_the_cost_is_in_the_summary(self):
        run = draw(num_samples=10)
        assert f"{run.cost.simulator_calls:,} simulator calls" in str(run.summary())
        assert run.cost.simulator_calls == 8 * (2 + 10)
        assert run.cost.seconds >= run.cost.compile_seconds >= 0


SCRIPT = """
import sys
from tests.samplers.table import small_target
import genbayes as gb

from genbayes.runs import _sample
inner = _sample.reporter
def reporter(*args):
    bar = inner(*args)
    update = bar.update
    def told(done, info):
        print("step", done, flush=True)
        update(done, info)
    bar.update = told
    return bar
_sample.reporter = reporter

run = gb.sample(small_target(), gb.PseudoMarginal(0.8), num_samples=10**8, seed=0)
print("kept", run.unconstrained.shape[1], run.status.outcome.name, flush=True)
again = gb.resume(run, max_seconds=0.01, progress=False)
print("resumed", again.unconstrained.shape[1] > run.unconstrained.shape[1], flush=True)
"""


def test_ctrl_c_keeps_the_draws_and_says_how_to_go_on():
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=os.environ | {"PYTHONPATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert all(line.startswith("step") for line in lines), process.communicate(timeout=60)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    (kept,) = [line.split() for line in out.splitlines() if line.startswith("kept")]
    assert int(kept[1]) > 0
    assert kept[2] == "INTERRUPTED"
    assert "The run was interrupted from the keyboard." in error
    assert f"{int(kept[1]):,} draws of each chain are kept" in error
    assert "Go on with genbayes.resume(run)" in error
    assert "resumed True" in out


class TestInterruptible:
    @pytest.fixture(autouse=True)
    def ctrl_c_raises(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored under nohup
        yield
        signal.signal(signal.SIGINT, before)

    def test_the_first_ctrl_c_is_a_flag_and_the_second_works_as_ever(self):
        with interruptible() as asked:
            assert not asked
            signal.raise_signal(signal.SIGINT)
            assert asked
            with pytest.raises(KeyboardInterrupt):  # it carries no message
                signal.raise_signal(signal.SIGINT)

    def test_the_handler_is_put_back(self):
        before = signal.getsignal(signal.SIGINT)
        with interruptible():
            assert signal.getsignal(signal.SIGINT) is not before
        assert signal.getsignal(signal.SIGINT) is before

    def test_other_threads_may_sample(self):
        found = []
        thread = threading.Thread(target=lambda: found.append(draw(num_samples=5)))
        thread.start()
        thread.join()
        np.testing.assert_array_equal(found[0].unconstrained, draw(num_samples=5).unconstrained)


def test_provenance_tells_what_was_run():
    provenance = draw(num_samples=5, seed=11).provenance
    assert provenance["seed"] == 11
    assert provenance["precision"] == 32
    assert provenance["sampler"].startswith("PseudoMarginal(proposal_scale=0.8, groups=4")
    assert provenance["target"]["prior"] == {"mean": "Normal(loc=0.0, scale=1.0)"}
    assert provenance["target"]["observations_shape"] == [10]
    assert {"genbayes", "jax", "numpyro", "python"} <= provenance["versions"].keys()


def test_a_run_in_double_precision_stays_in_it():
    with jax.enable_x64(True):
        run = draw(num_samples=5)
    assert run.unconstrained.dtype == np.float64
    assert run.draws["mean"].dtype == np.float64
    assert run.info["log_density"].dtype == np.float64


def test_a_run_from_disk_asks_for_its_target(made_run):
    run = made_run()
    with pytest.raises(ValueError, match="was read from disk does not hold its target"):
        run.need_target()
    target = small_target()
    assert run.need_target(target) is target
