"""A tuner in a sampler's field is asked once, before the run, and what it said is kept."""

import equinox as eqx
import numpy as np
import pytest
from tests.support.plain import prior_target

import genbayes as gb
from genbayes.samplers import Tuned


class Asked(eqx.Module):
    """A tuner that remembers what it was asked."""

    calls: list
    arms: tuple = ()

    def tune(self, key, target, sampler, setting, u):
        self.calls.append((setting, np.asarray(u).tolist(), type(sampler).__name__))
        evidence = {"tuner": "Asked"} | ({"arms": self.arms} if self.arms else {})
        return Tuned(0.25, "Step size 0.25, as always.", evidence, 70, 3.0)


START = {"a": 0.5, "b": -1.0}


def drawn(sampler, **options):
    settings = {"num_samples": 30, "start": START, "progress": False} | options
    return gb.sample(prior_target(), sampler, **settings)


def test_the_run_is_that_of_the_tuned_value_and_says_so():
    tuner = Asked([])
    run = drawn(gb.SGLD(step_size=tuner))
    assert tuner.calls == [("step_size", [0.5, -1.0], "SGLD")]
    plain = drawn(gb.SGLD(0.25))
    np.testing.assert_array_equal(run.unconstrained, plain.unconstrained)
    assert run.sampler == plain.sampler
    assert run.provenance["sampler"] == plain.provenance["sampler"]
    assert run.provenance["tuning"]["step_size"] == {
        "value": 0.25, "seconds": 3.0, "tuner": "Asked",
    }  # fmt: skip
    assert "tuning" not in plain.provenance
    assert "Step size 0.25, as always." in str(run.summary())
    assert run.cost.simulator_calls == plain.cost.simulator_calls + 70
    assert run.cost.seconds > 3


def test_a_stored_run_is_not_tuned_again(tmp_path):
    tuner = Asked([])
    whole = drawn(gb.SGLD(0.25))
    run = drawn(gb.SGLD(step_size=tuner), num_samples=10, store=tmp_path / "run")
    stored = gb.load(tmp_path / "run")
    assert stored.provenance["tuning"]["step_size"]["value"] == 0.25
    assert "as always" in str(stored.summary())
    run = gb.resume(
        tmp_path / "run", prior_target(), gb.SGLD(tuner), num_samples=20, progress=False
    )
    run = gb.resume(tmp_path / "run", prior_target(), num_samples=30, progress=False)
    np.testing.assert_array_equal(run.unconstrained, whole.unconstrained)
    assert len(tuner.calls) == 1


def test_an_arm_that_diverged_can_be_stored(tmp_path):
    tuner = Asked([], ({"step size": 9.0, "KSD": np.inf}, {"step size": 0.25, "KSD": 0.5}))
    drawn(gb.SGLD(step_size=tuner), num_samples=10, store=tmp_path / "run")
    arms = gb.load(tmp_path / "run").provenance["tuning"]["step_size"]["arms"]
    assert arms == [{"step size": 9.0, "KSD": None}, {"step size": 0.25, "KSD": 0.5}]


def test_one_setting_at_a_time():
    sampler = eqx.tree_at(lambda s: s.decay, gb.SGLD(Asked([])), Asked([]))
    with pytest.raises(ValueError, match="a tuner for each of step_size, decay"):
        drawn(sampler)


def test_what_is_no_tuner_is_refused():
    with pytest.raises(TypeError, match="step_size must be a number, got 'auto'"):
        gb.AdSGLD(step_size="auto")
