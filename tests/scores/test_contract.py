"""The laws that every score obeys."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.scores.cases import SCORES, THETA, data, reference

from genbayes.scores import EnergyScore, LogScore, RatioEstimation

every_score = pytest.mark.parametrize("name", SCORES)


class Result(NamedTuple):
    estimates: Any
    total: Any
    gradient: Any
    forward: Any


@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
def evaluated(score, x, y, direction):
    """All that the laws look at, in one program for each score and precision."""

    def total(x):
        return score.total(x, y, THETA)

    value, gradient = jax.value_and_grad(total)(x)
    return Result(score(x, y, THETA), value, gradient, jax.jvp(total, (x,), (direction,))[1])


def evaluate(score, x, y, direction=None):
    x, y = jnp.asarray(x), jnp.asarray(y)
    direction = jnp.zeros_like(x) if direction is None else jnp.asarray(direction, x.dtype)
    return jax.device_get(evaluated(score, x, y, direction))


@every_score
def test_shapes_types_and_the_sum_over_observations(name, precision):
    result = evaluate(SCORES[name](), *data())
    assert result.estimates.shape == (4,)
    assert result.total.shape == ()
    assert result.estimates.dtype == result.total.dtype == jnp.dtype(f"float{precision}")
    np.testing.assert_allclose(result.total, np.sum(result.estimates), rtol=2e-5)


@every_score
def test_prepared_data_batches_and_one_compilation(name):
    """Score and prepared data pass through compiled programs; a batch is a loop."""
    score, (x, y) = SCORES[name](), data()
    batch = jnp.stack([x, 1.3 * x + 0.2])
    traces = 0

    @jax.jit
    def totals(score, batch, prepared, theta):
        nonlocal traces
        traces += 1
        return jax.vmap(lambda x: score.total(x, prepared, theta))(batch)

    prepared = score.prepare(y)
    together = [totals(score, scale * batch, prepared, THETA) for scale in (1.0, 1.0)]
    assert traces == 1
    alone = [evaluate(score, x, y).total for x in batch]
    np.testing.assert_allclose(together[0], alone, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(*together)


@every_score
def test_both_modes_agree_with_finite_differences(name):
    score, (x, y) = SCORES[name](), data()
    direction = np.random.default_rng(5).normal(size=x.shape)
    with jax.enable_x64(True):
        result = evaluate(score, x, y, direction)
        ahead, behind = (evaluate(score, x + s * direction, y).total for s in (1e-5, -1e-5))
    scale = 1e-6 * float(np.sum(np.abs(result.gradient)))
    reverse = np.sum(result.gradient * direction)
    np.testing.assert_allclose(result.forward, reverse, rtol=1e-8, atol=scale)
    if "ratio" not in name:  # its fit stops short of the digits that differences would see
        difference = (ahead - behind) / 2e-5
        np.testing.assert_allclose(result.forward, difference, rtol=2e-5, atol=scale)


@every_score
def test_gradients_are_finite_where_draws_coincide(name, precision):
    del precision
    score, (x, y) = SCORES[name](), data()
    x[3] = x[4] = x[20]  # draws that coincide,
    x[7] = y[0]  # that hit an observation,
    x[9, 0] = x[9, 1]  # and whose coordinates agree
    result = evaluate(score, x, y)
    assert np.all(np.isfinite(result.gradient))
    if score.needs_simulations:
        assert np.any(result.gradient != 0)


@every_score
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_draw_that_is_not_finite_is_never_hidden(name, bad):
    score, (x, y) = SCORES[name](), data()
    x[5, 1] = bad
    result = evaluate(score, x, y)
    assert np.isfinite(result.total) == (not score.needs_simulations)
    assert np.all(np.isfinite(result.estimates) == (not score.needs_simulations))


@every_score
def test_single_precision_on_shifted_data(name):
    """Both precisions see the same numbers, rounded to single precision far from the origin."""
    shift = 1e4
    x, y = (np.float32(part + shift) for part in data())
    score = SCORES[name]()
    if isinstance(score, RatioEstimation):
        score = RatioEstimation(np.float32(reference(shift)), score.penalty, score.strength)
    if isinstance(score, LogScore):  # a likelihood is the user's own arithmetic
        x, y = x - np.float32(shift), y - np.float32(shift)
    single = evaluate(score, x, y)
    with jax.enable_x64(True):
        double = evaluate(score, x.astype(np.float64), y.astype(np.float64))
    assert abs(single.total - double.total) < 1e-4 * max(abs(double.total), 1.0)
    size = np.max(np.abs(double.gradient))
    tolerance = (1e-2 if "ratio" in name else 1e-3) * size
    np.testing.assert_allclose(single.gradient, double.gradient, atol=tolerance + 1e-12)


@every_score
def test_facts_and_repr(name):
    score = SCORES[name]()
    assert isinstance(score.strictly_proper, bool)
    assert isinstance(score.unbiased, bool)
    assert isinstance(score.needs_simulations, bool)
    assert score.min_simulations >= (2 if score.needs_simulations else 0)
    assert repr(score).startswith(type(score).__name__ + "(")


@every_score
def test_refusals(name):
    score, (x, y) = SCORES[name](), data()
    with pytest.raises(ValueError, match=r"simulations of shape \(m, d\).*got shape \(60,\)"):
        score.total(x[:, 0], y, THETA)
    with pytest.raises(ValueError, match=r"one dimension d, got shapes \(60, 1\) and \(4, 2\)"):
        score.total(x[:, :1], y, THETA)
    with pytest.raises(ValueError, match=r"observations of shape \(n, d\).*got shape \(2,\)"):
        score.total(x, y[0], THETA)
    with pytest.raises(ValueError, match="finite observations, got 1 values"):
        score.prepare(np.where(np.arange(8).reshape(4, 2) == 3, np.nan, y))
    if score.needs_simulations:
        with pytest.raises(ValueError, match=r"needs at least \d+ simulations, got 1"):
            score.total(x[:1], y, THETA)


@every_score
def test_sums_and_multiples(name):
    score = SCORES[name]()
    both = 2.0 * score + 0.5 * EnergyScore()
    assert both.unbiased == score.unbiased
    assert both.strictly_proper
    assert both.weights[-1] == 0.5
    assert both.min_simulations == max(score.min_simulations, 2)


def test_the_weight_of_a_sum_may_be_traced():
    x, y = data()
    slope = jax.grad(lambda w: (w * EnergyScore()).total(x, y))(2.0)
    np.testing.assert_allclose(slope, EnergyScore().total(x, y), rtol=1e-5)


def test_sums_refuse_other_things():
    with pytest.raises(TypeError, match="unsupported operand"):
        EnergyScore() + 1
    with pytest.raises(ValueError, match=r"weight of a score must be .* above 0, got -1"):
        -1.0 * EnergyScore()


def test_the_log_score_needs_parameters_and_no_simulations():
    score, (_, y) = SCORES["log"](), data()
    assert not score.needs_simulations
    np.testing.assert_allclose(score.total(None, y, THETA), 0.5 * np.sum(y**2), rtol=1e-6)
    with pytest.raises(ValueError, match="LogScore needs the parameters, got theta=None"):
        score.total(None, y)
    with pytest.raises(TypeError, match="expects a function log_prob"):
        LogScore(3)  # pyright: ignore


def test_scores_are_trees():
    for make in SCORES.values():
        leaves = jax.tree.leaves(make())
        assert all(eqx.is_inexact_array_like(leaf) for leaf in leaves)
