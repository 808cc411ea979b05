"""Weights that calibrate: each does what it promises where the answer is known.

With the log score of N(mean, 1) and data of variance s^2 the curvature is n and the variance of the
gradient n s^2, so that every rule that matches repeated experiments asks for w = 1 / s^2.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from tests.support.made import run_of
from tests.support.problems import OBSERVATIONS, PlainEnergy, location_scale_problem

import genbayes as gb
from genbayes.tuning import _match_coverage as coverage_module
from genbayes.tuning._prior_draws import rng_of
from genbayes.tuning._risk import fit, minimisers

SPREAD = 2.0
Y = np.random.default_rng(4).normal(1.0, SPREAD, size=60)
RULES = ("match_information", "match_minimisers", "match_coverage")


def normal(theta, y):
    return -0.5 * jnp.sum((y - theta["mean"]) ** 2)


LOG = gb.LogScore(normal)
PRIOR = gb.Prior(mean=dist.Normal(0.0, 10.0))


def moved(theta, z):
    return theta["mean"] + z


def problem_of(y) -> gb.Problem:
    return gb.Problem(PRIOR, gb.Simulator(moved, noise=dist.Normal(0.0, 1.0)), y)


def found_by(rule: str, y, score=LOG, **options):
    return getattr(gb.tuning, rule)(problem_of(y), score, **{"num_bootstrap": 100, **options})


@pytest.fixture(scope="module")
def found():
    return {rule: found_by(rule, Y) for rule in RULES}


def test_of_a_wrong_spread(found):
    """All rules see that the model's variance is a quarter of the data's."""
    right = 1 / Y.var(ddof=1)
    # what single rules leave to chance: 100 minimisers, or 100 data sets
    np.testing.assert_allclose(found["match_information"].value, right, rtol=0.01)
    np.testing.assert_allclose(found["match_minimisers"].value, right, rtol=4 * np.sqrt(2 / 100))
    # d coverage / d log w = z phi(z), and coverage of 90 % is known to 3 % over 100 data sets
    z = norm.ppf(0.95)
    allowed = 4 * np.sqrt(0.09 / 100) / (z * norm.pdf(z))
    assert abs(np.log(found["match_coverage"].value / right)) < allowed
    for weight in found.values():
        assert weight.interval[0] < right < weight.interval[1]
        assert not weight.interval[0] < 1.0 < weight.interval[1]  # w = 1 is seen to be wrong


def test_of_a_right_model():
    """Under the log score of a right model the weight is 1."""
    y = np.random.default_rng(5).normal(1.0, 1.0, size=400)
    for rule in RULES[:2]:
        low, high = found_by(rule, y).interval
        assert low < 1.0 < high
        assert high / low < 1.5


def covers(weight: float, level: float = 0.9) -> float:
    """The coverage of credible sets over repeated data, N(1, SPREAD^2), exactly."""
    return 2 * norm.cdf(norm.ppf((1 + level) / 2) / (SPREAD * np.sqrt(weight))) - 1


def test_credible_sets_cover_over_repeated_data(found):
    """What counts: at the weight found, intervals of 90 % hold the truth in nearly so many."""
    # the weight is off by the error of the variance of 60 observations, and by chance
    slack = 4 * (np.sqrt(2 / 60) + 0.05) * norm.ppf(0.95) * norm.pdf(norm.ppf(0.95))
    for weight in found.values():
        assert abs(covers(weight.value) - 0.9) < slack
    assert covers(1.0) < 0.9 - slack  # as it stands, the posterior is far too narrow


@pytest.fixture(scope="module")
def near_energy():
    return fit(jax.random.key(0), problem_of(Y), PlainEnergy(), 256)


def slope(t, y=Y):
    """Of the energy score of N(t, 1) at each observation: that of 2 E|X - y|."""
    return 2 * (2 * norm.cdf(t - y) - 1)


def test_fit_of_the_energy_score(near_energy):
    centre = brentq(lambda t: slope(t).sum(), -5, 5)
    se = near_energy.steps[0]
    assert abs(near_energy.u[0] - centre) < 0.1 * se
    around = (slope(centre + se) - slope(centre - se)).sum() / (2 * se)
    np.testing.assert_allclose(near_energy.curvature, [[around]], rtol=0.03)
    variance = len(Y) * slope(centre).var(ddof=1)
    np.testing.assert_allclose(near_energy.variance, [[variance]], rtol=0.03)
    np.testing.assert_allclose(near_energy.directions, [around / variance], rtol=0.06)


def test_bootstrap_minimisers_are_those_of_the_weighted_sum(near_energy):
    rows = np.random.default_rng(0).dirichlet(np.ones(len(Y)), 10) * len(Y)
    u, good = minimisers(near_energy, rows)
    assert good.all()
    for row, at in zip(rows, u[:, 0], strict=True):
        right = brentq(lambda t, row=row: row @ slope(t), -5, 5)
        assert abs(at - right) < 0.15 * near_energy.steps[0]
    assert np.ptp(u) > 2 * near_energy.steps[0]  # they differ by far more than that


def test_two_parameters():
    """Location and scale of a right model: both directions ask for about 1, and are told."""
    y = np.random.default_rng(6).normal(0.5, 1.5, size=200)

    def log_prob(theta, y):
        return dist.Normal(theta["mean"], theta["scale"]).log_prob(y[0])

    near = fit(jax.random.key(0), location_scale_problem(y), gb.LogScore(log_prob), 2)
    np.testing.assert_allclose(near.u, [y.mean(), np.log(y.std())], atol=0.02)
    # the sample's own: kurtosis and skewness decide how far from 1
    z = (y - y.mean()) / y.std()
    j = len(y) * np.cov(np.stack([z / y.std(), z**2 - 1]))
    h = len(y) * np.diag([1 / y.var(), 2.0])
    right = np.sort(np.linalg.eigvals(np.linalg.solve(j, h)).real)
    np.testing.assert_allclose(near.directions, right, rtol=0.05)


class TestVariance:
    def test_a_known_ratio(self):
        half = gb.LogScore(lambda theta, y: 0.5 * normal(theta, y))
        reference = gb.ScorePosterior(problem_of(Y), LOG, weight=1.5)
        result = gb.tuning.match_variance(problem_of(Y), half, reference=reference, num_draws=600)
        low, high = result.interval
        assert low < 3.0 < high
        assert high / low < 1.5
        np.testing.assert_allclose(result.sd, result.reference_sd, rtol=1e-3)
        assert result.findings == ()
        assert not low < 1.5 < high  # that of the other score is no match

    def test_a_run_as_reference(self):
        """Draws of known sd; the posterior is normal with precision w n + 1 / 100."""
        target = gb.ScorePosterior(problem_of(Y), LOG)
        z = np.random.default_rng(0).normal(size=(1000, 1))
        run = run_of(target, Y.mean() + 0.3 * (z - z.mean()) / z.std())
        result = gb.tuning.match_variance(problem_of(Y), LOG, reference=run, num_draws=600)
        right = (1 / 0.3**2 - 0.01) / len(Y)
        assert abs(np.log(result.value / right)) < 4 * np.sqrt(2 / 300)
        assert result.interval[0] < right < result.interval[1]

    def test_kernel_score_against_quadrature(self):
        """Of a normal location the expected score is known, and so the weight that is right."""
        bandwidth, t = 0.9566, np.linspace(-4, 6, 4001)
        spread = bandwidth**2 + 1
        total = -2 * bandwidth / np.sqrt(spread) * np.exp(-((t[:, None] - Y) ** 2) / (2 * spread))

        def variance(weight):
            logs = -0.005 * t**2 - weight * total.sum(axis=1)
            p = np.exp(logs - logs.max())
            p /= p.sum()
            return p @ (t - p @ t) ** 2

        right = brentq(lambda w: variance(w) - 1 / (len(Y) + 0.01), 0.1, 20)
        result = gb.tuning.match_variance(
            problem_of(Y), gb.KernelScore(gb.kernels.Gaussian(bandwidth)), num_draws=600,
            num_simulations=256, reference=gb.ScorePosterior(problem_of(Y), LOG),
        )  # fmt: skip
        assert result.interval[0] < right < result.interval[1]
        assert result.value == pytest.approx(right, rel=0.03)

    def test_what_cannot_be_a_reference(self):
        with pytest.raises(TypeError, match="reference must be a ScorePosterior"):
            gb.tuning.match_variance(problem_of(Y), LOG, reference=2.0)
        other = gb.ScorePosterior(location_scale_problem(), PlainEnergy())
        with pytest.raises(ValueError, match=r"must have the parameters \['mean'\]"):
            gb.tuning.match_variance(problem_of(Y), LOG, reference=other)
        flat = gb.ScorePosterior(problem_of(Y), LOG, weight=0.0)
        with pytest.raises(ValueError, match="weight 0: it is the prior"):
            gb.tuning.match_variance(problem_of(Y), LOG, reference=flat)

    def test_a_reference_wider_than_the_prior_allows(self):
        target = gb.ScorePosterior(problem_of(Y), LOG)
        run = run_of(target, 1000.0 * np.random.default_rng(0).normal(size=(500, 1)))
        with pytest.raises(ValueError, match="the prior rules one of the two"):
            gb.tuning.match_variance(problem_of(Y), LOG, reference=run, num_draws=300)


@pytest.fixture(scope="module")
def compared():
    reference = gb.ScorePosterior(problem_of(Y), LOG)
    return gb.tuning.compare_weights(
        problem_of(Y), 4.0 * LOG, reference=LOG, posterior=reference, num_bootstrap=60,
        num_draws=300,
    )  # fmt: skip


class TestCompare:
    def test_all_rules(self, compared):
        """A score four times too steep: a quarter of what they gave, or of the reference."""
        right = {rule: 0.25 / Y.var(ddof=1) for rule in RULES}
        right |= {"match_weight": 0.25, "match_variance": 0.25}
        assert set(compared.found) == set(right)
        assert compared.failed == {}
        for rule, weight in right.items():
            low, high = compared[rule].interval
            assert low * 0.999 < weight < high * 1.001, rule

    def test_table_and_picture(self, compared):
        text = str(compared)
        assert "loss-likelihood bootstrap" in text
        assert compared.table().column("rule")[0] == "match_weight"
        (ax,) = compared.plot().axes
        assert len(ax.lines) == 2 * 5

    def test_what_does_not_apply_is_told(self):
        simulator = gb.BlackBox(lambda theta, rng: rng.normal(theta["mean"], 1.0))
        problem = gb.Problem(PRIOR, simulator, OBSERVATIONS)
        result = gb.tuning.compare_weights(
            problem, PlainEnergy(), reference=2.0 * PlainEnergy(), num_draws=20, num_simulations=10
        )
        assert list(result.found) == ["match_weight"]
        assert "BlackBox has none" in str(result)
        with pytest.raises(ValueError, match="No rule gave a weight"):
            gb.tuning.compare_weights(problem, PlainEnergy())


def test_tables_and_pictures(found):
    for weight in found.values():
        assert weight.rule in str(weight)
        assert "interval of" in str(weight)
        assert weight.plot().axes


def test_the_same_seed_gives_the_same_weight(found):
    again = found_by("match_information", Y)
    assert (again.value, again.interval) == (
        found["match_information"].value,
        found["match_information"].interval,
    )


def test_directions_that_differ_are_told():
    """Two coordinates, one of them with data of a spread that the model does not know."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(80, 2)) * np.array([1.0, 4.0])
    prior = gb.Prior(a=dist.Normal(0.0, 10.0), b=dist.Normal(0.0, 10.0))
    score = gb.LogScore(
        lambda theta, y: -0.5 * ((y[0] - theta["a"]) ** 2 + (y[1] - theta["b"]) ** 2)
    )
    result = gb.tuning.match_information(gb.Problem(prior, None, y), score, num_bootstrap=60)
    assert "no single weight is right for all" in " ".join(result.findings)
    np.testing.assert_allclose(
        result.directions, np.sort(1 / np.linalg.eigvalsh(np.cov(y.T))), rtol=0.01
    )


