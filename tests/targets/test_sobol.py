"""Even noise: scrambled Sobol sets through the quantile function of the noise."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.scipy.special import ndtri
from scipy import stats
from tests.support import exact
from tests.support.problems import OBSERVATIONS, location_scale_problem

import genbayes as gb
from genbayes.targets import sobol_noise, suits_sobol, why_no_sobol, with_all_pairs
from genbayes.targets._sobol import scrambled_sobol


@pytest.mark.parametrize("size", [1, 5])
def test_every_coordinate_has_one_point_in_each_interval(precision, size):
    points = np.asarray(scrambled_sobol(jax.random.key(0), 256, size))
    assert points.shape == (256, size)
    assert points.dtype == (np.float64 if precision == 64 else np.float32)
    assert points.min() > 0
    assert points.max() < 1
    np.testing.assert_array_equal(
        np.sort(np.floor(points * 256).astype(int), axis=0),
        np.arange(256)[:, None].repeat(size, axis=1),
    )


def test_each_point_is_uniform_over_the_scramblings():
    keys = jax.random.split(jax.random.key(1), 2000)
    first = np.asarray(jax.vmap(lambda key: scrambled_sobol(key, 4, 2)[1])(keys))
    for coordinate in first.T:
        assert stats.kstest(coordinate, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(first.T)[0, 1]) < 4 / np.sqrt(2000)


def noisy_target(noise, fn=None, num_simulations=64, **prior) -> gb.ScorePosterior:
    simulator = gb.Simulator(fn or (lambda theta, z: theta["mean"] + jnp.sum(z)), noise=noise)
    problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, OBSERVATIONS)
    return gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=num_simulations)


COVARIANCE = np.array([[1.0, 0.6], [0.6, 2.0]])


@pytest.mark.parametrize(
    ("noise", "mean", "sd"),
    [
        (dist.Normal(1.0, 2.0), 1.0, 2.0),
        (dist.Exponential(0.5), 2.0, 2.0),
        (dist.Uniform(-1.0, 3.0), 1.0, 16**0.5 / 12**0.5),
        (dist.Normal(jnp.array([0.0, 3.0]), jnp.ones(2)).to_event(1), [0.0, 3.0], [1.0, 1.0]),
        (
            dist.MultivariateNormal(jnp.array([0.5, -1.0]), jnp.asarray(COVARIANCE)),
            [0.5, -1.0],
            np.sqrt(np.diag(COVARIANCE)),
        ),
    ],
    ids=["normal", "exponential", "uniform", "independent", "correlated"],
)
def test_the_quantiles_are_those_of_the_noise(noise, mean, sd):
    """512 even points err by far less than 512 draws would: a twentieth of an sd is plenty."""
    with jax.numpy_rank_promotion("allow"):  # NumPyro's own sampling of vectors
        target = noisy_target(noise, num_simulations=512)
        z = np.asarray(sobol_noise(jax.random.key(0), target).simulator)
    assert np.all(np.abs(z.mean(axis=0) - mean) < 0.05 * np.asarray(sd))
    np.testing.assert_allclose(z.std(axis=0), sd, rtol=0.05)
    if noise.event_shape and not isinstance(noise, dist.Independent):
        np.testing.assert_allclose(np.cov(z.T), COVARIANCE, atol=0.1)


def test_all_pairs_of_even_noise_come_close_to_the_exact_score():
    """Far closer than the mean over different pairs, and than draws that are independent."""
    target = gb.ScorePosterior(location_scale_problem(), gb.EnergyScore(), num_simulations=64)
    u = target.problem.prior.unconstrain({"mean": jnp.array(0.7), "scale": jnp.array(1.3)})
    score = exact.expected_energy(OBSERVATIONS)(np.array(0.7), np.array(1.3))
    known = float(target.problem.prior.log_prob_unconstrained(u)) - float(score)
    keys = jax.random.split(jax.random.key(0), 200)

    def error(target, draw):
        values = jax.jit(jax.vmap(lambda key: target.log_density(u, draw(key, target))))(keys)
        return float(np.sqrt(np.mean((np.asarray(values, float) - known) ** 2)))

    even = error(with_all_pairs(target), sobol_noise)
    assert even < error(target, sobol_noise) / 5
    assert even < error(target, lambda key, target: target.draw_noise(key)) / 10


@pytest.mark.parametrize(("statistic", "biased"), [("V", False), ("U", True)])
def test_the_variogram_of_even_noise_is_squared_plainly(statistic, biased):
    """What is taken off for independent draws would be an error: at 64 points, 14 sds of it."""
    assert gb.VariogramScore(1.0).all_pairs().statistic == "V"
    score, y = gb.VariogramScore(1.0, statistic=statistic), jnp.array([[0.4, -0.3]])
    keys = jax.random.split(jax.random.key(0), 400)
    draws = jax.vmap(lambda key: ndtri(scrambled_sobol(key, 64, 2)))(keys)
    values = np.asarray(jax.jit(jax.vmap(lambda x: score.total(x, y)))(draws), float)
    z = (values.mean() - 2 * (0.7 - 2 / np.sqrt(np.pi)) ** 2) / (values.std() / np.sqrt(400))
    assert (abs(z) > 8) if biased else (abs(z) < 4)


@pytest.mark.parametrize(
    ("noise", "reason"),
    [
        (lambda key: jax.random.normal(key), "noise is not a NumPyro distribution"),
        (dist.Dirichlet(jnp.ones(3)), "Dirichlet has no quantile function"),
        (dist.Gamma(3.0, 2.0), "Gamma has no quantile function"),
        (dist.Normal(0.0, 1.0).expand([30_000]).to_event(1), "more than 21,201 dimensions"),
    ],
)
def test_noise_that_has_no_sobol_set(noise, reason):
    target = noisy_target(noise)
    found = why_no_sobol(target)
    assert found is not None
    assert reason in found
    assert not suits_sobol(target)


def test_noise_of_many_dimensions_has_one_that_does_not_pay():
    target = noisy_target(dist.Normal(0.0, 1.0).expand([17]).to_event(1))
    assert why_no_sobol(target) is None
    assert not suits_sobol(target)
