"""Black boxes in this process: what draws depend on, what becomes of failures."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import genbayes as gb
from genbayes.problem import Failures, SimulatorError, recording
from genbayes.runs._store_errors import CorruptedError

PRIOR = gb.Prior(mean=dist.Normal(0, 1))
Y = np.linspace(-1, 2, 6)


def normal(theta, rng):
    return rng.normal(theta["mean"], 1.0)


def flaky(theta, rng):
    if rng.random() < 0.02:
        raise ValueError("too cold")
    return rng.normal(theta["mean"], 1.0)


def rows(theta, rngs):
    return np.stack([rng.normal(m, 1.0) for m, rng in zip(theta["mean"], rngs, strict=True)])


def target(simulator, num_simulations=10, **settings):
    problem = gb.Problem(PRIOR, simulator, Y)
    return gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=num_simulations, **settings)


def sampled(simulator, num_samples=30, **settings):
    sampler = gb.PseudoMarginal(0.5)
    return gb.sample(
        target(simulator), sampler, num_samples=num_samples, progress=False, **settings
    )


def seeds_of(failures):
    return [failure.seed for failure in failures]


@pytest.fixture(scope="module")
def failing_run():
    return sampled(gb.BlackBox(flaky), 60, num_chains=2)


class TestDraws:
    def test_many_pairs_are_single_draws(self):
        simulator = gb.BlackBox(normal)
        seeds = simulator.draw_noise(jax.random.key(0), 5)
        many = simulator.simulate_many({"mean": np.arange(5.0)}, seeds)
        each = [
            simulator.simulate_from({"mean": jnp.asarray(float(i))}, seeds[i : i + 1])[0]
            for i in range(5)
        ]
        np.testing.assert_array_equal(many, np.stack(each))
        expected = [np.random.default_rng(int(s)).normal(i) for i, s in enumerate(seeds)]
        np.testing.assert_allclose(many, expected, rtol=1e-6)

    def test_batches_are_the_single_draws(self):
        key, theta = jax.random.key(1), {"mean": 0.3}
        one = gb.BlackBox(normal).simulate(key, theta, 7)
        batch = gb.BlackBox(rows, vectorized=True).simulate(key, theta, 7)
        np.testing.assert_array_equal(one, batch)

    def test_arrays_arrive_as_arrays(self):
        def fn(theta, rng):
            assert isinstance(theta["a"], float)
            assert theta["b"].shape == (2, 3)
            return theta["b"].sum() + theta["a"] + 0 * rng.random()

        theta = {"a": np.ones(4), "b": np.ones((4, 2, 3))}
        found = gb.BlackBox(fn).simulate_many(theta, np.arange(4))
        np.testing.assert_array_equal(found, [7.0] * 4)

    def test_precision(self, precision):
        draws = gb.BlackBox(normal).simulate(jax.random.key(0), {"mean": 0.0}, 2)
        assert draws.dtype == f"float{precision}"

    def test_rows_that_do_not_match_seeds_are_refused(self):
        with pytest.raises(ValueError, match=r"one row of parameters for each of 3 seeds.*\(2,\)"):
            gb.BlackBox(normal).simulate_many({"mean": np.zeros(2)}, [1, 2, 3])

    def test_another_executor_gives_the_same_simulator(self):
        box = gb.BlackBox(flaky, timeout=3.0, retries=2, on_failure="penalise", penalty=9.0)
        moved = box.on(None)
        assert moved.handling.timeout == 3.0
        assert moved.handling.retries == 2
        assert float(moved.handling.penalty) == 9.0


class TestFailures:
    def test_a_failed_draw_refuses_its_proposal_and_is_kept(self, failing_run):
        run = failing_run
        assert len(run.failures) > 5
        assert run.failures.estimates == 2 * 60 + 2 * 2
        assert run.failures.lost == run.failures.total == len(run.failures)
        first = run.failures[0]
        assert first.message == "ValueError: too cold"
        assert "in flaky" in first.details
        assert first.seconds >= 0
        with pytest.raises(ValueError, match="too cold"):
            flaky(first.theta, np.random.default_rng(first.seed))
        assert np.all(np.isfinite(run.info["log_density"]))

    def test_the_summary_tells_the_share(self, failing_run):
        assert f"{failing_run.failures.share:.2%} of 124 estimates" in str(failing_run.summary())
        assert "too cold" in failing_run.status.findings[0]

    def test_few_are_no_warning(self):
        failures = Failures(estimates=1000, lost=5.0, total=5)
        assert failures.share == 0.005
        run = sampled(gb.BlackBox(normal), 5)
        run.walk.failures = failures
        from genbayes.runs import Outcome
        from genbayes.runs._ending import status_of
        from genbayes.runs._sink import Sink

        status = status_of(run.walk, Sink(), run.sampler, Outcome.COMPLETE, [])
        assert status.ok
        assert "0.50% of 1,000 estimates" in status.remarks[0]

    def test_reject_aims_at_the_probability_of_no_failure(self):
        """With weight 0 the estimate is finite with probability (1 - p)^m: 1/4."""

        def half(theta, rng):
            return np.nan if rng.random() < 0.5 else theta["mean"]

        def finite(simulator):
            at = target(simulator, 2, weight=0.0)
            u, keys = jnp.zeros(1), jax.random.split(jax.random.key(0), 300)
            return np.mean([np.isfinite(at.log_density(u, at.draw_noise(key))) for key in keys])

        assert abs(finite(gb.BlackBox(half)) - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 300)
        assert finite(gb.BlackBox(half, on_failure="penalise", penalty=50.0)) == 1.0

    def test_penalise_puts_a_far_draw_in_its_place(self):
        box = gb.BlackBox(flaky, on_failure="penalise", penalty=77.0)
        failures = Failures()
        with recording(failures):
            draws = box.simulate(jax.random.key(0), {"mean": 0.0}, 400)
        assert int((np.asarray(draws) == 77.0).sum()) == failures.total > 0
        assert failures.lost == pytest.approx(failures.total / 400)
        kept = np.asarray(draws) != 77.0
        np.testing.assert_array_equal(
            np.asarray(draws)[kept],
            np.asarray(
                gb.BlackBox(normal_after_one).simulate(jax.random.key(0), {"mean": 0.0}, 400)
            )[kept],
        )

    def test_raise_says_where(self):
        with pytest.raises(SimulatorError, match=r"too cold \(at \{'mean': .*\}, seed \d+\)"):
            sampled(gb.BlackBox(flaky, on_failure="raise"), 100)

    def test_outside_of_a_run_failures_are_warned_of(self):
        with pytest.warns(RuntimeWarning, match=r"of 200 draws failed, the first .* too cold"):
            draws = gb.BlackBox(flaky).simulate(jax.random.key(0), {"mean": 0.0}, 200)
        assert 0 < np.isnan(draws).sum() < 20

    def test_a_draw_of_another_shape_is_a_failure(self):
        def fn(theta, rng):
            return np.zeros(2 if theta["mean"] < 1 else 3)

        with pytest.warns(RuntimeWarning, match=r"the draw has shape \(3,\), others have \(2,\)"):
            draws = gb.BlackBox(fn).simulate_many({"mean": np.array([0.0, 2.0])}, [1, 2])
        assert np.isnan(np.asarray(draws)).tolist() == [[False] * 2, [True] * 2]

    def test_a_bad_row_does_not_spoil_its_batch(self):
        def fn(theta, rngs):
            x = rows(theta, rngs)
            if np.any(theta["mean"] == 3):
                raise ValueError("three")
            return x

        box = gb.BlackBox(fn, vectorized=True)
        with pytest.warns(RuntimeWarning, match=r"1 of 5 draws failed.*three"):
            draws = np.asarray(box.simulate_many({"mean": np.arange(5.0)}, np.arange(5)))
        expected = gb.BlackBox(normal).simulate_many({"mean": np.arange(5.0)}, np.arange(5))
        np.testing.assert_array_equal(np.isnan(draws), [False, False, False, True, False])
        np.testing.assert_array_equal(draws[[0, 1, 2, 4]], np.asarray(expected)[[0, 1, 2, 4]])

    def test_retries_use_the_same_seed(self):
        seen: list[float] = []

        def fn(theta, rng):
            seen.append(rng.random())
            if len(seen) < 3:
                raise OSError("disk")
            return seen[-1]

        draws = gb.BlackBox(fn, retries=2).simulate(jax.random.key(0), {"mean": 0.0}, 1)
        assert len(seen) == 3
        assert len(set(seen)) == 1
        assert np.isfinite(draws).all()

    def test_a_run_that_fails_too_often_stops_and_says_why(self):
        def half(theta, rng):
            if theta["mean"] > 0:
                raise RuntimeError("too hot")
            return rng.normal()

        sampler = gb.PseudoMarginal(5.0)
        run = gb.sample(target(gb.BlackBox(half)), sampler, num_samples=500, progress=False)
        assert run.status.outcome.name == "FAILURES"
        assert run.unconstrained.shape[1] < 100
        assert "too hot (at {'mean'" in run.status.findings[0]
        allowed = gb.BlackBox(half, max_failures=1)
        more = gb.resume(
            run, target(allowed), num_samples=500, max_simulations=3000, progress=False
        )
        assert more.unconstrained.shape[1] >= run.unconstrained.shape[1]

    def test_a_single_failure_settles_an_estimate(self):
        calls: list[int] = []

        def fn(theta, rng):
            calls.append(1)
            if len(calls) > 12:
                raise ValueError("no more")
            return rng.normal()

        at = target(gb.BlackBox(fn), 10)
        with recording(Failures()):
            for t in range(3):
                at.log_density(jnp.zeros(1), at.draw_noise(jax.random.key(t)))
        assert len(calls) == 1 + 10 + 2 + 1

    def test_kept_to_a_limit(self, monkeypatch):
        monkeypatch.setattr("genbayes.problem._failures.MOST_KEPT", 2)
        failures = Failures()
        with recording(failures):
            gb.BlackBox(flaky, on_failure="penalise", penalty=0.0).simulate(
                jax.random.key(0), {"mean": 0.0}, 400
            )
        assert len(failures) == 2 < failures.total


def normal_after_one(theta, rng):
    rng.random()
    return rng.normal(theta["mean"], 1.0)


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"on_failure": "ignore"}, "on_failure must be one of 'reject', 'raise', 'penalise'"),
            ({"timeout": 0.0}, "timeout must be a finite number above 0"),
            ({"retries": -1}, "retries must be at least 0"),
            ({"on_failure": "penalise"}, "belong together"),
            ({"penalty": 3.0}, "belong together"),
            ({"on_failure": "penalise", "penalty": np.nan}, "penalty must be finite"),
            ({"max_failures": 0}, "max_failures must lie strictly between 0 and 1"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(ValueError, match=message):
            gb.BlackBox(normal, **settings)

    def test_what_is_no_executor(self):
        with pytest.raises(TypeError, match=r"executor must be a concurrent.futures.Executor"):
            gb.BlackBox(normal, executor=4)

    def test_a_mistake_in_the_code_is_no_failure(self):
        with pytest.raises(ValueError, match=r"KeyError: 'maen'.*names \['mean'\]"):
            gb.Problem(PRIOR, gb.BlackBox(lambda theta, rng: theta["maen"]), Y)

    def test_a_simulator_that_never_works(self):
        def broken(theta, rng):
            raise RuntimeError("no licence")

        with pytest.raises(ValueError, match=r"each of 10 draws from the prior.*no licence"):
            gb.Problem(PRIOR, gb.BlackBox(broken), Y)

    def test_a_simulator_that_fails_now_and_then_is_taken(self):
        def fn(theta, rng):
            if theta["mean"] < 0.5:
                raise RuntimeError("too low")
            return rng.normal()

        assert gb.Problem(PRIOR, gb.BlackBox(fn), Y).num_observations == 6

    def test_a_penalty_of_the_wrong_shape(self):
        box = gb.BlackBox(flaky, on_failure="penalise", penalty=[1.0, 2.0])
        with pytest.raises(ValueError, match=r"of the shape of a draw, \(\); got shape \(2,\)"):
            box.simulate(jax.random.key(0), {"mean": 0.0}, 5)


class TestRuns:
    def test_failures_survive_a_file(self, failing_run, tmp_path):
        again = gb.load(failing_run.save(tmp_path / "run.nc"))
        assert list(again.failures) == list(failing_run.failures)
        assert again.failures.share == failing_run.failures.share
        group = failing_run.to_xarray()["failures"]
        assert group["theta_mean"].shape == group["seconds"].shape == (len(again.failures),)

    def test_failures_survive_a_folder_and_come_once(self, failing_run, tmp_path):
        box = gb.BlackBox(flaky)
        part = sampled(box, 60, num_chains=2, store=tmp_path / "run", max_simulations=500)
        assert part.status.outcome.name == "MAX_SIMULATIONS"
        with (tmp_path / "run" / "failures.jsonl").open("a") as file:
            file.write('{"half a line that a crash left')
        whole = gb.resume(tmp_path / "run", target(box), progress=False)
        np.testing.assert_array_equal(whole.unconstrained, failing_run.unconstrained)
        assert seeds_of(whole.failures) == seeds_of(failing_run.failures)
        loaded = gb.load(tmp_path / "run")
        assert list(loaded.failures) == list(whole.failures)
        assert loaded.failures.counts() == failing_run.failures.counts()
        gb.runs.RunStore.open(tmp_path / "run").verify()

    def test_damaged_failures_are_told(self, tmp_path):
        sampled(gb.BlackBox(flaky), 60, store=tmp_path / "run")
        path = tmp_path / "run" / "failures.jsonl"
        path.write_text(path.read_text().replace("too cold", "too hot!"))
        with pytest.raises(CorruptedError, match=r"failures\.jsonl does not match its checksum"):
            gb.load(tmp_path / "run")
        with pytest.raises(CorruptedError, match=r"failures\.jsonl does not match its checksum"):
            gb.runs.RunStore.open(tmp_path / "run").verify()
        assert gb.load(tmp_path / "run", salvage=True).unconstrained.shape == (1, 60, 1)

    def test_what_does_not_change_draws_may_change_when_resuming(self, tmp_path):
        sampled(gb.BlackBox(normal), 20, store=tmp_path / "run", max_simulations=100)
        other = gb.BlackBox(normal, retries=3, max_failures=0.9)
        assert gb.resume(tmp_path / "run", target(other), progress=False).status.outcome
        penal = gb.BlackBox(normal, on_failure="penalise", penalty=9.0)
        with pytest.raises(ValueError, match=r"simulator: .* then, .* now"):
            gb.resume(tmp_path / "run", target(penal), num_samples=30, progress=False)

    def test_a_heartbeat_when_nothing_is_accepted(self, monkeypatch, capsys):
        monkeypatch.setattr("genbayes.runs._heartbeat.QUIET_SECONDS", 0.002)
        box = gb.BlackBox(lambda theta, rng: rng.normal() * (1.0 if theta["mean"] < 5 else np.nan))
        sampler = gb.PseudoMarginal(1e6)
        gb.sample(
            target(box.on(None)), sampler, num_samples=10_000, max_seconds=1.0, start="zero",
        )  # fmt: skip
        said = capsys.readouterr().err
        assert "Nothing accepted for" in said
        assert "estimates made" in said
