"""Moving average, queue, reactions, volatility: against loops, theory and exact simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import genbayes as gb
from genbayes.tasks._stepping import langevin


def draws_and_noise(task, num=1):
    noise = task.simulator.draw_noise(jax.random.key(0), num)
    return np.asarray(task.simulator.simulate_from(task.truth, noise)), np.asarray(noise)


class TestMovingAverage:
    def test_draws_have_the_autocovariance_of_theory(self):
        task = gb.tasks.moving_average(length=3)
        x = np.asarray(task.generate(0, 20_000))
        a, b = 0.6, 0.2
        covariance = np.array([1 + a**2 + b**2, a + a * b, b])
        expected = covariance[np.abs(np.subtract.outer(range(3), range(3)))]
        np.testing.assert_allclose(np.cov(x.T), expected, atol=4 * 2 / np.sqrt(20_000))

    def test_the_prior_is_uniform_on_the_triangle(self):
        theta = np.asarray(
            gb.tasks.moving_average().prior.sample(jax.random.key(0), 20_000)["theta"]
        )
        first, second = theta.T
        assert np.all((second > -1) & (second < 1) & (np.abs(first) < 1 + second))
        # the corners are (-2, 1), (2, 1) and (0, -1)
        np.testing.assert_allclose(theta.mean(0), [0, 1 / 3], atol=4 / np.sqrt(20_000))
        np.testing.assert_allclose(theta.var(0), [2 / 3, 2 / 9], atol=4 / np.sqrt(20_000))

    def test_the_map_to_the_triangle_has_its_jacobian_and_its_inverse(self):
        prior = gb.tasks.moving_average().prior
        for u in ([0.3, -0.8], [2.0, 1.5], [0.0, 0.0]):
            u = jnp.asarray(u)
            slope = jax.jacfwd(lambda v: prior.constrain(v)["theta"])(u)
            expected = np.log(abs(np.linalg.det(slope))) - np.log(4)
            np.testing.assert_allclose(prior.log_prob_unconstrained(u), expected, rtol=1e-4)
            back = prior.unconstrain(prior.constrain(u))
            np.testing.assert_allclose(back, u, rtol=1e-4, atol=1e-4)

    def test_the_prior_can_be_told(self):
        prior = gb.tasks.moving_average().prior
        assert prior.describe() == {"theta": "UniformOnTriangle() over (2,)"}
        assert float(prior.log_prob({"theta": jnp.array([0.5, -0.8])})) == -np.inf


def test_departures_are_those_of_a_loop_over_customers():
    task = gb.tasks.queue()
    (x,), (z,) = draws_and_noise(task)
    z = z.astype(float)
    arrival, departure, expected = 0.0, 0.0, []
    for u, v in z:
        arrival += -np.log1p(-v) / 0.2
        gone = (1.0 + 4.0 * u) + max(arrival, departure)
        expected.append(gone - departure)
        departure = gone
    np.testing.assert_allclose(x, expected, rtol=1e-3, atol=1e-3)


def test_returns_are_those_of_a_loop_over_time():
    task = gb.tasks.stochastic_volatility(length=20)
    (x,), (z,) = draws_and_noise(task)
    h, expected = 0.3 / np.sqrt(1 - 0.95**2) * z[0, 0], []
    for t in range(20):
        if t:
            h = 0.95 * h + 0.3 * z[t, 0]
        expected.append(np.exp((h - 1.0) / 2) * z[t, 1])
    np.testing.assert_allclose(x, expected, rtol=1e-4)


def jump_process(effects, hazards, start, until, num, seed=0):
    """Gillespie's direct method: exact counts at one time, `num` copies side by side."""
    rng = np.random.default_rng(seed)
    x, t = np.tile(np.asarray(start, float), (num, 1)), np.zeros(num)
    effects, going = np.asarray(effects, float), np.ones(num, bool)
    while going.any():
        h = hazards(x[going].T).T
        total = h.sum(axis=1)
        wait = rng.exponential(size=total.size) / np.maximum(total, 1e-300)
        which = (rng.random(total.size)[:, None] * total[:, None] > h.cumsum(axis=1)).sum(axis=1)
        index = np.flatnonzero(going)
        inside = t[index] + wait < until
        x[index[inside]] += effects[np.minimum(which[inside], len(effects) - 1)]
        t[index] += wait
        going[index[~inside]] = False
    return x


POPULATIONS = {
    "lotka-volterra": (
        gb.tasks.lotka_volterra(num_records=1, interval=1.5),
        [(1, 0), (-1, 1), (0, -1)],
        lambda x: np.stack([x[0], 0.005 * x[0] * x[1], 0.6 * x[1]]),
        (50, 100),
        slice(None),
    ),
    "sir": (
        gb.tasks.sir(num_records=1, interval=12.0, infected=50.0),
        [(-1, 1), (0, -1)],
        lambda x: np.stack([0.4 * x[0] * x[1] / 1000, 0.125 * x[1]]),
        (950, 50),
        slice(1, 2),
    ),
}


@pytest.mark.parametrize("name", POPULATIONS)
def test_the_diffusion_follows_the_jump_process(name):
    """Means and sds of exact counts, within 2 % for the approximation and four standard errors."""
    task, effects, hazards, start, seen = POPULATIONS[name]
    num = 2000
    exact = jump_process(effects, hazards, start, 1.5 if seen == slice(None) else 12.0, num)
    exact = exact[:, seen]
    x = np.asarray(task.generate(0, num)).reshape(num, -1)
    error = np.hypot(exact.std(0), x.std(0)) / np.sqrt(num)
    assert np.all(np.abs(x.mean(0) - exact.mean(0)) < 4 * error + 0.02 * exact.mean(0))
    assert np.all(np.abs(x.std(0) / exact.std(0) - 1) < 4 / np.sqrt(num) + 0.03)
    assert np.all(exact.std(0) > 5), "counts that hardly vary would show nothing"


def test_counts_stay_at_zero_or_above_and_keep_their_slopes():
    def last(rate):
        noise = jnp.full((3, 10, 1), 3.0)  # many more die than are expected to
        return langevin(jnp.array([[-1.0]]), lambda x: rate * x, jnp.ones(1), noise, 0.5)[:, 0]

    counts, slopes = jax.jvp(last, (jnp.array(2.0),), (jnp.array(1.0),))
    assert np.all(counts >= 0)
    assert counts[-1] == 0
    assert np.all(np.isfinite(slopes))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: gb.tasks.moving_average(length=0), "length must be at least 1"),
        (lambda: gb.tasks.queue(customers=0), "customers must be at least 1"),
        (lambda: gb.tasks.stochastic_volatility(length=1), "length must be at least 2"),
        (lambda: gb.tasks.sir(infected=2000.0), r"between 0 and the population \(1000\), got 2000"),
        (lambda: gb.tasks.lotka_volterra(integration_step=2.0), "must not be longer than the"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()
