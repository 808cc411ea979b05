"""adSGLD: both integrators against NumPy, bias against the step size, explosions, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import digamma, polygamma
from tests.samplers.table import small_target
from tests.scores.cases import SCORES
from tests.support.problems import OBSERVATIONS, PlainEnergy, location_problem

import genbayes as gb
from genbayes._convergence import ess_mean
from genbayes.runs import Outcome

STEP, DIFFUSION = 0.07, 1.3


def gradient_of_potential(u: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Of U = u^2 / 2 + sum_i S_hat for N(u, 1) under the energy score: signs, by hand."""
    signs = np.sign(u + z[:, None] - OBSERVATIONS[None, :])
    return u + 2 * np.sum(np.mean(signs, axis=0))


def euler(u, p, xi, z_before, push):
    """Algorithm 1 of the paper, line by line (one parameter)."""
    p = p - xi * p * STEP - gradient_of_potential(u, z_before) * STEP
    p = p + np.sqrt(2 * DIFFUSION) * np.sqrt(STEP) * push
    u = u + p * STEP
    xi = xi + (p @ p / p.size - 1) * STEP
    return u, p, xi


def badodab(u, p, xi, z_before, z_after, push):
    """Leimkuhler and Shang (2016), letter by letter: B A D O D A B."""
    h = STEP
    p = p - h / 2 * gradient_of_potential(u, z_before)
    u = u + h / 2 * p
    xi = xi + h / 2 * (p @ p / p.size - 1)
    p = np.exp(-xi * h) * p + np.sqrt(DIFFUSION * (1 - np.exp(-2 * xi * h)) / xi) * push
    xi = xi + h / 2 * (p @ p / p.size - 1)
    u = u + h / 2 * p
    p = p - h / 2 * gradient_of_potential(u, z_after)
    return u, p, xi


@pytest.mark.parametrize("integrator", ["euler", "badodab"])
def test_steps_equal_the_algorithm_in_numpy(integrator):
    with jax.enable_x64(True):
        target = small_target()
        sampler = gb.AdSGLD(STEP, diffusion=DIFFUSION, integrator=integrator, noise="iid")
        state = sampler.init(jax.random.key(0), target, jnp.array([0.4]))
        step = eqx.filter_jit(lambda key, state: sampler.step(key, target, state))
        # the gradient at the start belongs to the noise that init drew
        key_first = jax.random.fold_in(jax.random.split(jax.random.key(0))[1], 0)
        z = np.asarray(target.draw_noise(key_first).simulator)
        u, p, xi = (np.asarray(x, float) for x in (state.u, state.momentum, state.thermostat))
        assert float(xi) == DIFFUSION
        for t in range(60):
            key = jax.random.fold_in(jax.random.key(1), t)
            state, info = step(key, state)
            key_noise, key_diffusion, _ = jax.random.split(key, 3)
            fresh = np.asarray(target.draw_noise(key_noise).simulator)
            push = np.asarray(jax.random.normal(key_diffusion, (1,)))
            if integrator == "euler":
                u, p, xi = euler(u, p, xi, z, push)
            else:
                u, p, xi = badodab(u, p, xi, z, fresh, push)
            z = fresh
            for ours, numpy in ((state.u, u), (state.momentum, p), (state.thermostat, xi)):
                np.testing.assert_allclose(ours, numpy, rtol=1e-10)
            np.testing.assert_allclose(info.gradient_norm, abs(gradient_of_potential(u, z)[0]))
            np.testing.assert_allclose(info.kinetic, p @ p)
            assert not info.refused


def test_the_exact_ornstein_uhlenbeck_part_has_its_limit_at_no_friction():
    sampler = gb.AdSGLD(0.1, diffusion=2.0)
    target = small_target()
    state = sampler.init(jax.random.key(0), target, jnp.zeros(1))
    moved = [
        sampler.step(jax.random.key(1), target, state._replace(thermostat=jnp.asarray(xi)))[0]
        for xi in (-2e-3, 0.0, 2e-3)
    ]
    momenta = np.array([float(s.momentum[0]) for s in moved])
    assert np.all(np.isfinite(momenta))
    np.testing.assert_allclose(momenta[1], momenta[[0, 2]].mean(), rtol=1e-4)


