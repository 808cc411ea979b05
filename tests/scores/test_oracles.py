"""Scores against brute force, closed forms, other packages and transcriptions of the formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as special
import scipy.stats as stats
import scoringrules
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import LedoitWolf
from tests.scores.cases import KERNELS, cosine, data

from genbayes import kernels
from genbayes.scores import (
    DawidSebastiani,
    EnergyScore,
    GaussianCopulaScore,
    KernelScore,
    SemiparametricSyntheticLikelihood,
    SyntheticLikelihood,
    VariogramScore,
    _pairs,
    _sorted,
    energy_distance,
    mmd,
)
from genbayes.scores._density import log_quantile, tail_over_bell
from genbayes.scores._sorted import absolute_within, balance

FORMULAS = {
    "gaussian": lambda r: np.exp(-(r**2) / (2 * 1.5**2)),
    "laplace": lambda r: np.exp(-r / 1.5),
    "inverse multiquadric": lambda r: (1 + r**2 / 1.5**2) ** -0.5,
    "steep inverse multiquadric": lambda r: (1 + r**2 / 1.5**2) ** -1.2,
    "rational quadratic": lambda r: (1 + r**2 / (2 * 0.7 * 1.5**2)) ** -0.7,
    "matern 3/2": lambda r: (1 + 3**0.5 * r / 1.5) * np.exp(-(3**0.5) * r / 1.5),
    "matern 5/2": lambda r: (
        (1 + 5**0.5 * r / 1.5 + 5 * r**2 / (3 * 1.5**2)) * np.exp(-(5**0.5) * r / 1.5)
    ),
    "sum": lambda r: np.exp(-(r**2) / 2) + 0.5 * np.exp(-r / 2),
}


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def small_tiles(monkeypatch, double):
    """Tiles so small that a few points need many, the last ones padded."""

    def clear():
        _pairs._within.clear_cache()
        _pairs._between.clear_cache()

    sizes = {"_TILE": 3, "_CUSTOM_TILE": 2, "_TILES": 3, "_PAIRS": 40, "_FEW": 5}
    for name, size in sizes.items():
        monkeypatch.setattr(_pairs, name, size)
    clear()
    yield
    clear()


def distances(x, y):
    return np.sqrt(np.sum((x[:, None] - y[None]) ** 2, axis=-1))


def brute(values_xx, values_xy):
    """Means over different draws, and of each observation against all draws."""
    m = len(values_xx)
    off = np.sum(values_xx) - np.trace(values_xx)
    return 2 * np.mean(values_xy, axis=0) - off / (m * (m - 1))


shapes = st.tuples(st.integers(2, 40), st.integers(1, 30), st.integers(1, 6), st.integers(0, 2**31))


@settings(max_examples=6, deadline=None)
@given(shape=shapes, beta=st.sampled_from([1.0, 0.5, 1.5]))
def test_energy_by_brute_force(shape, beta):
    m, n, d, seed = shape
    x, y = data(m, n, d, seed)
    expected = brute(distances(x, x) ** beta, distances(x, y) ** beta)
    with jax.enable_x64(True):
        score = EnergyScore(beta)
        each, total = jax.jit(score)(x, y), jax.jit(score.total)(x, y)
        np.testing.assert_allclose(each, expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(total, np.sum(expected), rtol=1e-9, atol=1e-9)


@settings(max_examples=6, deadline=None)
@given(shape=shapes, name=st.sampled_from(sorted(FORMULAS)))
def test_kernels_by_brute_force(shape, name):
    m, n, d, seed = shape
    x, y = data(m, n, d, seed)
    expected = -brute(FORMULAS[name](distances(x, x)), FORMULAS[name](distances(x, y)))
    with jax.enable_x64(True):
        score = KernelScore(KERNELS[name])
        each, total = jax.jit(score)(x, y), jax.jit(score.total)(x, y)
        np.testing.assert_allclose(each, expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(total, np.sum(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_kernel_of_two_points(name, double):
    x, y = data(3, 3)
    values = jax.vmap(KERNELS[name])(x, y)
    expected = FORMULAS[name](np.linalg.norm(x - y, axis=1))
    np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_the_exponential_of_single_precision(name):
    """Its error is that of the exponent, and its slope its own."""
    exponent = np.append(np.linspace(0, 80, 4001), [np.nan])
    r = np.float32((2 * exponent) ** 0.5 if name == "gaussian" else exponent)
    exponent = np.float64(r) ** 2 / 2 if name == "gaussian" else np.float64(r)
    kernel = kernels.Gaussian(1.0) if name == "gaussian" else kernels.Laplace(1.0)
    value, slope = kernel.radial(jnp.asarray(r) ** 2)
    assert value[0] == 1
    assert np.all(np.abs(value / np.exp(-exponent) - 1)[:-1] < 2**-23 * (2 + exponent[:-1]))
    assert np.isnan(value[-1])
    grad = jax.vmap(jax.grad(lambda s: kernel.radial(s)[0]))(jnp.asarray(r[1:-1]) ** 2)
    np.testing.assert_allclose(2 * grad, slope[1:-1], rtol=1e-5)


@pytest.mark.parametrize(("m", "n", "d"), [(23, 4, 3), (11, 31, 2), (9, 9, 70), (40, 1, 1)])
@pytest.mark.parametrize("name", ["energy", "gaussian", "custom"])
def test_many_tiles_give_what_one_gives(name, m, n, d, small_tiles):
    """Value and gradient, at the draws and at the observations, against plain differentiation."""
    x, y = (jnp.asarray(part) for part in data(m, n, d))
    score = EnergyScore(1.2) if name == "energy" else KernelScore(KERNELS[name])
    value, grads = jax.jit(jax.value_and_grad(score.total, (0, 1)))(x, y)
    expected, expected_grads = jax.jit(jax.value_and_grad(textbook(name), (0, 1)))(x, y)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    for got, want in zip(grads, expected_grads, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)


def textbook(name):
    def pair(a, b):
        if name == "custom":
            return -cosine(a, b)
        squared = jnp.sum((a - b) ** 2)
        if name == "gaussian":
            return -jnp.exp(-squared / (2 * 1.5**2))
        return jnp.where(squared > 0, squared, 1.0) ** 0.6 * (squared > 0)

    def total(x, y):
        (m, _), n = x.shape, y.shape[0]
        every = jax.vmap(jax.vmap(pair, (None, 0)), (0, None))
        within = jnp.where(np.eye(m, dtype=bool), 0.0, every(x, x))
        return 2 / m * jnp.sum(every(x, y)) - n * jnp.sum(within) / (m * (m - 1))

    return total


def test_long_samples_on_the_line_are_sorted(double):
    x, y = data(1500, 700, 1)
    score = EnergyScore()
    expected = np.sum(brute(distances(x, x), distances(x, y)))
    value, gradient = jax.jit(jax.value_and_grad(score.total))(jnp.asarray(x), y)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    signs = 2 * np.sign(x - y.T).sum(1) / 1500 - 700 * 2 * np.sign(x - x.T).sum(1) / (1500 * 1499)
    np.testing.assert_allclose(gradient[:, 0], signs, atol=1e-10)


@pytest.mark.parametrize("ties", [False, True])
def test_draws_on_the_line_may_be_equal(ties, double):
    """Of several chains, in which equal draws pull neither way."""
    x = np.random.default_rng(0).normal(size=(3, 40))
    if ties:
        x[1] = np.round(x[1])
    signs = np.sign(x[:, :, None] - x[:, None, :]).sum(-1)
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(absolute_within)))(jnp.asarray(x))
    np.testing.assert_allclose(value, np.abs(x[:, :, None] - x[:, None, :]).sum((1, 2)))
    np.testing.assert_array_equal(gradient, 2 * signs)


@pytest.mark.parametrize("by_sorting", [False, True])
def test_the_draws_below_less_those_above(by_sorting, precision, monkeypatch):
    monkeypatch.setattr(_sorted, "_ALL_PAIRS", 0 if by_sorting else 99)
    x = np.random.default_rng(0).normal(size=60)
    x[:30] = np.round(x[:30])  # some are equal, others not
    x = x.astype(f"float{precision}")
    np.testing.assert_array_equal(balance(jnp.asarray(x)), np.sign(x[:, None] - x).sum(1))


def test_gradients_at_the_observations_on_the_line(double):
    x, y = (jnp.asarray(part) for part in data(12, 5, 1))
    gradient = jax.jit(jax.grad(EnergyScore().total, 1))(x, y)
    np.testing.assert_allclose(gradient, 2 * jnp.mean(jnp.sign(y - x.T), 1, keepdims=True))


def test_derivative_in_the_bandwidth(double):
    x, y = data()

    @jax.jit
    def total(bandwidth):
        return KernelScore(kernels.Gaussian(bandwidth)).total(x, y)

    difference = (total(1.2 + 1e-5) - total(1.2 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(total)(1.2), difference, rtol=1e-7)
    np.testing.assert_allclose(jax.jacfwd(total)(1.2), difference, rtol=1e-7)


def test_fair_estimators_of_scoringrules(double):
    x, y = data(30, 5, 3)

    def fair(rule, **settings):
        return np.array([rule(obs, x, estimator="fair", **settings) for obs in y])

    np.testing.assert_allclose(EnergyScore()(x, y), 2 * fair(scoringrules.es_ensemble))
    # their kernel score has k(y, y) = 1 added
    kernel = 2 * fair(scoringrules.gksmv_ensemble) - 1
    np.testing.assert_allclose(KernelScore(kernels.Gaussian(1.0))(x, y), kernel)
    np.testing.assert_allclose(VariogramScore(0.5)(x, y), fair(scoringrules.vs_ensemble, p=0.5))
    crps = [scoringrules.crps_ensemble(obs, x[:, 0], estimator="fair") for obs in y[:, 0]]
    np.testing.assert_allclose(EnergyScore()(x[:, :1], y[:, :1]), 2 * np.array(crps))


def test_closed_forms_of_a_normal_model():
    """With 100 000 draws; tolerance of five standard errors of the estimate."""
    x = np.random.default_rng(0).normal(size=(100_000, 1))
    y = np.array([[-2.0], [0.1], [1.0]])
    exact = 2 * (y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y)) - 2 / np.sqrt(np.pi)
    error = 5 * 2 / np.sqrt(100_000)
    np.testing.assert_allclose(EnergyScore().total(x, y), np.sum(exact), atol=3 * error)


@pytest.mark.parametrize("d", [1, 3])
def test_closed_form_of_the_gaussian_kernel(d):
    rng, gamma, m = np.random.default_rng(1), 1.3, 4000
    mix = np.eye(d) + 0.5 * np.tri(d, k=-1)
    covariance, identity = mix @ mix.T, np.eye(d)
    x, y = rng.normal(size=(m, d)) @ mix.T, rng.normal(size=(2, d))

    def expected(points, cov):
        scale = np.sqrt(np.linalg.det(identity + cov / gamma**2))
        inverse = np.linalg.inv(cov + gamma**2 * identity)
        return np.exp(-0.5 * np.einsum("ij,jk,ik->i", points, inverse, points)) / scale

    exact = expected(np.zeros((1, d)), 2 * covariance) - 2 * expected(y, covariance)
    estimate = KernelScore(kernels.Gaussian(gamma))(x, y)
    np.testing.assert_allclose(estimate, exact, atol=5 / np.sqrt(m))


@pytest.mark.parametrize("unbiased", [True, False])
def test_distances_of_two_samples(unbiased, double):
    x, y = data(20, 15, 2)

    def mean(values, square):
        if not (square and unbiased):
            return np.mean(values)
        return (np.sum(values) - np.trace(values)) / (len(values) * (len(values) - 1))

    def distance(of):
        parts = mean(of(distances(x, x)), True) + mean(of(distances(y, y)), True)
        return 2 * mean(of(distances(x, y)), False) - parts

    got = energy_distance(x, y, beta=1.3, unbiased=unbiased)
    np.testing.assert_allclose(got, distance(lambda r: r**1.3))
    for name in ("gaussian", "laplace"):
        got = mmd(x, y, KERNELS[name], unbiased=unbiased)
        np.testing.assert_allclose(got, -distance(FORMULAS[name]))


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_more_pairs_than_32_bits_count(statistic):
    x, y = jax.ShapeDtypeStruct((100_000, 5), jnp.float32), data(2, 3, 5)[1]
    for score in (EnergyScore(statistic=statistic), KernelScore(cosine, statistic)):
        assert jax.eval_shape(lambda x, s=score: s.total(x, y), x).shape == ()
        assert jax.eval_shape(lambda x, s=score: s(x, y), x).shape == (3,)
    unbiased = statistic == "U"
    for distance in (energy_distance, lambda x, z, **settings: mmd(x, z, cosine, **settings)):
        result = jax.eval_shape(lambda x, f=distance: f(x, x, unbiased=unbiased), x)
        assert result.shape == ()


@pytest.mark.parametrize("name", ["energy", "gaussian"])
def test_memory_does_not_grow_with_the_pairs(name):
    """The matrix of pairs would take 37 GiB; what the compiler sets aside is a few tiles."""
    x, y = jax.ShapeDtypeStruct((100_000, 5), jnp.float32), data(2, 10, 5)[1]
    score = EnergyScore() if name == "energy" else KernelScore(KERNELS[name])
    step = jax.jit(jax.value_and_grad(score.total))
    needed = step.lower(x, score.prepare(y)).compile().memory_analysis()
    assert needed.temp_size_in_bytes < 64 * 2**20
    everything = jax.jit(lambda x: score(x, y)).lower(x).compile().memory_analysis()
    assert everything.temp_size_in_bytes < 64 * 2**20


def test_distances_refuse():
    x = np.zeros((3, 2))
    with pytest.raises(ValueError, match=r"two samples of shapes .* got \(3, 2\) and \(3,\)"):
        energy_distance(x, x[:, 0])
    with pytest.raises(ValueError, match="at least 2 points in each sample, got 3 and 1"):
        mmd(x, x[:1], kernels.Gaussian(1.0))
    with pytest.raises(ValueError, match="beta must lie strictly between 0 and 2, got 2"):
        energy_distance(x, x, beta=2)


def test_synthetic_likelihood_by_scipy(double):
    x, y = data(50, 6, 3)
    density = stats.multivariate_normal(x.mean(0), np.cov(x.T, ddof=0))
    np.testing.assert_allclose(SyntheticLikelihood()(x, y), -density.logpdf(y))
    half = 0.5 * DawidSebastiani()(x, y) + 1.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(SyntheticLikelihood()(x, y), half)


@pytest.mark.parametrize(("m", "d"), [(50, 3), (8, 12), (20, 1)])
def test_ledoit_wolf_by_scikit_learn(m, d, double):
    x, y = data(m, 4, d)
    density = stats.multivariate_normal(x.mean(0), LedoitWolf().fit(x).covariance_)
    score = SyntheticLikelihood(shrinkage="ledoit-wolf")
    np.testing.assert_allclose(score(x, y), -density.logpdf(y))


def test_warton_shrinks_the_correlation(double):
    x, y = data(50, 4, 3)
    covariance = np.cov(x.T, ddof=0)
    sd = np.sqrt(np.diag(covariance))
    correlation = 0.7 * covariance / np.outer(sd, sd) + 0.3 * np.eye(3)
    density = stats.multivariate_normal(x.mean(0), np.outer(sd, sd) * correlation)
    np.testing.assert_allclose(SyntheticLikelihood(shrinkage=0.3)(x, y), -density.logpdf(y))


def unbiased_density(x, y):
    """Price et al. (2018), equation 5, with the constants written out."""
    m, d = x.shape
    centred = x - x.mean(0)
    scatter = centred.T @ centred

    def log_c(v):
        gammas = sum(special.gammaln((v - i + 1) / 2) for i in range(1, d + 1))
        return -d * v / 2 * np.log(2) - d * (d - 1) / 4 * np.log(np.pi) - gammas

    constant = -d / 2 * np.log(2 * np.pi) + log_c(m - 2) - log_c(m - 1)
    constant -= d / 2 * np.log(1 - 1 / m)
    _, log_det = np.linalg.slogdet(scatter)
    results = []
    for row in y - x.mean(0):
        rest = scatter - np.outer(row, row) / (1 - 1 / m)
        inside = np.linalg.eigvalsh(rest)[0] > 0
        power = (m - d - 3) / 2 * np.linalg.slogdet(rest)[1] if inside else -np.inf
        results.append(constant - (m - d - 2) / 2 * log_det + power)
    return np.array(results)


def test_unbiased_density_by_its_formula(double):
    x, y = data(12, 5, 2)
    y[4] += 100.0
    score = SyntheticLikelihood(unbiased_density=True)(x, y)
    np.testing.assert_allclose(score, -unbiased_density(x, y))
    assert np.isposinf(score[4])


def semiparametric(x, y):
    """An, Nott and Drovandi (2020), by SciPy's kernel density estimate and ranks."""
    m, d = x.shape
    log_density, eta = np.zeros(len(y)), np.zeros_like(y)
    for k in range(d):
        kde = stats.gaussian_kde(x[:, k], bw_method="silverman")
        log_density += kde.logpdf(y[:, k])
        cdf = [kde.integrate_box_1d(-np.inf, value) for value in y[:, k]]
        eta[:, k] = stats.norm.ppf(cdf)
    scores = stats.norm.ppf(stats.rankdata(x, axis=0) / (m + 1))
    scores /= np.linalg.norm(scores, axis=0)
    correlation = scores.T @ scores
    inverse = np.linalg.inv(correlation) - np.eye(d)
    copula = np.linalg.slogdet(correlation)[1] / 2
    copula = copula + np.einsum("ij,jk,ik->i", eta, inverse, eta) / 2
    return copula, copula - log_density


