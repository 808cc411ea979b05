"""Ratio estimation: where references come from, its derivative and its refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.scores.cases import data, reference

from genbayes.scores import RatioEstimation
from genbayes.scores._ratio import _standardiser


class Prior:
    def sample(self, key):
        return {"mu": 10 * jax.random.normal(key)}


class Simulator:
    """Normal draws, the given share of them infinite."""

    def __init__(self, traceable=True, lost=0.0):
        self.traceable, self.lost = traceable, lost

    def simulate(self, key, theta, num):
        key_noise, key_loss = jax.random.split(key)
        draws = theta["mu"] + jax.random.normal(key_noise, (num, 3))
        lost = jax.random.uniform(key_loss, (num, 1)) < self.lost
        return jnp.where(lost, jnp.inf, draws)


class Problem:
    def __init__(self, **settings):
        self.prior, self.simulator = Prior(), Simulator(**settings)


@pytest.mark.parametrize("traceable", [True, False])
def test_references_from_a_problem(traceable):
    problem = Problem(traceable=traceable, lost=0.2)
    score = RatioEstimation.from_problem(jax.random.key(0), problem, num_reference=200)
    kept = score.reference.shape[0]
    assert score.reference.shape == (kept, 3)
    assert 130 < kept < 190
    assert 8 < float(jnp.std(score.reference)) < 12


def test_a_simulator_that_mostly_fails_is_refused():
    with pytest.raises(ValueError, match=r"finite draws from the prior predictive, got \d+ of 50"):
        RatioEstimation.from_problem(jax.random.key(0), Problem(lost=0.9), num_reference=50)


def test_a_ridge_fit_by_scikit_learn():
    x, y = data(70, 5, 2)
    strength = 0.05
    features = _standardiser(jnp.asarray(reference()))
    rows = np.concatenate([features(x), features(reference())])[:, 1:]
    labels = np.r_[np.ones(70), np.zeros(80)]
    weights = np.r_[np.full(70, 0.5 / 70), np.full(80, 0.5 / 80)]
    model = LogisticRegression(C=1 / strength, tol=1e-10, max_iter=10_000)
    model.fit(rows, labels, sample_weight=weights)
    with jax.enable_x64(True):
        score = RatioEstimation(jnp.asarray(reference()), "ridge", strength)
        fitted = jax.jit(lambda x: score(x, y))(x)
    expected = model.decision_function(np.asarray(features(y))[:, 1:])
    np.testing.assert_allclose(fitted, -expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("penalty", ["lasso", "ridge"])
def test_the_implicit_derivative(penalty):
    x, y = data()
    with jax.enable_x64(True):
        score = RatioEstimation(jnp.asarray(reference()), penalty, 0.02)
        direction = np.random.default_rng(0).normal(size=x.shape)
        total = jax.jit(lambda s: score.total(x + s * direction, y))
        difference = (total(1e-3) - total(-1e-3)) / 2e-3
        np.testing.assert_allclose(jax.grad(total)(0.0), difference, rtol=2e-3)


def test_lasso_drops_features():
    x, y = data()
    score = RatioEstimation(reference(), strength=10.0)
    flat = jax.jit(lambda x: score(x, y))(x)
    np.testing.assert_allclose(flat, 0.0, atol=1e-5)


REFUSALS = {
    "shape": (lambda: RatioEstimation(np.ones(20)), r"shape \(M, d\).*got shape \(20,\)"),
    "few": (lambda: RatioEstimation(np.ones((5, 2))), r"at least 10, got shape \(5, 2\)"),
    "wild": (lambda: RatioEstimation(np.full((20, 1), np.inf)), "finite reference draws"),
    "penalty": (lambda: RatioEstimation(reference(), "none"), "must be one of 'lasso', 'ridge'"),
    "strength": (lambda: RatioEstimation(reference(), strength=-1.0), "strength must be .* above"),
    "folds": (lambda: RatioEstimation(reference(), num_folds=1), "num_folds must be at least 2"),
    "dimension": (
        lambda: RatioEstimation(reference())(*data(60, 4, 3)),
        r"reference draws of dimension 3, got shape \(80, 2\)",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    make, message = REFUSALS[name]
    with pytest.raises(ValueError, match=message):
        make()