class TestBiasAgainstStepSize:
    """The prior of log X with X ~ Gamma(3, 2), whose skewness no integrator gets for nothing."""

    MEAN, VARIANCE = digamma(3.0) - np.log(2.0), polygamma(1, 3.0)

    def second_moment_bias(self, integrator: str, step_size: float, seconds: float) -> tuple:
        simulator = gb.Simulator(lambda t, z: t["x"] + z, noise=dist.Normal(0.0, 1.0))
        problem = gb.Problem(gb.Prior(x=dist.Gamma(3.0, 2.0)), simulator, OBSERVATIONS)
        target = gb.ScorePosterior(problem, PlainEnergy(), weight=0.0, num_simulations=2)
        run = gb.sample(
            target, gb.AdSGLD(step_size, diffusion=1.0, integrator=integrator),
            num_samples=int(seconds / step_size / 10), num_chains=10, num_warmup=1000, seed=0,
            progress=False,
        )  # fmt: skip
        x = (run.unconstrained[..., 0].astype(float) - self.MEAN) ** 2
        return x.mean() / self.VARIANCE - 1, x.std() / np.sqrt(ess_mean(x)) / self.VARIANCE

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("integrator", "steps", "ratio", "seconds"),
        [("euler", (0.2, 0.1), 2.0, 1e6), ("badodab", (0.4, 0.2), 4.0, 6e6)],
        ids=["euler: first order", "badodab: second order"],
    )
    def test_it_shrinks_at_the_expected_order(self, integrator, steps, ratio, seconds):
        (coarse, error_coarse), (fine, error_fine) = (
            self.second_moment_bias(integrator, step, seconds) for step in steps
        )
        assert abs(coarse) > 8 * error_coarse, "no bias to see"
        found, error = (
            coarse / fine,
            4 * abs(coarse / fine) * np.hypot(error_coarse / coarse, error_fine / fine),
        )
        assert abs(found - ratio) < error + 0.25 * ratio, (coarse, fine, error)

    @pytest.mark.slow
    def test_the_splitting_is_ahead_at_the_same_step(self):
        euler, error = self.second_moment_bias("euler", 0.2, 3e4)
        splitting, _ = self.second_moment_bias("badodab", 0.2, 3e4)
        assert abs(euler) > 5 * error
        assert abs(splitting) < abs(euler) / 3


class TestExplosion:
    def test_a_step_that_explodes_is_not_taken(self):
        target = small_target()
        sampler = gb.AdSGLD(0.1, diffusion=1.0, integrator="euler")
        state = sampler.init(jax.random.key(0), target, jnp.zeros(1))
        wild = state._replace(momentum=jnp.array([1e5]), thermostat=jnp.array(50.0))
        after, info = sampler.step(jax.random.key(1), target, wild)
        assert bool(info.exploded)
        assert bool(info.refused)
        np.testing.assert_array_equal(after.u, wild.u)
        assert float(after.thermostat) == 1.0
        assert abs(float(after.momentum[0])) < 6
        assert np.isfinite(float(info.kinetic))

    def test_a_friction_that_would_freeze_the_chain_begins_anew(self):
        """It falls by at most 1 a unit of time: from 10 000, at this step, for 100 000 steps."""
        target, sampler = small_target(), gb.AdSGLD(0.1, diffusion=1.0)
        state = sampler.init(jax.random.key(0), target, jnp.zeros(1))
        for friction, exploded in ((90.0, False), (1e4, True)):
            before = state._replace(momentum=jnp.ones(1), thermostat=jnp.array(friction))
            after, info = sampler.step(jax.random.key(1), target, before)
            assert bool(info.exploded) == exploded
            assert not bool(info.refused)
            assert float(after.u[0]) != 0.0, "the step is taken"
            assert (float(after.thermostat) == 1.0) == exploded

    @pytest.mark.parametrize(
        ("integrator", "step_size"),
        # the splitting damps what it kicks: 0.3 keeps every number finite, and the chain nowhere
        [("euler", 2.0), ("badodab", 2.0), ("badodab", 0.3)],
    )
    def test_a_run_with_far_too_large_a_step_says_so_and_stays_finite(self, integrator, step_size):
        target = gb.ScorePosterior(
            location_problem(), PlainEnergy(), weight=100.0, num_simulations=8
        )
        run = gb.sample(
            target, gb.AdSGLD(step_size, diffusion=1.0, integrator=integrator), num_samples=3000,
            num_chains=2, seed=0, progress=False,
        )  # fmt: skip
        assert np.all(np.isfinite(run.unconstrained))
        assert all(np.all(np.isfinite(x)) for x in run.info.values())
        assert not run.status.ok
        assert any("thermostat exploded" in finding for finding in run.status.findings)


def cliff(theta, z):
    return jnp.where(theta["mean"] > 1.0, jnp.nan, theta["mean"] + z)


def broken_but_at(theta, z):
    return jnp.where(jnp.abs(theta["mean"] - 0.5) < 1e-4, theta["mean"] + z, jnp.inf)


def target_of(fn, **options) -> gb.ScorePosterior:
    problem = gb.Problem(
        gb.Prior(mean=dist.Normal(0.0, 1.0)),
        gb.Simulator(fn, noise=dist.Normal(0.0, 1.0)),
        OBSERVATIONS,
    )
    return gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8, **options)


@pytest.fixture(scope="module")
def refusing() -> gb.Run:
    return gb.sample(
        target_of(cliff), gb.AdSGLD(0.1, diffusion=1.0), num_samples=3000, num_chains=2, seed=0,
        start={"mean": 0.5}, progress=False,
    )  # fmt: skip


