"""SGLD, pSGLD and SGHMC: each against NumPy letter by letter, and their bias against the step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.samplers.table import small_target
from tests.support.problems import OBSERVATIONS, PlainEnergy, location_problem

import genbayes as gb
from genbayes._convergence import ess_mean

STEP = 0.07


def gradient_of_potential(u: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Of U = u^2 / 2 + sum_i S_hat for N(u, 1) under the energy score: signs, by hand."""
    signs = np.sign(u + z[:, None] - OBSERVATIONS[None, :])
    return u + 2 * np.sum(np.mean(signs, axis=0))


def sgld(state, gradient, push, t):
    """Welling and Teh: the step shrinks as (1 + t / tau)^-gamma."""
    eps = STEP * (1 + t / 20) ** -0.4
    return {"u": state["u"] - eps / 2 * gradient + np.sqrt(eps) * push}


def psgld(state, gradient, push, t):
    """The corrected box: V first, then a step down the gradient of U, scaled by G."""
    del t
    v = 0.9 * state["mean_square"] + 0.1 * gradient**2
    g = 1 / (1e-3 + np.sqrt(v))
    u = state["u"] - STEP / 2 * g * gradient + np.sqrt(STEP * g) * push
    return {"u": u, "mean_square": v}


def sghmc(state, gradient, push, t):
    """Chen, Fox and Guestrin: friction C = 2, of which 0.5 is the noise of the gradient."""
    del t
    p = state["momentum"] - STEP * gradient - STEP * 2.0 * state["momentum"]
    p = p + np.sqrt(2 * STEP * 1.5) * push
    return {"u": state["u"] + STEP * p, "momentum": p}


LETTERS = {
    "sgld": (gb.SGLD(STEP, decay=0.4, offset=20.0, noise="iid"), sgld),
    "psgld": (gb.PSGLD(STEP, decay=0.9, damping=1e-3, noise="iid"), psgld),
    "sghmc": (gb.SGHMC(STEP, friction=2.0, gradient_noise=0.5, noise="iid"), sghmc),
}


@pytest.mark.parametrize("name", LETTERS)
def test_steps_equal_the_algorithm_in_numpy(name):
    sampler, numpy_step = LETTERS[name]
    with jax.enable_x64(True):
        target = small_target()
        state = sampler.init(jax.random.key(0), target, jnp.array([0.4]))
        step = eqx.filter_jit(lambda key, state: sampler.step(key, target, state))
        estimates = ("count", "gradient", "log_density")
        ours = {k: np.asarray(v) for k, v in state._asdict().items() if k not in estimates}
        gradient = np.asarray(state.gradient)
        for t in range(60):
            key = jax.random.fold_in(jax.random.key(1), t)
            key_noise, key_push = jax.random.split(key, 3 if name == "sghmc" else 2)[:2]
            push = np.asarray(jax.random.normal(key_push, (1,)))
            ours = numpy_step(ours, gradient, push, t)
            z = np.asarray(target.draw_noise(key_noise).simulator)
            gradient = gradient_of_potential(ours["u"], z)
            state, info = step(key, state)
            for field, value in ours.items():
                np.testing.assert_allclose(getattr(state, field), value, rtol=1e-10)
            np.testing.assert_allclose(state.gradient, gradient)
            np.testing.assert_allclose(info.gradient_norm, abs(gradient[0]))
            assert not info.refused


def standard_normal_target() -> gb.ScorePosterior:
    """The prior N(0, 1) alone, where stationary variances are elementary."""
    return gb.ScorePosterior(location_problem(), PlainEnergy(), weight=0.0, num_simulations=2)


def second_moment(sampler, num_samples: int) -> tuple[float, float]:
    """Of one coordinate, with its standard error."""
    run = gb.sample(
        standard_normal_target(), sampler, num_samples=num_samples, num_chains=20, num_warmup=500,
        seed=0, start="zero", progress=False,
    )  # fmt: skip
    x = run.unconstrained[..., 0].astype(float) ** 2
    return float(x.mean()), float(x.std() / np.sqrt(ess_mean(x)))


