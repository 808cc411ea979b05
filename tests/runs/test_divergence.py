"""Begin again with half the step size, where steps are refused."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.samplers.table import small_target
from tests.support.problems import OBSERVATIONS, PlainEnergy

import genbayes as gb
from genbayes.runs import Outcome


def cliff(theta, z):
    """Fails where a large step would go."""
    return jnp.where(jnp.abs(theta["mean"]) > 4.0, jnp.nan, theta["mean"] + z)


@pytest.fixture(scope="module")
def target() -> gb.ScorePosterior:
    problem = gb.Problem(
        gb.Prior(mean=dist.Normal(0.0, 1.0)),
        gb.Simulator(cliff, noise=dist.Normal(0.0, 1.0)),
        OBSERVATIONS,
    )
    return gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)


def draw(target: gb.ScorePosterior, step_size: float, **options) -> gb.Run:
    sampler = gb.SGLD(step_size, noise="iid")
    plan = {"num_samples": 200, "seed": 0, "start": "zero", "progress": False}
    return gb.sample(target, sampler, **plan | options)


def test_the_run_begins_again_with_half_the_step_until_no_step_is_refused(target, tmp_path):
    run = draw(target, 6.4, on_divergence="halve", store=tmp_path / "run")
    assert run.status.outcome is Outcome.COMPLETE
    assert not run.info["refused"].any()
    assert isinstance(run.sampler, gb.SGLD)
    halvings = np.log2(6.4 / run.sampler.step_size)
    assert halvings == round(halvings)
    assert halvings >= 1
    (remark,) = run.status.remarks
    assert remark == (
        f"Begun again with step size {run.sampler.step_size:g}, since the estimate was not finite."
    )
    same = draw(target, run.sampler.step_size)
    np.testing.assert_array_equal(run.unconstrained, same.unconstrained)
    np.testing.assert_array_equal(gb.load(tmp_path / "run").unconstrained, same.unconstrained)


def test_the_last_step_counts_as_any_other():
    """A run of one chunk, refused only at its end."""

    def fails_below(theta, z):
        return jnp.where(theta["mean"] < -0.2, jnp.nan, theta["mean"] + z)

    problem = gb.Problem(
        gb.Prior(mean=dist.Normal(0.0, 1.0)),
        gb.Simulator(fails_below, noise=dist.Normal(0.0, 1.0)),
        OBSERVATIONS,
    )
    target = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)
    refused = [
        draw(target, 0.5, num_samples=n, start={"mean": 0.5}).info["refused"][0]
        for n in range(1, 9)
    ]
    (first,) = (n for n, flags in enumerate(refused, 1) if flags[-1] and flags.sum() == 1)
    run = draw(target, 0.5, num_samples=first, start={"mean": 0.5}, on_divergence="halve")
    assert not run.info["refused"].any()
    assert run.sampler.step_size < 0.5
    shorter = draw(target, 0.5, num_samples=first - 1, start={"mean": 0.5}, on_divergence="halve")
    resumed = gb.resume(shorter, num_samples=first, progress=False)
    assert (shorter.status.outcome, resumed.status.outcome) == (Outcome.COMPLETE, Outcome.HALVED)
    np.testing.assert_array_equal(resumed.unconstrained[:, :-1], shorter.unconstrained)
    (finding, *_) = resumed.status.findings
    assert finding == (
        "A resumed run keeps what was drawn and does not begin again by itself, though the "
        "estimate was not finite: draw it anew with step size 0.25."
    )


def test_by_default_such_steps_are_refused_and_counted(target):
    run = draw(target, 6.4)
    assert run.info["refused"].any()
    assert any("of the steps were refused" in finding for finding in run.status.findings)


def test_what_never_works_is_an_error():
    def never_off_the_origin(theta, z):
        return jnp.where(theta["mean"] == 0.0, z, jnp.nan)

    problem = gb.Problem(
        gb.Prior(mean=dist.Normal(0.0, 1.0)),
        gb.Simulator(never_off_the_origin, noise=dist.Normal(0.0, 1.0)),
        OBSERVATIONS,
    )
    broken = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)
    with pytest.raises(RuntimeError, match="after halving the step size 20 times"):
        draw(broken, 1.0, on_divergence="halve")


@pytest.mark.parametrize("sampler", [gb.PseudoMarginal(0.5), gb.FrozenNUTS()])
def test_samplers_without_a_step_size_are_refused_at_once(sampler):
    match = "halves the step size of a stochastic-gradient sampler, and .* has none"
    with pytest.raises(ValueError, match=match):
        gb.sample(
            small_target(), sampler, num_samples=5, num_warmup=10, on_divergence="halve",
            progress=False,
        )  # fmt: skip


def test_a_thermostat_that_explodes_is_named_as_the_reason():
    target = small_target(weight=1000.0)
    run = gb.sample(
        target, gb.AdSGLD(4.0, diffusion=1.0, integrator="euler"), num_samples=60, seed=0,
        on_divergence="halve", progress=False,
    )  # fmt: skip
    assert run.status.remarks[0].endswith("since the thermostat exploded.")
    assert not run.info["exploded"].any()
