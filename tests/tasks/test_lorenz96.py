"""Lorenz96: against plain loops, at two integration steps, and what its settings do."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.distance import cdist

import genbayes as gb

lorenz96 = gb.tasks.lorenz96
K, J = 8, 32


def slow_tendency(x, k):
    """One component, by its indices."""
    return -x[k - 1] * (x[k - 2] - x[(k + 1) % K]) - x[k]


def walked(x, forcing, sigma, noise, step, heun=False):
    """Euler–Maruyama or Heun as a loop over records, steps and components."""

    def drift(x):
        g = forcing(x)
        return np.array([slow_tendency(x, k) + 10 - g[k] for k in range(K)])

    records = []
    for of_record in noise:
        for z in of_record:
            push, slope = sigma * np.sqrt(step) * z, drift(x)
            if heun:
                slope = (slope + drift(x + step * slope + push)) / 2
            x = x + step * slope + push
        records.append(x)
    return np.stack(records)


def test_the_linear_model_is_the_loop_of_its_definition():
    with jax.enable_x64(True):
        task = lorenz96.linear(num_records=3, integration_step=0.015, method="euler")
        noise = task.simulator.draw_noise(jax.random.key(0), 2)
        x = np.asarray(task.simulator.simulate_from(task.truth, noise))
        alone = np.asarray(task.simulator.fn(task.truth, noise[1]))
        noise = np.asarray(noise)
    start = np.array([6.4558, 1.1054, -1.4502, -0.1985, 1.1905, 2.3887, 5.6689, 6.7284])
    assert noise.shape == (2, 3, 5, 8)
    for draw, of_draw in zip(x, noise, strict=True):
        expected = walked(start, lambda x: 2.0 + 0.8 * x, 1.7, of_draw, 0.015)
        np.testing.assert_allclose(draw, expected, rtol=1e-10)
    np.testing.assert_allclose(alone, x[1], rtol=1e-12)


def test_the_network_has_one_layer_of_six_rectified_units():
    rng = np.random.default_rng(0)
    w, c = rng.normal(size=(6, 8)), rng.normal(size=6)
    v, d = rng.normal(size=(8, 6)), rng.normal(size=8)
    series = rng.normal(size=(3, 8))
    with jax.enable_x64(True):
        task = lorenz96.neural(series=series, integration_step=0.05)
        theta = {
            "hidden_weights": w, "hidden_bias": c, "output_weights": v, "output_bias": d,
            "sigma_e": 0.7,
        }  # fmt: skip
        noise = task.simulator.draw_noise(jax.random.key(0), 2)
        theta = {name: jnp.asarray(value) for name, value in theta.items()}
        x = np.asarray(task.simulator.simulate_from(theta, noise))
        noise = np.asarray(noise)
    assert noise.shape == (2, 2, 4, 8)
    for draw, of_draw in zip(x, noise, strict=True):
        expected = walked(
            series[0], lambda x: v @ np.maximum(w @ x + c, 0) + d, 0.7, of_draw, 0.05, heun=True
        )
        standardised = (expected - series[0].mean()) / series[0].std(ddof=1)
        np.testing.assert_allclose(draw, standardised, rtol=1e-10)


def test_parameters_and_priors_are_those_of_the_paper():
    linear, neural = lorenz96.linear(), lorenz96.neural()
    assert linear.prior.describe() == {
        "b0": "Uniform(low=1.4, high=2.2)",
        "b1": "Uniform(low=0.0, high=1.0)",
        "sigma_e": "Uniform(low=1.5, high=2.5)",
    }
    assert {n: float(v) for n, v in linear.truth.items()} == pytest.approx(
        {"b0": 2.0, "b1": 0.8, "sigma_e": 1.7}
    )
    assert neural.prior.size == 111
    assert neural.prior.describe()["sigma_e"] == "Uniform(low=0.0, high=1.5)"
    for weights in neural.prior.distributions[:4]:
        np.testing.assert_allclose(weights.variance, 10.0, rtol=1e-5)
        np.testing.assert_array_equal(weights.mean, 0.0)


@cache
def draws_at(step, method="heun", num=500, seed=0):
    """Draws of the linear model at the truth, `(num, 160)`."""
    task = lorenz96.linear(integration_step=step, method=method)
    x = task.simulator.simulate(jax.random.key(seed), task.truth, num)
    return np.asarray(x).reshape(num, -1)


def p_value(x, y, permutations=199):
    """Permutation test of the energy distance of two samples of one size."""
    z = np.concatenate([x, y])
    signs = np.repeat([1.0, -1.0], len(x))
    rng = np.random.default_rng(0)
    orders = np.stack([signs, *(rng.permutation(signs) for _ in range(permutations))])
    # with n points in each, the energy distance is this form divided by n^2
    distance = -np.sum(orders * (orders @ cdist(z, z)), axis=1)
    return np.mean(distance >= distance[0])


def test_the_default_step_agrees_in_distribution_with_the_published_one():
    """The authors' Euler steps of 0.001; and Euler at the default step, which the test can tell."""
    published = draws_at(0.001, "euler", seed=1)
    assert p_value(draws_at(0.0075), published) > 0.01
    assert p_value(draws_at(0.0075, "euler"), published) == 1 / 200


