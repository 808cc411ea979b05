"""Posterior predictive draws, PIT, coverage and scores, where the answer is known."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from tests.support.exact import expected_energy
from tests.support.made import run_of
from tests.support.problems import PlainEnergy

import genbayes as gb
from genbayes import diagnostics
from genbayes.diagnostics._scores import _Grouped
from genbayes.scores import AbstractSummedScore

RNG = np.random.default_rng(0)
Y = RNG.normal(1.0, 1.0, 200)


@pytest.fixture(scope="module")
def target():
    return gb.ScorePosterior(gb.tasks.normal_location().problem(Y), gb.EnergyScore())


@pytest.fixture(scope="module")
def run(target):
    """A run at the true mean, but for a spread that is small beside the noise."""
    return run_of(target, RNG.normal(1.0, 0.05, (4, 500, 1)))


class TestDraws:
    def test_have_the_distribution_of_the_mixture(self, target):
        wide = run_of(target, RNG.normal(2.0, 2.0, (4000, 1)))
        found = diagnostics.predictive(wide, num_draws=4000)
        assert found.simulations.shape == (4000, 1)
        assert stats.kstest(found.simulations[:, 0], stats.norm(2, 5**0.5).cdf).pvalue > 1e-4

    def test_a_weighted_run_is_resampled(self, target):
        u = np.linspace(-4, 4, 2001)[:, None]
        weighted = run_of(target, u, log_weight=-0.5 * (u - 1) ** 2)  # N(1, 1) on a grid
        found = diagnostics.predictive(weighted, num_draws=4000, num_simulations=2)
        x = found.simulations[:, 0]
        assert stats.kstest(x, stats.norm(1, 2**0.5).cdf).pvalue > 1e-4
        unweighted = run_of(target, u)
        x = diagnostics.predictive(unweighted, num_draws=2001).simulations.ravel()
        assert stats.kstest(x, stats.norm(1, 2**0.5).cdf).pvalue < 1e-4

    def test_table_and_picture(self, run):
        found = diagnostics.predictive(run)
        row = found.table().to_dicts()[0]
        assert row["observed mean"] == pytest.approx(Y.mean(), rel=1e-5)
        assert 0.8 < row["observed inside"] < 0.97
        assert len(found.plot().axes) == 1

    def test_series_are_drawn_as_bands(self):
        problem = series_problem()
        target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=20)
        found = diagnostics.predictive(run_of(target, np.zeros((50, 1))))
        assert found.simulations.shape == (50, 1, 5, 3)
        assert len(found.plot().axes) == 3
        assert found.table().column("coordinate")[4] == "y[1,1]"

    def test_failures_are_counted_and_left_out(self, target):
        simulator = gb.Simulator(
            lambda theta, z: jnp.where(z > 1, jnp.nan, theta["mean"] + z), noise=dist.Normal(0, 1)
        )
        problem = gb.Problem(target.problem.prior, simulator, Y)
        broken = gb.ScorePosterior(problem, gb.EnergyScore())
        found = diagnostics.predictive(run_of(broken, np.ones((500, 1))), num_draws=500)
        assert abs(found.failed / 500 - 0.159) < 4 * np.sqrt(0.159 * 0.841 / 500)
        assert np.isfinite(found.interval()).all()
        assert "were not finite" in str(found.table())

    def test_black_boxes_serve(self, target):
        problem = gb.Problem(
            target.problem.prior,
            gb.BlackBox(lambda theta, rng: theta["mean"] + rng.standard_normal()),
            Y,
        )
        run = run_of(gb.ScorePosterior(problem, gb.EnergyScore()), np.ones((60, 1)))
        found = diagnostics.predictive(run, num_draws=50, num_simulations=3)
        assert found.simulations.shape == (50, 3)
        scores = diagnostics.predictive_scores(run, Far(), num_draws=5, num_simulations=40)
        assert np.isfinite(scores.values).all()

    def test_a_stored_run_needs_its_target(self, run, target):
        stored = dataclasses.replace(run, target=None)
        with pytest.raises(ValueError, match="give the one it was drawn from"):
            diagnostics.predictive(stored)
        again = diagnostics.predictive(stored, target=target)
        assert np.array_equal(again.simulations, diagnostics.predictive(run).simulations)

    def test_refusals(self, target, run):
        with pytest.raises(TypeError, match="Expected a Run, got int"):
            diagnostics.predictive(3)  # pyright: ignore
        with pytest.raises(ValueError, match="The run has no draws"):
            diagnostics.predictive(dataclasses.replace(run, unconstrained=np.zeros((4, 0, 1))))
        exact = gb.ScorePosterior(
            gb.Problem(target.problem.prior, None, Y), gb.LogScore(lambda theta, y: theta["mean"])
        )
        with pytest.raises(ValueError, match="the problem has none"):
            diagnostics.predictive(run_of(exact, np.zeros((5, 1))))


class TestPIT:
    def test_is_uniform_where_the_predictive_is_right(self, run):
        found = diagnostics.pit(run)
        assert found.values.shape == (200, 1)
        assert found.p_values[0] > 1e-3

    @pytest.mark.parametrize("shift", [-0.6, 0.6])
    def test_sees_a_shift(self, target, shift):
        found = diagnostics.pit(run_of(target, np.full((500, 1), 1.0 + shift)))
        assert found.p_values[0] < 1e-4
        assert (found.values.mean() - 0.5) * shift < 0

    def test_sees_a_wide_predictive(self, target):
        found = diagnostics.pit(run_of(target, RNG.normal(1.0, 1.5, (500, 1))))
        assert found.values.std() < 0.22
        coverage = diagnostics.predictive_coverage(run_of(target, RNG.normal(1, 1.5, (500, 1))))
        assert (coverage.shares[0] > coverage.levels).all()

    def test_ties_are_broken_at_random(self):
        problem = gb.Problem(
            gb.Prior(rate=dist.Normal(0.0, 1.0)),
            gb.Simulator(lambda t, z: jnp.floor(z + 0.0 * t["rate"]), noise=dist.Uniform(0, 3)),
            np.floor(RNG.uniform(0, 3, 300)),
        )
        run = run_of(gb.ScorePosterior(problem, gb.EnergyScore()), np.zeros((500, 1)))
        found = diagnostics.pit(run)
        assert found.p_values[0] > 1e-3
        assert len(np.unique(found.values)) == 300

    def test_held_out_observations(self, run):
        fresh = RNG.normal(1.0, 1.0, 50)
        assert diagnostics.pit(run, observations=fresh).values.shape == (50, 1)
        with pytest.raises(ValueError, match="event shape"):
            diagnostics.pit(run, observations=np.zeros((4, 2)))

    def test_coverage_agrees_with_the_levels(self, run):
        found = diagnostics.predictive_coverage(run, levels=(0.5, 0.9))
        allowed = 4 * np.sqrt(found.levels * (1 - found.levels) / 200)
        assert (np.abs(found.shares[0] - found.levels) < allowed).all()
        assert found.table().column("50%")[0] == found.shares[0, 0]
        for result in (found, diagnostics.pit(run)):
            assert len(result.plot().axes) == 1
        with pytest.raises(ValueError, match="level must lie strictly between"):
            diagnostics.predictive_coverage(run, levels=(0.5, 1.0))


def series_problem() -> gb.Problem:
    """Five time steps of three coordinates, with noise that grows with time."""
    scale = jnp.arange(1.0, 6.0)[:, None]
    simulator = gb.Simulator(
        lambda theta, z: theta["mean"] + scale * z,
        noise=dist.Normal(0, 1).expand((5, 3)).to_event(2),
    )
    y = np.random.default_rng(1).normal(size=(4, 5, 3)) * np.asarray(scale)
    return gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, y)


class Far(AbstractSummedScore):
    """The squared distance to the mean of the draws: a score that compiles at once."""

    strictly_proper: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    min_simulations: ClassVar[int] = 1
    needs_simulations: ClassVar[bool] = True

    def _estimates(self, simulations, observations, theta):
        del theta
        return jnp.sum((observations - jnp.mean(simulations, axis=0)[None]) ** 2, axis=1)


class TestScores:
    def test_agree_with_the_expected_score(self, target):
        """At one parameter, against the closed form; and the mean over draws of it."""
        u = np.linspace(0.0, 2.0, 50)
        found = diagnostics.predictive_scores(
            run_of(target, u[:, None]), num_draws=50, num_simulations=1000
        )
        known = expected_energy(Y)(u)
        off = found.by_draw[:, 0] - known
        assert abs(off.mean()) < 4 * off.std() / np.sqrt(50)
        assert np.abs(off / known).max() < 0.2
        assert found.values[0] == pytest.approx(found.by_draw.mean(), rel=1e-5)

    def test_of_the_mixture_is_that_of_one_wide_normal(self, target):
        run = run_of(target, RNG.normal(1.0, 1.0, (5000, 1)))
        found = diagnostics.predictive_scores(
            run, PlainEnergy(), mixture=True, num_simulations=2000, reduce="mean"
        )
        known = expected_energy(Y)(np.array([1.0]), np.array(2**0.5))[0]
        assert found.values[0] * 200 == pytest.approx(known, rel=0.06)
        mean_of_scores = expected_energy(Y)(np.asarray(run.draws["mean"])[0]).mean()
        assert mean_of_scores > found.values[0] * 200 * 1.05  # a wide posterior is punished more

    @pytest.mark.parametrize(
        ("by", "shape"),
        [
            (None, (1, 15)),
            (0, (5, 3)),
            (1, (3, 5)),
            (-1, (3, 5)),
            ("coordinate", (15, 1)),
            (lambda x: x[::2], (3, 3)),
        ],
    )
    def test_groups(self, by, shape):
        x = np.arange(30.0).reshape(2, 5, 3)
        rows = np.asarray(_Grouped(by).all(jnp.asarray(x)))
        assert rows.shape == (2, *shape)
        if by == 1:
            assert np.array_equal(rows[0], x[0].T)

    def test_time_steps_are_scored_by_themselves(self):
        target = gb.ScorePosterior(series_problem(), gb.EnergyScore(), num_simulations=20)
        run = run_of(target, np.zeros((6, 1)))
        found = diagnostics.predictive_scores(run, Far(), by=0, num_draws=6, num_simulations=40)
        assert found.values.shape == (5,)
        self.check_first_step(run, target, found)

    def check_first_step(self, run, target, found):
        keys = jax.random.split(jax.random.key(0), 6)
        by_hand = []
        for key in keys:
            noise = target.problem.simulator.draw_noise(key, 40)
            x = target.problem.simulator.simulate_from({"mean": jnp.zeros(())}, noise)
            by_hand.append(float(Far().total(x[:, 0], target.problem.observations[:, 0])))
        np.testing.assert_allclose(found.by_draw[:, 0], by_hand, rtol=1e-4)

    def test_refusals(self, run):
        for by, error, message in (
            (2, ValueError, "is no axis of an observation"),
            ("step", TypeError, "by must be None, an axis"),
            (lambda x: x, ValueError, r"into \(groups, d\), got shape"),
        ):
            with pytest.raises(error, match=message):
                diagnostics.predictive_scores(run, by=by)
        with pytest.raises(TypeError, match="score must be a scoring rule"):
            diagnostics.predictive_scores(run, "energy")  # pyright: ignore
        with pytest.raises(ValueError, match="is no score of simulations"):
            diagnostics.predictive_scores(run, gb.LogScore(lambda t, y: t["mean"]))
        with pytest.raises(ValueError, match="observations must have shape"):
            diagnostics.predictive_scores(run, observations=np.zeros((3, 2)))
        with pytest.raises(ValueError, match="reduce must be one of"):
            diagnostics.predictive_scores(run, reduce="max")  # pyright: ignore


class TestOverDataSets:
    def test_five_data_sets_have_four_degrees_of_freedom(self):
        values = np.arange(10.0).reshape(5, 2) ** 1.5
        mean, low, high = diagnostics.student_interval(values)
        for j in range(2):
            low_j, high_j = stats.t.interval(
                0.95, 4, loc=values[:, j].mean(), scale=stats.sem(values[:, j])
            )
            assert (low[j], high[j]) == pytest.approx((low_j, high_j))
        assert mean == pytest.approx(values.mean(axis=0))

    def test_the_interval_covers(self):
        values = np.random.default_rng(2).normal(3.0, 2.0, (5, 4000))
        _, low, high = diagnostics.student_interval(values)
        share = ((low < 3) & (high > 3)).mean()
        assert abs(share - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 4000)

    def test_methods_side_by_side(self, run):
        parts = [
            diagnostics.predictive_scores(run, Far(), num_draws=5, num_simulations=20, seed=s)
            for s in range(3)
        ]
        found = diagnostics.over_data_sets({"energy": parts, "other": parts[:2]})
        assert found.num_data_sets == {"energy": 3, "other": 2}
        assert found.mean["energy"] == pytest.approx(np.mean([p.values for p in parts], axis=0))
        assert len(found.table().rows) == 2
        assert len(found.plot().axes) == 1
        assert len(parts[0].plot().axes) == 1
        with pytest.raises(ValueError, match="at least two data sets"):
            diagnostics.over_data_sets(parts[:1])