def test_equal_draws_share_their_mean_rank(double):
    x, y = data(40, 3, 2)
    x[:30] = np.round(x[:30], 1)
    x[5] = x[6]
    np.testing.assert_allclose(GaussianCopulaScore()(x, y), semiparametric(x, y)[0], rtol=1e-8)


def test_tails_and_quantiles_of_a_normal(precision):
    """Far beyond where the probability itself is 0."""
    exact = 5 * 2.0 ** (-23 if precision == 32 else -51)
    eta = np.append(np.linspace(0, 12, 200), np.geomspace(12, 1e4, 50))
    tail = 0.5 * special.erfcx(eta / 2**0.5)
    np.testing.assert_allclose(tail_over_bell(jnp.asarray(eta)), tail, rtol=exact)
    found = log_quantile(jnp.asarray(special.log_ndtr(-eta)))
    np.testing.assert_allclose(found, -eta, rtol=exact, atol=exact)


def test_semiparametric_by_scipy(double):
    x, y = data(80, 6, 3)
    copula, full = semiparametric(x, y)
    np.testing.assert_allclose(GaussianCopulaScore()(x, y), copula, rtol=1e-8)
    np.testing.assert_allclose(SemiparametricSyntheticLikelihood()(x, y), full, rtol=1e-8)