def test_without_a_minimum_is_refused():
    falling = gb.LogScore(lambda theta, y: theta["mean"] + 0.0 * y[0])
    with pytest.raises(ValueError, match="The sum of the scores has no clear minimum"):
        gb.tuning.match_information(gb.Problem(PRIOR, None, Y), falling)


def test_too_few_observations_are_refused():
    with pytest.raises(ValueError, match="1 parameters need at least 4 of them, got 3"):
        found_by("match_coverage", Y[:3])


@pytest.mark.parametrize("rule", RULES)
def test_bad_settings_are_refused(rule):
    with pytest.raises(ValueError, match="num_bootstrap must be at least 20"):
        found_by(rule, Y, num_bootstrap=3)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        found_by(rule, Y, level=1.0)


def test_a_level_of_coverage_must_be_one():
    with pytest.raises(ValueError, match="nominal must lie strictly between 0 and 1"):
        found_by("match_coverage", Y, nominal=1.5)


def test_root_of_a_falling_share():
    weights = np.geomspace(0.1, 10, 5)
    inside = np.linspace(0, 1, 100)[None, :] <= np.array([1.0, 0.9, 0.7, 0.3, 0.1])[:, None]
    root = coverage_module._root(weights, inside, 0.5)
    assert root is not None
    assert 1.0 < root < weights[3]
    assert coverage_module._root(weights, inside, 0.05) is None


def test_generator_belongs_to_the_key():
    one, other = (rng_of(jax.random.key(seed)).random() for seed in (0, 1))
    assert one != other


@pytest.mark.slow
def test_repeated_data_sets_are_covered():
    """The whole procedure, repeated: misspecified data, energy score, calibrated each time."""
    rng, held, naive = np.random.default_rng(7), [], []
    for k in range(60):
        y = rng.normal(1.0, SPREAD, size=50)
        weight = found_by("match_coverage", y, num_bootstrap=100, num_draws=600, seed=k).value
        for w, into in ((weight, held), (1.0, naive)):
            sd = 1 / np.sqrt(w * len(y) + 0.01)
            into.append(abs(y.mean() - 1.0) < norm.ppf(0.95) * sd)
    assert abs(np.mean(held) - 0.9) < 4 * np.sqrt(0.09 / 60)
    assert np.mean(naive) < 0.75
