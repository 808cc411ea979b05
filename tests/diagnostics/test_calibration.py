"""Coverage and simulation-based calibration, against answers known in closed form."""

from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import binomtest, norm

import genbayes as gb
from genbayes.diagnostics import corrected, coverage, sbc, share_interval
from genbayes.diagnostics._chance import GRID, distribution_on_grid, uniform_band

from .conjugate import TRUTH, Conjugate, log_narrow, normal_target, spread_out

QUICK = {"sampler": Conjugate(), "num_samples": 400, "num_warmup": 0, "start": "zero"}
MEAN = {"mean": TRUTH}


def compatible(count: int, num: int, share: float) -> bool:
    """Whether chance explains a count, but for one time in a thousand."""
    return binomtest(count, num, share).pvalue > 1e-3


@pytest.mark.parametrize("inside", [0, 3, 20])
def test_intervals_of_shares_are_those_of_scipy(inside):
    expected = binomtest(inside, 20).proportion_ci(0.9, "exact")
    low, high = share_interval(inside, 20, level=0.9)
    np.testing.assert_allclose([low, high], [expected.low, expected.high], rtol=1e-6)


def test_uniform_numbers_keep_to_their_band():
    rng, (low, high) = np.random.default_rng(5), uniform_band(80)

    def share_within(power: float) -> float:
        curves = [distribution_on_grid(rng.random(80) ** power) for _ in range(400)]
        return float(np.mean([np.all((low <= c) & (c <= high)) for c in curves]))

    # 400 binomial trials of 0.95, and 2000 simulations behind the band: an sd of 0.012
    assert abs(share_within(1.0) - 0.95) < 4 * 0.012
    assert share_within(1.6) < 0.5
    assert low[0] == high[0] == 0 == GRID[0]


@pytest.fixture(scope="module")
def covered():
    """By weight: coverage where the answer is known."""
    return {
        weight: coverage(normal_target(weight=weight), MEAN, num_data_sets=60, seed=3, **QUICK)
        for weight in (1.0, 4.0)
    }


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_coverage_is_what_theory_says(covered, weight):
    found = covered[weight]
    # the posterior has sd 1/sqrt(w n), its mean over data sets 1/sqrt(n)
    expected = 2 * norm.cdf(norm.ppf((1 + found.levels) / 2) / np.sqrt(weight)) - 1
    counts = np.round(found.shares[0] * 60).astype(int)
    assert all(compatible(k, 60, p) for k, p in zip(counts, expected, strict=True))
    # of 60 data sets, the sd of means is known to a share of 1/sqrt(120)
    assert abs(np.log(found.sd_ratio[0] * np.sqrt(weight))) < 4 / np.sqrt(120)
    assert abs(found.bias[0]) < 4 / np.sqrt(25 * 60)


def test_a_posterior_that_is_too_sure_is_found_out(covered):
    assert covered[1.0].findings == ()
    (finding,) = covered[4.0].findings
    assert "too narrow" in finding
    assert not compatible(round(covered[4.0].shares[0, -1] * 60), 60, 0.95)
    assert "!" in str(covered[4.0].table())


def test_a_wide_model_is_mended_by_the_sandwich():
    plain, mended = (
        coverage(
            normal_target(), MEAN, source=spread_out, num_data_sets=60, correct=correct, seed=1,
            **QUICK,
        )
        for correct in (None, corrected)
    )  # fmt: skip
    share = 2 * norm.cdf(norm.ppf(0.975) / 2) - 1  # data of sd 2 under a model of sd 1
    assert compatible(round(plain.shares[0, -1] * 60), 60, share)
    assert compatible(round(mended.shares[0, -1] * 60), 60, 0.95)
    assert not compatible(round(plain.shares[0, -1] * 60), 60, 0.95)