@pytest.mark.parametrize("step_size", [0.8, 0.4])
def test_sgld_widens_a_normal_by_its_step_exactly(step_size):
    r"""$u' = (1 - \epsilon/2) u + N(0, \epsilon)$ has variance $1 / (1 - \epsilon / 4)$."""
    found, error = second_moment(gb.SGLD(step_size), 5000)
    expected = 1 / (1 - step_size / 4)
    assert abs(found - expected) < 4 * error
    assert expected - 1 > 8 * error, "no bias to see"


@pytest.mark.parametrize("step_size", [0.8, 0.4])
def test_sghmc_has_the_bias_of_its_linear_recursion(step_size):
    """The covariance that the step leaves alone, from NumPy."""
    h, friction = step_size, 1.0
    move = np.array([[1 - h**2, h * (1 - h * friction)], [-h, 1 - h * friction]])
    noise = 2 * h * friction * np.outer([h, 1], [h, 1])
    system = np.eye(4) - np.kron(move, move)
    expected = np.linalg.solve(system, noise.ravel())[0]
    found, error = second_moment(gb.SGHMC(step_size, friction=friction), 20_000)
    assert abs(found - expected) < 4 * error
    assert abs(expected - 1) > 8 * error, "no bias to see"


def test_a_decreasing_step_takes_the_bias_away():
    """By the end of the run the step is 1/30 of what it began with."""
    sampler = gb.SGLD(1.2, decay=1.0, offset=100.0)
    constant, error = second_moment(gb.SGLD(1.2), 3000)
    decreasing, error_decreasing = second_moment(sampler, 3000)
    assert constant - 1 > 8 * error
    assert abs(decreasing - 1) < 0.05 + 4 * error_decreasing


@pytest.mark.parametrize(
    "sampler",
    [
        gb.SGLD(0.02, clip=2.0),
        pytest.param(gb.PSGLD(0.02, clip=2.0), marks=pytest.mark.slow),
        pytest.param(gb.SGHMC(0.05, friction=1.0, clip=2.0), marks=pytest.mark.slow),
    ],
    ids=["sgld", "psgld", "sghmc"],
)
def test_long_gradients_are_shortened_and_counted(sampler):
    run = gb.sample(
        small_target(), sampler, num_samples=300, start={"mean": 4.0}, progress=False, thinning=2
    )
    clipped = run.info["clipped"]
    assert clipped.max() == 2, "counted over thinned steps"
    share = clipped.sum() / 600
    assert any(f"{share:.1%} of the gradients were clipped" in f for f in run.status.findings)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: gb.SGLD(0.0), ValueError, "step_size must be a finite number above 0, got 0.0"),
        (lambda: gb.SGLD(0.1, decay=-1), ValueError, "decay must be a finite number, 0 or above"),
        (lambda: gb.SGLD(0.1, offset=0), ValueError, "offset must be a finite number above 0"),
        (lambda: gb.SGLD(0.1, noise="even"), ValueError, "noise must be one of 'auto', 'iid'"),
        (lambda: gb.PSGLD("small"), TypeError, "step_size must be a number, got 'small'"),
        (lambda: gb.PSGLD(0.1, decay=1.0), ValueError, "decay must lie strictly between 0 and 1"),
        (lambda: gb.PSGLD(0.1, damping=0), ValueError, "damping must be a finite number above 0"),
        (lambda: gb.PSGLD(0.1, clip=-1), ValueError, "clip must be a finite number above 0"),
        (lambda: gb.SGHMC(0.1, friction=0), ValueError, "friction must be a finite number above"),
        (
            lambda: gb.SGHMC(0.1, friction=1.0, gradient_noise=2.0),
            ValueError,
            r"gradient_noise must be at most the friction \(1.0\), got 2.0",
        ),
    ],
)
def test_bad_settings_are_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_sobol_noise_is_refused_where_the_noise_is_not_known():
    simulator = gb.Simulator(lambda theta, key: theta["mean"] + jax.random.normal(key))
    problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, OBSERVATIONS)
    target = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)
    match = 'noise="sobol" does not apply: the simulator\'s noise is not a NumPyro distribution'
    with pytest.raises(ValueError, match=match):
        gb.sample(target, gb.SGLD(0.1, noise="sobol"), num_samples=1, progress=False)