@pytest.mark.parametrize("offset", [6.0, 40.0, 1e4])
def test_semiparametric_far_out(offset):
    """Single precision agrees with double where the distribution function rounds to 0 or 1."""
    score = SemiparametricSyntheticLikelihood()
    x = np.float32(data(100, 1, 2)[0])
    y = np.float32([[offset, -offset], [-offset, offset], [offset, offset]])
    single = jax.jit(score)(x, y)
    gradient = jax.jit(jax.grad(lambda x: score.total(x, y)))(jnp.asarray(x))
    assert np.all(np.isfinite(gradient))
    with jax.enable_x64(True):
        double = jax.jit(score)(x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(single, double, rtol=1e-4)


def test_normal_quantile_of_a_log_probability(double):
    from genbayes.scores._density import log_quantile

    eta = -np.array([0.0, 0.5, 3.0, 5.0, 12.0, 40.0, 1e3, 1e6])
    np.testing.assert_allclose(log_quantile(special.log_ndtr(eta)), eta, rtol=1e-12, atol=1e-12)


def test_covariances_need_enough_draws():
    x, y = data(5, 2, 6)
    for score in (DawidSebastiani(), SyntheticLikelihood(), SemiparametricSyntheticLikelihood()):
        with pytest.raises(ValueError, match="more than 6 simulations in dimension 6, got 5"):
            score.total(x, y)
    with pytest.raises(ValueError, match="more than 5 simulations in dimension 2"):
        SyntheticLikelihood(unbiased_density=True).total(x[:, :2], y[:, :2])
    assert np.isfinite(SyntheticLikelihood(shrinkage="ledoit-wolf").total(x, y))
    assert np.isfinite(SyntheticLikelihood(shrinkage=0.5).total(x, y))


REFUSALS = {
    "beta": (lambda: EnergyScore(2.0), "beta must lie strictly between 0 and 2, got 2.0"),
    "bandwidth": (lambda: kernels.Gaussian(0.0), "bandwidth must be .* above 0, got 0.0"),
    "exponent": (lambda: kernels.InverseMultiquadric(1.0, -1.0), "exponent must be .* above 0"),
    "alpha": (lambda: kernels.RationalQuadratic(1.0, alpha=-1.0), "alpha must be .* above 0"),
    "no weight": (lambda: kernels.Sum((kernels.Gaussian(1.0),), ()), "1 kernels and 0 weights"),
    "kernel weight": (lambda: -2.0 * kernels.Gaussian(1.0), "weight of a kernel must be .* above"),
    "shrinkage": (lambda: SyntheticLikelihood(shrinkage="lasso"), 'None, "ledoit-wolf" or a num'),
    "much": (lambda: SyntheticLikelihood(shrinkage=1.5), "above 0 and up to 1, got 1.5"),
    "both": (lambda: SyntheticLikelihood(0.5, unbiased_density=True), "choose one of the two"),
    "order": (lambda: VariogramScore(0.0), "p must be .* above 0, got 0.0"),
    "weights": (lambda: VariogramScore(weights=jnp.ones(3)), r"square matrix \(d, d\).*\(3,\)"),
    "line": (lambda: VariogramScore().prepare(np.ones((3, 1))), "d of at least 2, got 1"),
    "alone": (lambda: GaussianCopulaScore()(*data(9, 2, 1)), "d of at least 2, got 1"),
    "temperature": (lambda: KernelScore.mmd_bayes(kernels.Gaussian(1.0), -1.0, 3), "beta must be"),
    "count": (lambda: KernelScore.mmd_bayes(kernels.Gaussian(1.0), 1.0, 0), "n must be at least 1"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_settings(name):
    make, message = REFUSALS[name]
    with pytest.raises(ValueError, match=message):
        make()


def test_a_kernel_is_a_function():
    with pytest.raises(TypeError, match=r"expects a function k\(x, y\) of two points, got 3"):
        KernelScore(3)  # pyright: ignore
    with pytest.raises(TypeError, match="unsupported operand"):
        kernels.Gaussian(1.0) + 1


def test_properness_of_a_kernel_score_is_that_of_its_kernel():
    assert KernelScore(kernels.Gaussian(1.0)).strictly_proper
    assert not KernelScore(cosine).strictly_proper
    assert KernelScore(kernels.Custom(cosine) + kernels.Gaussian(1.0)).strictly_proper
    assert KernelScore(kernels.Custom(cosine, characteristic=True)).strictly_proper
