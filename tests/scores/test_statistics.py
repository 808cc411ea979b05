"""What scores are on average: unbiased where they say so, and smallest at the truth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gamma
from tests.scores.cases import SCORES

from genbayes import kernels
from genbayes.scores import (
    EnergyScore,
    KernelScore,
    RatioEstimation,
    SyntheticLikelihood,
    VariogramScore,
)

REPLICATIONS = 10_000
DRAWS = 5


def absolute_moment(beta, sd):
    return sd**beta * 2 ** (beta / 2) * gamma((beta + 1) / 2) / np.sqrt(np.pi)


def energy_at_zero(beta):
    return 2 * absolute_moment(beta, 1) - absolute_moment(beta, np.sqrt(2))


def gaussian_at(y, width, d):
    cross = (width**2 / (width**2 + 1)) ** (d / 2) * np.exp(-np.sum(y**2) / (2 * (width**2 + 1)))
    return (width**2 / (width**2 + 2)) ** (d / 2) - 2 * cross


Y = np.array([[0.4, -0.3]])
VARIOGRAM = 2 * (0.7 - 2 / np.sqrt(np.pi)) ** 2
# an estimator of a standard normal model, the observation, the exact score
UNBIASED = {
    "energy": (EnergyScore(), np.zeros((1, 1)), energy_at_zero(1.0)),
    "energy, beta 1.5": (EnergyScore(1.5), np.zeros((1, 1)), energy_at_zero(1.5)),
    "gaussian kernel": (KernelScore(kernels.Gaussian(0.8)), Y, gaussian_at(Y, 0.8, 2)),
    "variogram": (VariogramScore(1.0), Y, VARIOGRAM),
}
BIASED = {
    "energy": (EnergyScore(statistic="V"), np.zeros((1, 1)), energy_at_zero(1.0)),
    "gaussian kernel": (
        KernelScore(kernels.Gaussian(0.8), statistic="V"), Y, gaussian_at(Y, 0.8, 2),
    ),
    "variogram": (VariogramScore(1.0, statistic="V"), Y, VARIOGRAM),
}  # fmt: skip


def z_value(values, exact):
    values = np.asarray(values, np.float64)
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return (np.mean(values) - exact) / max(error, 1e-12)


def replicated(score, y, key):
    x = jax.random.normal(key, (REPLICATIONS, DRAWS, y.shape[1]))
    return jax.jit(jax.vmap(lambda x: score.total(x, y)))(x)


@pytest.mark.parametrize("name", UNBIASED)
def test_estimates_are_unbiased(name):
    score, y, exact = UNBIASED[name]
    assert score.unbiased
    assert abs(z_value(replicated(score, y, jax.random.key(1)), exact)) < 4


@pytest.mark.parametrize("name", BIASED)
def test_means_over_all_pairs_are_found_out(name):
    """The negative control: the same test must reject the V-statistic."""
    score, y, exact = BIASED[name]
    assert not score.unbiased
    assert abs(z_value(replicated(score, y, jax.random.key(1)), exact)) > 8


def test_gradients_are_unbiased():
    r"""For $N(\mu, 1)$ and an observation at 0, at $\mu = 1$: $2 (2 \Phi(1) - 1)$."""
    z = jax.random.normal(jax.random.key(2), (REPLICATIONS, DRAWS, 1))
    slope = jax.grad(lambda mu, z: EnergyScore().total(mu + z, np.zeros((1, 1))))
    values = jax.vmap(lambda z: slope(1.0, z))(z)
    assert abs(z_value(values, 2 * 0.6826894921370859)) < 4


def test_the_unbiased_density_is():
    """And the plug-in density is not: at the mode it is too high."""
    y = np.zeros((1, 1))
    exact = 1 / np.sqrt(2 * np.pi)
    x = jax.random.normal(jax.random.key(3), (REPLICATIONS, 8, 1))

    def densities(score):
        return jnp.exp(-jax.vmap(lambda x: score.total(x, y))(x))

    assert abs(z_value(densities(SyntheticLikelihood(unbiased_density=True)), exact)) < 4
    assert abs(z_value(densities(SyntheticLikelihood()), exact)) > 8


ALTERNATIVES = {
    "shift": lambda z: z + 0.5,
    "wide": lambda z: 1.6 * z,
    "narrow": lambda z: z / 1.6,
    "independent": lambda z: z @ np.linalg.inv(MIX).T,
    "opposed": lambda z: z @ np.diag([1.0, -1.0]),
}
MIX = np.array([[1.0, 0.0], [0.8, 0.6]])  # a correlation of 0.8
UNSEEN = {
    "variogram": {"shift"},
    "weighted variogram": {"shift"},
}
# a copula is scored among models with the right margins
MARGINS_KEPT = {"independent", "opposed"}
PROPER = [name for name in SCORES if name not in ("log", "mmd-bayes")]


@pytest.mark.parametrize("name", PROPER)
def test_the_expected_score_is_smallest_at_the_truth(name):
    """Differences to the truth over 24 pairs of sets of draws, by their standard error."""
    score = SCORES[name]()
    key_draws, key_data = jax.random.split(jax.random.key(4))
    draws = jax.random.normal(key_draws, (24, 300, 2)) @ MIX.T
    observations = jax.random.normal(key_data, (24, 300, 2)) @ MIX.T
    mean = jax.jit(jax.vmap(lambda x, y: score.total(x, y) / 300))
    truth = mean(draws, observations)
    for alternative, move in ALTERNATIVES.items():
        if name == "copula" and alternative not in MARGINS_KEPT:
            continue
        excess = mean(jnp.asarray(move(draws)), observations) - truth
        z = z_value(excess, 0.0)
        assert z > -3, alternative
        if alternative not in UNSEEN.get(name, set()):
            assert z > 4, alternative


def test_the_expected_log_score_is_smallest_at_the_truth():
    y = jax.random.normal(jax.random.key(5), (2000, 2)) + 0.5
    score = SCORES["log"]()
    truth = score(None, y, {"mu": jnp.asarray(0.5)})
    for mu in (0.0, 1.0):
        assert z_value(score(None, y, {"mu": jnp.asarray(mu)}) - truth, 0.0) > 8


@pytest.mark.parametrize("penalty", ["lasso", "ridge"])
def test_ratio_of_two_normals(penalty):
    r"""$\ln N(y; 1, 1) - \ln N(y; 0, 2^2)$, quadratic in $y$, with the penalty by validation."""
    key_reference, key_draws = jax.random.split(jax.random.key(6))
    reference = 2 * jax.random.normal(key_reference, (4000, 1))
    x = 1 + jax.random.normal(key_draws, (2000, 1))
    y = np.linspace(-1, 3, 9)[:, None]
    exact = -0.5 * (y - 1) ** 2 + 0.5 * (y / 2) ** 2 + np.log(2)
    score = RatioEstimation(reference, penalty)
    estimate = jax.jit(lambda x: score(x, y))(x)
    np.testing.assert_allclose(estimate, -exact[:, 0], atol=0.2)
