"""The posterior's covariance and the sandwich, where both are known; draws that it mends."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import binomtest, norm

import genbayes as gb
from genbayes.diagnostics import corrected, coverage, sandwich
from genbayes.runs import Run

from .conjugate import normal_target, shift

Y = np.random.default_rng(4).normal(1.0, 2.0, size=40)


def run_of(maker, target: gb.ScorePosterior, u: np.ndarray) -> Run:
    """A run with given unconstrained draws `(chain, draw, p)`."""
    theta = jax.vmap(jax.vmap(target.problem.prior.constrain))(jnp.asarray(u, float))
    draws = {name: np.asarray(x) for name, x in theta.items()}
    return dataclasses.replace(maker(), draws=draws, unconstrained=u, target=target)


def normal_draws(mean, sd, num=2000, seed=0):
    """Draws whose mean and covariance are exactly what is asked for."""
    z = np.random.default_rng(seed).normal(size=(num, np.size(mean)))
    z -= z.mean(axis=0)
    z = np.linalg.solve(np.linalg.cholesky(z.T @ z / num), z.T).T
    return (np.asarray(mean) + np.asarray(sd) * z)[None]


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_log_score_of_a_wrong_spread(made_run, weight, precision):
    """The model says sd 1, the data have another: H = w n, J = w^2 n s^2."""
    n, s2 = len(Y), Y.var(ddof=1)
    target = normal_target(jnp.asarray(Y, float), weight=weight)
    run = run_of(made_run, target, normal_draws(Y.mean(), 1 / np.sqrt(weight * n)))
    found = sandwich(run)
    rtol = 1e-3 if precision == 32 else 1e-9
    np.testing.assert_allclose(found.asymptotic, [[1 / (weight * n)]], rtol=rtol)
    np.testing.assert_allclose(found.sandwich, [[s2 / n]], rtol=rtol)
    expected = 2 * norm.cdf(1.959964 / np.sqrt(weight * s2)) - 1
    np.testing.assert_allclose(found.coverage, expected, rtol=1e-3)
    np.testing.assert_allclose(found.posterior, found.asymptotic, rtol=rtol)
    assert ("cover" in " ".join(found.findings)) == (abs(np.log(weight * s2) / 2) > np.log(1.1))


def energy_target(y, weight=1.0):
    prior = gb.Prior(mean=dist.Normal(0.0, 100.0))
    problem = gb.Problem(prior, gb.Simulator(shift, noise=dist.Normal(0.0, 1.0)), y)
    return gb.ScorePosterior(problem, gb.EnergyScore(), weight=weight, num_simulations=256)


@pytest.fixture(scope="module")
def of_energy():
    from ..conftest import maker_of_runs

    target = energy_target(jnp.asarray(Y, float))
    run = run_of(maker_of_runs, target, normal_draws(1.3, 0.2))
    return run, sandwich(run, num_repeats=40), sandwich(run, variance="model", num_repeats=40)


def test_energy_score_of_a_location(of_energy):
    """Of E|X - y| for X ~ N(t, 1) the slope is 2 Phi(t - y) - 1; the score has twice that."""
    _, found, model = of_energy
    h = 4 * norm.pdf(1.3 - Y).sum()
    g = 2 * (2 * norm.cdf(1.3 - Y) - 1)
    # differences over half an sd, 0.1, to both sides
    curved = 4 * (norm.cdf(1.4 - Y) - norm.cdf(1.2 - Y)).sum() / 0.2
    assert abs(curved / h - 1) < 0.01
    error = found.curvature_error[0, 0]
    assert error < 0.05 * h
    assert abs(found.curvature[0, 0] - curved) < 4 * error
    np.testing.assert_allclose(found.variance, [[len(Y) * g.var(ddof=1)]], rtol=0.01)
    # the model's own: a uniform number, stretched to [-2, 2]; 1000 draws know it to 3 %
    np.testing.assert_allclose(model.variance, [[len(Y) * 4 / 3]], rtol=4 * 0.03)


def test_the_second_derivative_of_a_path_would_be_wrong(of_energy):
    """Why gradients are differenced: draws are lines in the parameter, and |x - y| has no bend."""
    run, found, _ = of_energy
    noise = run.target.draw_noise(jax.random.key(0))
    bend = jax.jit(jax.jacfwd(lambda u: run.target.grad(u, noise)))(jnp.array([1.3]))
    assert abs(float(bend[0, 0])) < 0.1 * found.curvature[0, 0]


def two_parameters(y, scale=1.0):
    """A regression whose errors are larger where the second regressor is."""
    prior = gb.Prior(a=dist.Normal(0.0, 100.0), b=dist.Normal(0.0, 100.0 * scale))

    def log_prob(theta, row):
        return -0.5 * (row[2] - theta["a"] * row[0] - theta["b"] / scale * row[1]) ** 2

    return gb.ScorePosterior(gb.Problem(prior, None, y), gb.LogScore(log_prob))


def regression():
    rng = np.random.default_rng(8)
    x = np.stack([np.ones(60), rng.normal(size=60)], axis=1)
    return x, np.column_stack([x, x @ [0.5, -1.0] + rng.normal(size=60) * (0.3 + abs(x[:, 1]))])


def test_two_parameters_against_the_textbook(made_run):
    x, rows = regression()
    beta, *_ = np.linalg.lstsq(x, rows[:, 2], rcond=None)
    target = two_parameters(jnp.asarray(rows, float))
    h = x.T @ x
    u = normal_draws([0, 0], [1, 1]) @ np.linalg.cholesky(np.linalg.inv(h)).T + beta
    run = run_of(made_run, target, u)
    found = sandwich(run)
    g = x * (rows[:, 2] - x @ beta)[:, None]
    expected = np.linalg.inv(h) @ (g.T @ g * 60 / 59) @ np.linalg.inv(h)
    np.testing.assert_allclose(found.asymptotic, np.linalg.inv(h), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found.sandwich, expected, rtol=5e-3, atol=1e-5)
    for how in ("gradients", "draws"):
        moved = corrected(run, curvature=how)
        flat = moved.unconstrained.reshape(-1, 2).astype(float)
        np.testing.assert_allclose(np.cov(flat.T, ddof=0), expected, rtol=5e-3, atol=1e-5)
        np.testing.assert_allclose(flat.mean(axis=0), beta, atol=1e-4)
        np.testing.assert_array_equal(moved.draws["b"], moved.unconstrained[..., 1])
        assert moved.provenance["corrected"]["curvature"] == how
    # shares of the wrong variance would not do
    assert abs(expected[1, 1] / np.linalg.inv(h)[1, 1] - 1) > 0.3


def test_the_map_does_not_depend_on_units(made_run):
    x, rows = regression()
    beta, *_ = np.linalg.lstsq(x, rows[:, 2], rcond=None)
    z = normal_draws([0, 0], [1, 1]) @ np.linalg.cholesky(np.linalg.inv(x.T @ x)).T + beta
    moved = []
    for scale in (1.0, 50.0):
        target = two_parameters(jnp.asarray(rows, float), scale)
        run = run_of(made_run, target, z * [1, scale])
        moved.append(corrected(run).unconstrained / [1, scale])
    np.testing.assert_allclose(moved[0], moved[1], rtol=2e-3, atol=2e-3)


def test_a_right_model_is_left_alone(made_run):
    """Where J = H the map is the identity."""
    target = normal_target(jnp.asarray((Y - Y.mean()) / Y.std(ddof=1), float))
    run = run_of(made_run, target, normal_draws(0.0, 1 / np.sqrt(len(Y))))
    found = sandwich(run)
    np.testing.assert_allclose(found.map, [[1.0]], atol=2e-3)
    assert found.findings == ()
    found.plot().canvas.draw()


REFUSED = {
    "few": (lambda r: sandwich(r(jnp.ones(2) + jnp.arange(2))), 'variance="model"'),
    "a choice": (
        lambda r: sandwich(r(jnp.asarray(Y, float)), curvature="hessian"),
        "curvature must",
    ),
    "stuck": (
        lambda r: sandwich(dataclasses.replace(r(Y), unconstrained=np.zeros((1, 9, 1)))),
        "did not move",
    ),
    "repeats": (lambda r: sandwich(r(Y), num_repeats=1), "num_repeats must be at least 2"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_makes_no_sense_is_refused(made_run, call, message):
    with pytest.raises(ValueError, match=message):
        call(lambda y: run_of(made_run, normal_target(y), normal_draws(1.0, 0.2)))


def test_a_black_box_is_refused(made_run):
    problem = gb.Problem(
        gb.Prior(mean=dist.Normal(0.0, 1.0)),
        gb.BlackBox(lambda theta, rng: rng.normal(theta["mean"])), Y,
    )  # fmt: skip
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=10)
    with pytest.raises(ValueError, match="gradients"):
        sandwich(run_of(made_run, target, normal_draws(1.0, 0.2)))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["gradients", "draws"])
def test_a_scoring_rule_posterior_covers_after_correction(how):
    """The energy score at four times its weight, through the simulator and FrozenNUTS."""
    target = energy_target(jnp.linspace(-1.0, 3.0, 40), weight=4.0)
    plain, mended = (
        coverage(
            target, {"mean": 1.0}, num_data_sets=100, num_samples=500, num_warmup=200, seed=5,
            correct=correct,
        )
        for correct in (None, partial(corrected, curvature=how, num_repeats=16))
    )  # fmt: skip
    # variances times n: sqrt(pi) / 2 over the weight, and pi / 3
    share = 2 * norm.cdf(1.959964 * np.sqrt(np.sqrt(np.pi) / 8 / (np.pi / 3))) - 1
    for found, expected in ((plain, share), (mended, 0.95)):
        count = round(found.shares[0, -1] * found.num_data_sets)
        assert binomtest(count, found.num_data_sets, expected).pvalue > 1e-3
    assert binomtest(round(plain.shares[0, -1] * 100), 100, 0.95).pvalue < 1e-6