def test_one_euler_step_a_record_sends_draws_to_infinity():
    lost = np.mean(~np.all(np.abs(draws_at(3 / 40, "euler")) < 1e3, axis=1))
    assert lost > 0.9


def fast_slow(t, state, F=10.0, h=1.0, c=10.0, b=10.0):
    """The full model by its indices."""
    x, y = state[:K], state[K:]
    dx = [
        slow_tendency(x, k) + F - h * c / b * sum(y[J * k + j] for j in range(J)) for k in range(K)
    ]
    n = J * K
    dy = [
        -c * b * y[(j + 1) % n] * (y[(j + 2) % n] - y[j - 1]) - c * y[j] + h * c / b * x[j // J]
        for j in range(n)
    ]
    return np.array(dx + dy)


def test_the_two_scale_model_is_the_solution_of_its_equations_from_each_start():
    with jax.enable_x64(True):
        task = lorenz96.two_scale(num_records=3, interval=0.05, discarded=0.1)
        noise = task.simulator.draw_noise(jax.random.key(0), 5)
        x = np.asarray(task.simulator.simulate_from(task.truth, noise))
    start = 0.1 * np.asarray(noise[3])
    start[[0, K]] += 1.0
    solved = solve_ivp(
        fast_slow, (0, 0.2), start, method="DOP853", t_eval=[0.1, 0.15, 0.2], rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(x[3], solved.y[:K].T, atol=1e-6)
    assert x.shape == (5, 3, 8)
    assert np.all(x.std(axis=0) > 0.01), "five starts, five series"


def test_five_series_spaced_by_a_fifth_are_the_published_setting():
    task = lorenz96.two_scale()
    model = task.simulator.fn
    assert (model.num_records, model.steps_between, model.steps_discarded) == (21, 200, 2000)
    assert model.step == pytest.approx(0.001)
    assert task.num_observations == 5


def test_a_series_is_the_one_observation_standardised_by_its_first_record():
    series = np.random.default_rng(0).normal(3.0, 2.0, size=(5, 8))
    task = lorenz96.linear(series=series)
    y = np.asarray(task.problem().observations)
    assert y.shape == (1, 4, 8)
    np.testing.assert_allclose(
        y[0], (series[1:] - series[0].mean()) / series[0].std(ddof=1), rtol=1e-5
    )
    assert task.prior.describe()["sigma_e"] == "Uniform(low=0.0, high=1.5)"
    with pytest.raises(ValueError, match="A series is one observation, and num_observations is 3"):
        task.generate(0, 3)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"integration_step": 0.1},
            r"must not be longer than the interval between records \(0.075",
        ),
        ({"integration_step": 0.0}, "integration_step must be a finite number above 0"),
        ({"interval": -1.0}, "interval must be a finite number above 0"),
        ({"method": "milstein"}, "method must be one of 'heun', 'euler', got 'milstein'"),
        ({"num_records": 0}, "num_records must be at least 1"),
        ({"series": np.ones((5, 7))}, r"of shape \(num_records \+ 1, 8\), got shape \(5, 7\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        lorenz96.linear(**settings)


def test_refusals_of_the_two_scale_model():
    with pytest.raises(ValueError, match="discarded must be a finite number, 0 or above"):
        lorenz96.two_scale(discarded=-1.0)


@pytest.mark.slow
def test_forward_mode_keeps_memory_flat_in_the_number_of_steps():
    """Reverse mode keeps the state of every step, forward mode at a thousandth only the noise."""

    def bytes_of(gradient):
        task = lorenz96.linear(integration_step=0.001)
        problem = task.problem(np.ones((2, 20, 8)))
        target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=20, gradient=gradient)
        noise = target.draw_noise(jax.random.key(0))
        program = eqx.filter_jit(target.value_and_grad).lower(jnp.zeros(3), noise).compile()
        size = 4 * noise.simulator.size
        return program.compiled.memory_analysis().temp_size_in_bytes / size

    # in units of the noise, which is put into another order, and as large as all states
    forward, reverse = bytes_of("auto"), bytes_of("reverse")
    assert forward < 1.5
    assert reverse > forward + 0.8