def test_executors_change_no_draw():
    class Backwards(ThreadPoolExecutor):
        """Does the jobs in the reverse order, and only when asked."""

        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            pending.append((future, fn, args, kwargs))
            if len(pending) == 4:
                for waiting, call, a, k in reversed(pending):
                    waiting.set_result(call(*a, **k))
            return future

    pending: list = []
    with ThreadPoolExecutor(2) as threads:
        found = [
            coverage(normal_target(), MEAN, num_data_sets=4, executor=e, **QUICK).claimed
            for e in (None, threads, Backwards())
        ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    more = coverage(normal_target(), MEAN, num_data_sets=5, **QUICK).claimed
    np.testing.assert_array_equal(more[:4], found[0])


@pytest.mark.slow
def test_processes_change_no_draw():
    settings = {"num_data_sets": 3, "num_samples": 200, "num_warmup": 100}
    here = coverage(normal_target(), MEAN, **settings)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        there = coverage(normal_target(), MEAN, executor=processes, **settings)
        unknown = normal_target(log_prob=lambda theta, y: -jnp.sum((y - theta["mean"]) ** 2))
        with pytest.raises(Exception, match="lambda") as caught:
            coverage(unknown, MEAN, executor=processes, **settings)
    np.testing.assert_array_equal(here.claimed, there.claimed)
    assert "in a module of yours" in str(caught.value.__notes__)


def test_precision_goes_along_with_threads(precision):
    target = normal_target()
    with ThreadPoolExecutor(1) as threads:
        here, there = (
            coverage(target, MEAN, num_data_sets=2, executor=e, **QUICK) for e in (None, threads)
        )
    np.testing.assert_array_equal(here.claimed, there.claimed)


PRIOR = gb.Prior(a=dist.Normal(0.0, 1.0), b=dist.LogNormal(0.0, 0.5))
LOCATION_SCALE = gb.Simulator(
    lambda theta, z: theta["a"] + theta["b"] * z, noise=dist.Normal(0.0, 1.0)
)


def log_prob(theta, y):
    return -0.5 * ((y[0] - theta["a"]) / theta["b"]) ** 2 - jnp.log(theta["b"])


def test_all_together_and_the_mean_of_a_run():
    """Two parameters; the truth is the run's mean unless given."""
    y = jnp.linspace(-1.0, 3.0, 12)
    target = gb.ScorePosterior(gb.Problem(PRIOR, LOCATION_SCALE, y), gb.LogScore(log_prob))
    point = {"a": 1.0, "b": 1.0}
    run = gb.sample(target, gb.SGLD(0.02), num_samples=200, progress=False, start=point)
    found = coverage(run, num_data_sets=3, num_samples=200, levels=(0.8,), start=point)
    assert found.names == ("a", "b", "all together")
    assert found.shares.shape == (3, 1)
    assert np.all((found.claimed > 0) & (found.claimed < 1))
    found.plot().canvas.draw()


@pytest.fixture(scope="module")
def ranked():
    """Ranks of a right posterior, and of one whose likelihood has a mistake."""
    return {
        name: sbc(
            normal_target(prior_sd=1.0, **settings), sampler=Conjugate(), num_data_sets=60,
            num_ranks=50, num_samples=200, num_warmup=0, seed=2,
        )
        for name, settings in {"right": {}, "narrow": {"log_prob": log_narrow}}.items()
    }  # fmt: skip


def test_ranks_are_uniform_where_all_is_right(ranked):
    found = ranked["right"]
    assert found.findings == ()
    assert found.p_values.min() > 1e-3
    assert found.notes == ()
    assert "worth" not in str(found.table())


def test_a_mistake_in_the_likelihood_is_found(ranked):
    found = ranked["narrow"]
    (finding,) = found.findings
    assert finding.startswith("mean: posteriors are too narrow")
    # three times the weight of 25 observations under a prior of sd 1: a posterior of variance
    # 1/76 about a point that is off by a variance of (75/76)^2 / 25 + 1/76^2
    spread = np.sqrt(76 * ((75 / 76) ** 2 / 25 + 1 / 76**2))
    central = np.abs(2 * found.pit[:, 0] - 1) <= 0.8
    assert compatible(int(central.sum()), 60, 2 * norm.cdf(norm.ppf(0.9) / spread) - 1)


def test_correlated_draws_are_noticed(ranked):
    found = sbc(
        normal_target(prior_sd=1.0), sampler=gb.SGLD(1e-4), num_data_sets=4, num_ranks=50,
        num_samples=100,
    )  # fmt: skip
    assert "correlated draws push ranks" in str(found.table())


@pytest.mark.slow
def test_nuts_on_an_exact_target_is_calibrated():
    """A location and a scale, with the Jacobian of its logarithm; and without."""
    problem = gb.Problem(PRIOR, LOCATION_SCALE, jnp.arange(12.0))
    settings = {"num_data_sets": 200, "num_samples": 1000, "num_warmup": 400}
    right = sbc(gb.ScorePosterior(problem, gb.LogScore(log_prob)), **settings)
    assert right.findings == ()
    # three times the Jacobian of b = exp(u) is missing, spread over twelve observations
    wrong = gb.LogScore(lambda theta, y: log_prob(theta, y) - jnp.log(theta["b"]) / 4)
    off = sbc(gb.ScorePosterior(problem, wrong), **settings)
    assert any(finding.startswith("b: posteriors are too low") for finding in off.findings)


REFUSED = {
    "no run": (lambda: coverage([1.0], MEAN), TypeError, "a Run or a ScorePosterior, got list"),
    "no truth": (lambda: coverage(normal_target()), ValueError, "Give the truth"),
    "outside": (lambda: coverage(normal_target(), {"a": 1.0}), ValueError, "Expected a value"),
    "a level": (lambda: coverage(normal_target(), MEAN, levels=(95,)), ValueError, "levels? must"),
    "one data set": (
        lambda: coverage(normal_target(), MEAN, num_data_sets=1), ValueError,
        "num_data_sets must be at least 2",
    ),
    "no exact score": (
        lambda: sbc(gb.ScorePosterior(gb.tasks.normal_location().problem(), gb.EnergyScore())),
        ValueError, "coverage",
    ),
    "more ranks than draws": (
        lambda: sbc(normal_target(), num_samples=50), ValueError, "The ranks are among these draws",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_makes_no_sense_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_stored_run_needs_its_sampler(made_run):
    with pytest.raises(ValueError, match="does not hold its sampler"):
        coverage(made_run(), MEAN, target=normal_target())


def test_data_sets_that_fail_are_counted():
    def source(key, num):
        y = jax.random.normal(key, (num,))
        return jnp.where(y[0] > 0.3, jnp.inf, y)

    found = coverage(normal_target(), MEAN, source=source, num_data_sets=12, **QUICK)
    assert 0 < found.num_data_sets < 12
    assert "the first because the data set was not finite" in str(found.table())

    def correct(run):
        raise ValueError("no such luck")

    with pytest.raises(ValueError, match="because of a ValueError: no such luck"):
        coverage(normal_target(), MEAN, num_data_sets=2, correct=correct, **QUICK)
    with pytest.raises(ValueError, match="Hardly any of 2 data sets"):
        coverage(
            normal_target(), MEAN, source=lambda key, num: jnp.full(num, jnp.nan),
            num_data_sets=2, **QUICK,
        )  # fmt: skip
