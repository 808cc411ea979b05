"""Named problems: laws for all of them, and what each promises."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import genbayes as gb
from genbayes.targets._gradient import gradient_mode

TASKS = {
    "normal location": (gb.tasks.normal_location, ()),
    "contaminated": (lambda: gb.tasks.normal_location(contamination=0.2), ()),
    "univariate g-and-k": (gb.tasks.g_and_k.univariate, ()),
    "univariate, Cauchy data": (lambda: gb.tasks.g_and_k.univariate(cauchy=True), ()),
    "multivariate g-and-k": (gb.tasks.g_and_k.multivariate, (5,)),
    "multivariate, Cauchy data": (lambda: gb.tasks.g_and_k.multivariate(cauchy=True), (5,)),
    "lorenz96, linear": (gb.tasks.lorenz96.linear, (20, 8)),
    "lorenz96, neural": (gb.tasks.lorenz96.neural, (20, 8)),
    "lorenz96, two scales": (gb.tasks.lorenz96.two_scale, (21, 8)),
    "moving average": (gb.tasks.moving_average, (50,)),
    "queue": (gb.tasks.queue, (50,)),
    "lotka-volterra": (gb.tasks.lotka_volterra, (20, 2)),
    "sir": (gb.tasks.sir, (20,)),
    "stochastic volatility": (gb.tasks.stochastic_volatility, (100,)),
}

# few parameters that flow through a long loop
LOOPS = (
    "lorenz96, linear",
    "lorenz96, two scales",
    "lotka-volterra",
    "sir",
    "stochastic volatility",
)

every_task = pytest.mark.parametrize("name", TASKS)


@every_task
def test_data_have_their_shape_and_follow_the_seed(name):
    make, event = TASKS[name]
    task = make()
    y = task.generate(0, 10)
    assert y.shape == (10, *event)
    assert bool(jnp.all(jnp.isfinite(y)))
    np.testing.assert_array_equal(y, make().generate(0, 10))
    np.testing.assert_array_equal(y, task.generate(jax.random.key(0), 10))
    assert not np.array_equal(y, task.generate(1, 10))
    # here, because the program that draws ten is compiled already
    np.testing.assert_array_equal(task.problem(num_observations=10).observations, y)


@every_task
def test_the_truth_lies_inside_the_prior(name):
    task = TASKS[name][0]()
    task.prior.check_inside(task.truth)
    assert set(task.truth) == set(task.prior.names)


@every_task
def test_the_problem_holds_given_data(name):
    make, event = TASKS[name]
    given = np.ones((4, *event))
    np.testing.assert_array_equal(make().problem(given).observations, given)


@every_task
def test_it_works_in_both_precisions_and_loops_are_differentiated_forwards(name, precision):
    make, event = TASKS[name]
    task = make()
    problem = task.problem(np.ones((4, *event)))
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=4)
    noise = jax.eval_shape(target.draw_noise, jax.random.key(0))
    modes = []

    def estimate(u, noise):
        modes.append(gradient_mode(target, u, noise))
        return target.value_and_grad(u, noise), task.generate(jax.random.key(0), 4)

    found = jax.tree.leaves(jax.eval_shape(estimate, jnp.zeros(target.size), noise))
    assert {x.dtype for x in (*found, problem.observations)} == {np.dtype(f"float{precision}")}
    # forward mode keeps no steps in memory, and costs about an evaluation for each parameter
    assert modes == ["forward" if name in LOOPS else "reverse"]


@pytest.mark.slow
@every_task
def test_value_and_gradient_are_finite_at_the_truth(name, precision):
    task = TASKS[name][0]()
    target = gb.ScorePosterior(task.problem(), gb.EnergyScore(), num_simulations=8)
    noise = target.draw_noise(jax.random.key(0))
    u = task.prior.unconstrain(task.truth)
    value, grad = eqx.filter_jit(target.value_and_grad)(u, noise)
    assert value.dtype == grad.dtype == f"float{precision}"
    assert np.isfinite(value)
    assert np.all(np.isfinite(grad))
    assert np.any(grad != 0)


def test_the_normal_location_task_is_what_it_says():
    y = np.asarray(gb.tasks.normal_location().generate(0, 4000))
    assert stats.kstest(y, stats.norm(1, 1).cdf).pvalue > 1e-4


def test_contamination_is_a_share_of_the_last_rows():
    y = np.asarray(gb.tasks.normal_location(contamination=0.25, outlier=30.0).generate(0, 40))
    assert np.all(y[:30] < 15)
    assert np.all(y[30:] > 15)


@pytest.mark.parametrize(
    ("share", "match"),
    [(-0.1, "contamination must be a finite number, 0 or above"), (1.5, "a share, at most 1")],
)
def test_an_impossible_share_is_refused(share, match):
    with pytest.raises(ValueError, match=match):
        gb.tasks.normal_location(contamination=share)


class TestGAndK:
    def test_draws_have_the_quantiles_of_the_definition(self):
        """Every order statistic is the quantile function of a uniform one."""
        y = np.asarray(gb.tasks.g_and_k.univariate().generate(0, 20_000))
        z = stats.norm.ppf([0.05, 0.25, 0.5, 0.75, 0.95])
        quantiles = (
            3
            + 1.5
            * (1 + 0.8 * (1 - np.exp(-0.5 * z)) / (1 + np.exp(-0.5 * z)))
            * (1 + z**2) ** 1.5
            * z
        )
        below = np.mean(y[:, None] < quantiles, axis=0)
        p = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
        assert np.all(np.abs(below - p) < 4 * np.sqrt(p * (1 - p) / 20_000))

    def test_the_priors_are_those_of_the_paper(self):
        assert set(gb.tasks.g_and_k.univariate().prior.describe().values()) == {
            "Uniform(low=0.0, high=4.0)"
        }
        rho = gb.tasks.g_and_k.multivariate().prior.distributions[-1]
        np.testing.assert_allclose([rho.low, rho.high], [-np.sqrt(3) / 3, np.sqrt(3) / 3])

    def test_neighbours_are_correlated_and_others_are_not(self):
        """Ranks are those of the normal copula, whatever the marginals."""
        y = np.asarray(gb.tasks.g_and_k.multivariate().generate(0, 20_000))
        rho = 2 * np.sin(np.pi / 6 * stats.spearmanr(y).statistic)
        expected = np.eye(5) - 0.3 * (np.eye(5, k=1) + np.eye(5, k=-1))
        np.testing.assert_allclose(rho, expected, atol=4 / np.sqrt(20_000))

    def test_cauchy_data_are_cauchy(self):
        y = np.asarray(gb.tasks.g_and_k.univariate(cauchy=True).generate(0, 4000))
        assert stats.kstest(y, "cauchy").pvalue > 1e-4
