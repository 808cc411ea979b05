"""The Stein discrepancy agrees with other implementations, and does what it is for."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from stein_thinning.kernel import vfk0_imq
from stein_thinning.stein import ksd as thinning_ksd
from tests.support.plain import prior_target
from tests.support.problems import OBSERVATIONS, PlainEnergy, location_problem

import genbayes as gb
from genbayes.diagnostics import fresh_gradients, ksd, ksd_path, stein_discrepancy
from genbayes.diagnostics._discrepancy import Kernel, squared_path

SIZES = np.array([1, 2, 50, 255, 256, 257, 300])  # about the border of a block, and beyond it


def stein_kernel_by_coordinate(x, s, c, beta):
    """`(p, N, N)` by the formula, without any trick."""
    r = x[:, None] - x[None]
    q = (c**2 + np.sum(r**2, axis=-1))[..., None]
    first, second = s[:, None], s[None]
    dx = 2 * beta * r * q ** (beta - 1)
    dxdy = -2 * beta * q ** (beta - 1) - 4 * beta * (beta - 1) * r**2 * q ** (beta - 2)
    return np.moveaxis(dxdy - first * dx + second * dx + first * second * q**beta, -1, 0)


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 3)) + 5, rng.normal(size=(300, 3)), rng.uniform(0.5, 2, 300)


def test_agrees_with_stein_thinning_along_the_path(sample, precision):
    x, s, _ = sample

    def pair(i, j):
        i, j = (k if isinstance(k, slice) else np.ravel(k) for k in (i, j))
        return np.squeeze(vfk0_imq(x[i], x[j], s[i], s[j], np.eye(3)))

    expected = thinning_ksd(pair, 300)[SIZES - 1]
    found = np.sqrt(squared_path(x, s, SIZES, Kernel()).sum(axis=1))
    np.testing.assert_allclose(found, expected, rtol=1e-5 if precision == 32 else 1e-11)


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_the_plain_formula(sample, statistic, weighted, precision):
    x, s, weights = sample
    weights = weights if weighted else np.ones(300)
    pairs = stein_kernel_by_coordinate(x, s, 1.7, -0.3) * weights[:, None] * weights[None]
    mass = weights[:, None] * weights[None]
    if statistic == "U":
        pairs, mass = pairs * (1 - np.eye(300)), mass * (1 - np.eye(300))
    sizes = SIZES[1:]
    expected = [pairs[:, :n, :n].sum(axis=(1, 2)) / mass[:n, :n].sum() for n in sizes]
    kernel = Kernel(1.7, -0.3)
    found = squared_path(x, s, sizes, kernel, statistic, weights if weighted else None)
    tolerance = 1e-5 if precision == 32 else 1e-11
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_many_coordinates_go_by_products(precision):
    rng = np.random.default_rng(1)
    x, s = rng.normal(size=(40, 30)), rng.normal(size=(40, 30))
    expected = stein_kernel_by_coordinate(x, s, 1.0, -0.5).mean(axis=(1, 2))
    found = squared_path(x, s, np.array([40]), Kernel())[0]
    np.testing.assert_allclose(found, expected, rtol=2e-4 if precision == 32 else 1e-10)


def test_forms():
    rng = np.random.default_rng(2)
    x, s = rng.normal(size=(30, 3)), rng.normal(size=(30, 3))
    squared = stein_kernel_by_coordinate(x, s, 1.0, -0.5).mean(axis=(1, 2))
    assert stein_discrepancy(x, s) == pytest.approx(np.sqrt(squared.sum()), rel=1e-5)
    coordinates = stein_discrepancy(x, s, form="coordinates")
    assert coordinates == pytest.approx(np.sqrt(squared).sum(), rel=1e-5)


def test_falls_as_root_n_on_exact_draws_and_stays_up_on_others():
    x = np.random.default_rng(3).normal(size=(4000, 2))
    sizes = np.array([250, 1000, 4000])

    def path(points):
        return np.sqrt(squared_path(points, -points, sizes, Kernel()).sum(axis=1))

    # N KSD^2 has mean E k0(X, X) = 2 p and a relative sd below 1 under the target
    exact = path(x) ** 2 * sizes / 4
    assert np.all((exact > 0.25) & (exact < 4))
    for wrong in (x + 0.3, 1.3 * x, 0.75 * x):
        biased = path(wrong)
        assert biased[-1] > 4 * path(x)[-1]
        assert biased[-1] > 0.8 * biased[0]


def test_the_u_statistic_is_free_of_gradient_noise():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2000, 1))
    noisy = -x + 3 * rng.normal(size=x.shape)
    v, u = (
        squared_path(x, noisy, np.array([2000]), Kernel(), statistic)[0, 0]
        for statistic in ("V", "U")
    )
    # of the V-statistic E k0(X, X) / N = (1 + 1 + 9) / N is the diagonal's
    assert v - u * 1999 / 2000 == pytest.approx(11 / 2000, rel=0.1)
    # sd of the U-statistic: root of 2 E k0(X, X')^2 / N^2, and (1 + 9)^2 bounds the mean square
    assert abs(u) < 4 * np.sqrt(2) * 10 / 2000


@pytest.fixture
def exact_run(made_run):
    """Four chains of independent draws from `prior_target`."""
    u = np.random.default_rng(5).normal(size=(4, 200, 2)) * np.array([1.0, 2.0])
    return replace(made_run(), unconstrained=u, target=prior_target(), info={})


def test_a_run_is_looked_at_with_its_own_gradients(exact_run):
    result = ksd(exact_run)
    x = exact_run.unconstrained.reshape(-1, 2)
    assert result.value == pytest.approx(stein_discrepancy(x, -x / np.array([1, 4])), rel=1e-5)
    assert result.num_draws == 800
    assert "exact gradients" in str(result)
    assert result.table().column("coordinate") == ["all", "a", "b"]
    assert ksd(exact_run, per_dimension=True).value == pytest.approx(result.value / 2)


def test_a_path_takes_chains_in_turns(exact_run):
    path = ksd_path(exact_run, sizes=[4, 40, 800])
    first = exact_run.unconstrained[:, :10].reshape(-1, 2)
    expected = stein_discrepancy(first, -first / np.array([1, 4]))
    assert path.path[1] == pytest.approx(expected, rel=1e-5)
    assert path.value == pytest.approx(ksd(exact_run).value)
    assert path.table().column("draws") == [4, 40, 800]
    assert ksd_path(exact_run, sizes=5).sizes.tolist() == [160, 320, 480, 640, 800]


@pytest.mark.parametrize(
    ("draws", "number"), [(None, 200), (50, 50), (slice(0, 30), 30), ([3, 5, 8], 3)]
)
def test_any_subset(exact_run, draws, number):
    assert ksd(exact_run, draws=draws).num_draws == 4 * number


def test_scaled_coordinates_are_a_change_of_variables(exact_run):
    x = exact_run.unconstrained.reshape(-1, 2) / np.array([1, 2])
    result = ksd(exact_run, scale=np.array([1.0, 2.0]))
    assert result.value == pytest.approx(stein_discrepancy(x, -x), rel=1e-5)
    sd = ksd(exact_run, scale="sd").value
    assert sd == pytest.approx(result.value, rel=0.2)


def test_weights_of_draws_count(exact_run):
    """Draws from a wider normal, weighted back to the target, are as good as its own."""
    wide = 1.5 * exact_run.unconstrained
    log_weight = np.sum((wide**2) * (1 / 1.5**2 - 1) / (2 * np.array([1, 4])), axis=-1)
    weighted = replace(exact_run, unconstrained=wide, info={"log_weight": log_weight})
    unweighted = replace(weighted, info={})
    assert ksd(weighted).value < 0.5 * ksd(unweighted).value


def test_draws_without_a_finite_gradient_are_counted(exact_run):
    u = exact_run.unconstrained.copy()
    u[0, :3] = np.nan
    result = ksd(replace(exact_run, unconstrained=u))
    assert (result.excluded, result.num_draws) == (3, 797)
    assert "3 draws were left out" in str(result)
    with pytest.raises(ValueError, match="at least 1 draws with a finite gradient, got 0"):
        ksd(replace(exact_run, unconstrained=np.full_like(u, np.nan)))


def test_gradients_that_the_sampler_met(exact_run):
    with pytest.raises(ValueError, match="Sample again with keep_gradients=True"):
        ksd(exact_run, gradients="met")
    grads = -exact_run.unconstrained / np.array([1.0, 4.0])
    kept = replace(exact_run, info={"gradient": grads}, target=None)
    assert ksd(kept, gradients="met").value == pytest.approx(ksd(exact_run).value, rel=1e-5)


def test_pictures(exact_run):
    (bars,) = ksd(exact_run).plot().axes
    assert len(bars.patches) == 2
    (curve,) = ksd_path(exact_run, sizes=4).plot().axes
    np.testing.assert_array_equal(curve.lines[0].get_xdata(), [200, 400, 600, 800])


def test_fresh_gradients_are_independent_and_unbiased():
    """For N(mean, 1) the expected energy score has a gradient in closed form."""
    target = gb.ScorePosterior(location_problem(), PlainEnergy(), num_simulations=8)
    at = np.full((4000, 1), 0.4)
    grads = fresh_gradients(target, at, num_simulations=10)[:, 0]
    inside = jax.scipy.special.erf((0.4 - OBSERVATIONS) / np.sqrt(2))
    exact = -0.4 - 2 * float(np.sum(inside))
    assert abs(grads.mean() - exact) < 4 * grads.std() / np.sqrt(4000)
    assert abs(np.corrcoef(grads[1:], grads[:-1])[0, 1]) < 4 / np.sqrt(4000)
    again = fresh_gradients(target, at, num_simulations=10)[:, 0]
    np.testing.assert_array_equal(grads, again)


def no_gradients():
    simulator = gb.BlackBox(lambda theta, rng: rng.normal(theta["mean"], 1.0))
    problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, OBSERVATIONS)
    return gb.ScorePosterior(problem, PlainEnergy(), num_simulations=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "matrix"}, "form must be one of 'vector', 'coordinates'"),
        ({"statistic": "W"}, "statistic must be one of 'U', 'V'"),
        ({"gradients": "old"}, "gradients must be one of 'fresh', 'met'"),
        ({"c": 0.0}, "c must be a finite number above 0"),
        ({"beta": -1.5}, "beta must lie strictly between -1 and 0"),
        ({"draws": slice(500, None)}, "leaves none of the 200 draws"),
        ({"scale": np.ones(3)}, "2 lengths above 0, one for each coordinate"),
        ({"scale": "iqr"}, "scale must be one of 'sd'"),
    ],
)
def test_bad_settings_are_refused(exact_run, options, message):
    with pytest.raises(ValueError, match=message):
        ksd(exact_run, **options)


def test_other_refusals(exact_run):
    with pytest.raises(ValueError, match="increasing numbers of draws between 1 and 800"):
        ksd_path(exact_run, sizes=[10, 900])
    with pytest.raises(ValueError, match="does not hold its target"):
        ksd(replace(exact_run, target=None))
    with pytest.raises(ValueError, match="BlackBox has none"):
        ksd(exact_run, target=no_gradients())
    with pytest.raises(ValueError, match=r"unconstrained points of shape \(N, 2\), got \(3, 1\)"):
        fresh_gradients(prior_target(), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="points and gradients of one shape"):
        stein_discrepancy(np.zeros((3, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="are not finite"):
        stein_discrepancy(np.zeros((3, 2)), np.full((3, 2), np.inf))
    with pytest.raises(ValueError, match="The run has no draws"):
        ksd(replace(exact_run, unconstrained=np.zeros((1, 0, 2))))


@pytest.mark.slow
def test_a_step_too_large_is_seen_where_rhat_sees_nothing():
    """SGLD at two step sizes on an exact target: only the large one keeps a distance."""
    target = prior_target()
    start = {"a": jnp.zeros(()), "b": jnp.zeros(())}
    fine, coarse = (
        gb.sample(
            target, gb.SGLD(step), num_samples=20_000, num_warmup=100, num_chains=4, start=start,
            progress=False,
        )
        for step in (0.2, 1.5)
    )  # fmt: skip
    assert max(coarse.summary().column("r-hat")) < 1.01
    assert ksd(coarse).value > 4 * ksd(fine).value