class TestRefusedSteps:
    def test_they_are_counted_and_the_position_is_kept(self, refusing):
        refused, u = refusing.info["refused"], refusing.unconstrained[..., 0]
        assert refused.mean() > 0.02
        np.testing.assert_array_equal(np.diff(u, axis=1) == 0, refused[:, 1:])

    def test_the_chain_never_leaves_the_part_that_works(self, refusing):
        assert np.all(refusing.draws["mean"] <= 1.0)
        assert all(np.all(np.isfinite(x)) for x in refusing.info.values())

    def test_the_status_tells(self, refusing):
        (finding,) = refusing.status.findings
        assert f"{refusing.info['refused'].mean():.1%} of the steps were refused" in finding
        assert refusing.status.outcome is Outcome.COMPLETE

    def test_too_many_end_the_run_and_name_the_place(self):
        run = gb.sample(
            target_of(broken_but_at), gb.AdSGLD(0.1, diffusion=1.0), num_samples=50_000, seed=0,
            start={"mean": 0.5}, progress=False,
        )  # fmt: skip
        assert run.status.outcome is Outcome.DIVERGED
        assert run.unconstrained.shape[1] < 50_000
        assert "the chains stand at {'mean': [0.5" in run.status.findings[0]
        assert "Try a smaller step size" in run.status.findings[0]
        np.testing.assert_allclose(run.draws["mean"], 0.5, atol=1.1e-4)


class TestClipping:
    def test_long_gradients_are_shortened_and_counted(self):
        sampler, target = gb.AdSGLD(0.05, diffusion=1.0, clip=2.0), small_target()
        run = gb.sample(target, sampler, num_samples=500, start={"mean": 4.0}, progress=False)
        norms, clipped = run.info["gradient_norm"], run.info["clipped"]
        np.testing.assert_array_equal(clipped, norms > 2.0)
        assert 0.01 < clipped.mean() < 1
        assert any("gradients were clipped" in finding for finding in run.status.findings)

    def test_short_ones_are_left_alone(self):
        plain, clipping = (
            gb.sample(
                small_target(), gb.AdSGLD(0.05, diffusion=1.0, clip=clip), num_samples=50,
                start="zero", progress=False,
            ).unconstrained
            for clip in (None, 1e6)
        )  # fmt: skip
        np.testing.assert_allclose(plain, clipping, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"step_size": 0.0}, ValueError, "step_size must be a finite number above 0, got 0.0"),
        ({"step_size": -0.1}, ValueError, "step_size must be a finite number above 0, got -0.1"),
        ({"step_size": float("nan")}, ValueError, "step_size must be a finite number above 0"),
        ({"step_size": float("inf")}, ValueError, "step_size must be a finite number above 0"),
        ({"step_size": "0.1"}, TypeError, r"step_size must be a number, got '0.1' \(str\)"),
        ({"step_size": True}, TypeError, "step_size must be a number, got True"),
        ({"diffusion": -1.0}, ValueError, "diffusion must be a finite number, 0 or above"),
        ({"integrator": "leapfrog"}, ValueError, "integrator must be one of 'badodab', 'euler'"),
        ({"clip": 0.0}, ValueError, "clip must be a finite number above 0"),
    ],
)
def test_bad_settings_are_refused(settings, error, match):
    with pytest.raises(error, match=match):
        gb.AdSGLD(**{"step_size": 0.1, "diffusion": 1.0} | settings)


@pytest.mark.parametrize("name", [name for name, make in SCORES.items() if not make().unbiased])
def test_every_rule_with_biased_gradients_is_refused(name):
    """By each sampler that follows fresh gradients; the message says what fits."""
    prior = gb.Prior(mean=dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    noise = dist.Normal(0.0, 1.0).expand([2]).to_event(1)
    problem = gb.Problem(
        prior, gb.Simulator(lambda t, z: t["mean"] + z, noise=noise), np.ones((3, 2))
    )
    target = gb.ScorePosterior(problem, SCORES[name](), num_simulations=20)
    for sampler in (gb.AdSGLD(0.1), gb.SGLD(0.1), gb.PSGLD(0.1), gb.SGHMC(0.1, friction=1.0)):
        match = rf"{type(sampler).__name__} needs unbiased gradient.*Use PseudoMarginal\(\).*allow_"
        with pytest.raises(ValueError, match=match):
            gb.sample(target, sampler, num_samples=5, num_warmup=10, progress=False)
    gb.AdSGLD(0.1, allow_biased_gradients=True).check(target)
    gb.PseudoMarginal().check(target)


class BiasedEnergy(PlainEnergy):
    unbiased = False


def test_a_score_with_biased_gradients_is_refused_unless_accepted():
    target = gb.ScorePosterior(location_problem(), BiasedEnergy(), num_simulations=8)
    match = "AdSGLD needs unbiased gradient estimates, and those of BiasedEnergy are biased"
    with pytest.raises(ValueError, match=match):
        gb.sample(target, gb.AdSGLD(0.1, diffusion=1.0), num_samples=5, progress=False)
    accepting = gb.AdSGLD(0.1, diffusion=1.0, allow_biased_gradients=True)
    assert gb.sample(target, accepting, num_samples=5, progress=False).status.ok
