"""Gradients that a run keeps are those at its draws, and nowhere else."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support.problems import OBSERVATIONS

import genbayes as gb

SAMPLERS = {
    "badodab": gb.AdSGLD(0.15, diffusion=1.0),
    "euler": gb.AdSGLD(0.15, diffusion=1.0, integrator="euler"),
    "automatic diffusion": gb.AdSGLD(0.15),
    "sgld": gb.SGLD(0.05, decay=0.3),
    "psgld": gb.PSGLD(0.05),
    "sghmc": gb.SGHMC(0.15, friction=1.0),
}
PLAN: dict[str, Any] = {
    "num_samples": 30,
    "num_warmup": 10,
    "num_chains": 2,
    "seed": 1,
    "progress": False,
}


@cache  # one target, so that each program is compiled once
def walled_target() -> gb.ScorePosterior:
    """Known exactly: a normal likelihood, and a wall beyond which nothing is finite."""

    def log_score(theta, y):
        value = dist.Normal(theta["mean"], jnp.exp(theta["log_sd"])).log_prob(y)
        return jnp.where(theta["mean"] > 1.0, jnp.nan, value)

    prior = gb.Prior(mean=dist.Normal(0.0, 1.0), log_sd=dist.Normal(0.0, 1.0))
    return gb.ScorePosterior(gb.Problem(prior, None, OBSERVATIONS), gb.LogScore(log_score))


@cache
def draw(name: str, **options) -> gb.Run:
    options = {"keep_gradients": True, "start": "zero"} | options
    return gb.sample(walled_target(), SAMPLERS[name], **PLAN | options)


def exact_gradients(run: gb.Run) -> np.ndarray:
    target = walled_target()
    noise = target.draw_noise(jax.random.key(0))
    grad = jax.grad(lambda u: target.log_density(u, noise))
    return np.asarray(jax.jit(jax.vmap(jax.vmap(grad)))(jnp.asarray(run.unconstrained)))


@pytest.mark.parametrize("name", SAMPLERS)
def test_each_gradient_is_the_one_at_its_draw(name):
    """Through refused steps too, after which the chain stands where it stood."""
    run = draw(name)
    assert run.info["refused"].any()
    kept, exact = run.info["gradient"], exact_gradients(run)
    assert kept.shape == (2, 30, 2)
    np.testing.assert_allclose(kept, exact, rtol=1e-4, atol=1e-4)
    # one step late, as samplers that evaluate before they move would have it
    assert np.max(np.abs(kept[:, 1:] - exact[:, :-1])) > 0.1


def test_thinning_keeps_the_gradients_of_the_kept_draws():
    whole, thinned = draw("sgld"), draw("sgld", num_samples=10, thinning=3)
    found = thinned.info["gradient"]
    np.testing.assert_allclose(found, whole.info["gradient"][:, 2::3], rtol=1e-4, atol=1e-4)


def test_no_gradients_are_kept_unasked():
    plain = draw("sgld", keep_gradients=False)
    assert "gradient" not in plain.info
    np.testing.assert_array_equal(plain.unconstrained, draw("sgld").unconstrained)
    with pytest.raises(ValueError, match=r"Sample again with keep_gradients=True \(AdSGLD, SGLD"):
        gb.diagnostics.ksd(plain, gradients="met")


def test_stored_gradients_are_resumed_bit_for_bit(tmp_path):
    whole, target = draw("automatic diffusion"), walled_target()
    sampler = SAMPLERS["automatic diffusion"]
    options = PLAN | {"num_samples": 12, "start": "zero", "store": tmp_path / "run"}
    parts = gb.sample(target, sampler, keep_gradients=True, **options)
    assert parts.info["gradient"].shape == (2, 12, 2)
    gb.resume(tmp_path / "run", target, num_samples=30, progress=False)
    stored = gb.load(tmp_path / "run")
    again = gb.load(stored.save(tmp_path / "run.nc"))
    for run in (stored, again):
        np.testing.assert_array_equal(np.asarray(run.info["gradient"]), whole.info["gradient"])
        found = gb.diagnostics.ksd(run, gradients="met", statistic="U")
        assert found.settings["gradients"] == "met"
        fresh = gb.diagnostics.ksd(run, target=target, statistic="U")
        assert found.value == pytest.approx(fresh.value, rel=1e-3)
    header = gb.runs.export(again, tmp_path / "run.csv", infos=True).read_text().splitlines()[0]
    assert "gradient[0],gradient[1]" in header


def test_a_sampler_that_meets_no_gradients_is_refused():
    match = r"keep_gradients=True keeps the estimate .* and NUTS meets none"
    with pytest.raises(ValueError, match=match):
        gb.sample(walled_target(), gb.NUTS(), keep_gradients=True, **PLAN)
