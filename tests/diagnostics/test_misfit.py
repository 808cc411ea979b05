"""Tests of misfit: uniform p-values under the null, small ones under misfit."""

import numpy as np
import pytest
from scipy import stats
from tests.support.made import run_of
from tests.support.problems import location_problem

import genbayes as gb
from genbayes import diagnostics
from genbayes.diagnostics._permutation import data_set_test, sample_test
from genbayes.scores import energy_distance

RNG = np.random.default_rng(0)


def p_value(pair) -> float:
    observed, null = pair
    return (1 + np.sum(null >= observed)) / (1 + len(null))


class TestPermutation:
    def test_statistic_is_the_energy_distance(self):
        y, x = RNG.normal(size=(7, 2)), RNG.normal(size=(11, 2))
        observed, null = sample_test(y, x, 19, RNG)["energy"]
        assert observed == pytest.approx(float(energy_distance(y, x, unbiased=False)), rel=1e-5)
        assert null.shape == (19,)

    def test_statistic_of_data_sets_is_the_energy_distance_to_all_others(self):
        sets = RNG.normal(size=(6, 4, 2))
        observed, null = data_set_test(sets)["energy"]
        rest = sets[1:].reshape(-1, 2)
        known = float(energy_distance(sets[0], rest, unbiased=False))
        assert observed == pytest.approx(known, rel=1e-5)
        assert null.shape == (5,)

    @pytest.mark.parametrize("n", [1, 10])
    def test_p_values_are_uniform_under_the_null(self, n):
        rng = np.random.default_rng(1)
        found = np.array([
            [p_value(pair) for pair in sample_test(
                rng.standard_t(2, (n, 2)), rng.standard_t(2, (40, 2)), 99, rng
            ).values()]
            for _ in range(300)
        ])  # fmt: skip
        self.check_uniform(found)

    def test_p_values_of_data_sets_are_uniform_though_sets_differ(self):
        rng = np.random.default_rng(2)
        found = []
        for _ in range(300):
            centres = rng.normal(0, 3, (40, 1, 1))
            pairs = data_set_test(centres + rng.normal(size=(40, 5, 1)))
            found.append([p_value(pair) for pair in pairs.values()])
        self.check_uniform(np.array(found))

    def check_uniform(self, p: np.ndarray) -> None:
        for column in p.T:  # spread over its grid, so that a continuous test applies
            spread = column - RNG.random(len(column)) / 100
            assert stats.kstest(spread, "uniform").pvalue > 1e-3

    def test_labels_that_are_not_exchangeable_would_be_found_out(self):
        """Pooling all points of data sets that share a parameter is the classical mistake."""
        rng = np.random.default_rng(3)
        found = []
        for _ in range(100):
            sets = rng.normal(0, 3, (40, 1, 1)) + rng.normal(size=(40, 5, 1))
            pair = sample_test(sets[0], sets[1:].reshape(-1, 1), 99, rng)["energy"]
            found.append(p_value(pair))
        assert stats.kstest(found, "uniform").pvalue < 1e-4


@pytest.fixture(scope="module")
def target():
    return gb.ScorePosterior(location_problem(RNG.normal(0.7, 1.0, 100)), gb.EnergyScore())


def with_data(target: gb.ScorePosterior, y: np.ndarray) -> gb.ScorePosterior:
    problem = gb.Problem(target.problem.prior, target.problem.simulator, y)
    return gb.ScorePosterior(problem, target.score)


class TestMisfit:
    def test_finds_nothing_where_there_is_nothing(self, target):
        found = diagnostics.misfit(run_of(target, RNG.normal(0.7, 0.1, (600, 1))))
        assert found.findings == ()
        assert set(found.p_values) == {
            (which, name) for which in ("prior", "posterior") for name in ("energy", "MMD")
        }
        assert min(found.p_values.values()) > 0.01
        assert found.simulations == 500 + 200 * 25
        assert "Nothing that the tests could see" in str(found.table())
        assert len(found.plot().axes) == 4

    @pytest.mark.parametrize("kind", ["shape", "units", "outliers"])
    def test_finds(self, target, kind):
        rng = np.random.default_rng(4)
        y = {
            "shape": rng.choice([-2.0, 2.0], 100) + rng.normal(0, 0.3, 100),
            "units": rng.normal(70.0, 100.0, 100),
            "outliers": np.concatenate([rng.normal(0, 1, 75), rng.normal(9, 1, 25)]),
        }[kind]
        found = diagnostics.misfit(run_of(with_data(target, y), rng.normal(0.2, 0.1, (600, 1))))
        posterior = {name: p for (which, name), p in found.p_values.items() if which == "posterior"}
        assert max(posterior.values()) <= 0.01
        assert "do not look like draws of the fitted simulator" in found.findings[-1]
        if kind == "units":
            assert "outside what the simulator gives under the prior" in found.findings[0]

    def test_prior_p_values_are_uniform_under_the_model(self, target):
        rng = np.random.default_rng(5)
        run = run_of(target, np.zeros((20, 1)))
        found = []
        for seed in range(150):
            y = rng.normal() + rng.normal(size=8)
            result = diagnostics.misfit(
                run, target=with_data(target, y), num_draws=20, num_data_sets=49,
                num_permutations=19, seed=seed,
            )  # fmt: skip
            found.append([result.p_values["prior", name] for name in ("energy", "MMD")])
        for column in np.array(found).T:
            assert stats.kstest(column - rng.random(150) / 50, "uniform").pvalue > 1e-3

    def test_black_boxes_and_failures(self, target):
        def flaky(theta, rng):
            return np.nan if rng.random() < 0.02 else theta["mean"] + rng.standard_normal()

        problem = gb.Problem(target.problem.prior, gb.BlackBox(flaky), RNG.normal(0.7, 1, 6))
        run = run_of(gb.ScorePosterior(problem, gb.EnergyScore()), np.full((50, 1), 0.7))
        found = diagnostics.misfit(run)
        assert found.simulations == 50 + 40 * 6
        assert 0 < found.failed < 0.1
        assert "were not finite" in found.findings[-1]

    def test_summaries_are_what_is_compared(self):
        """Data that differ only in what the summary throws away look alike."""
        prior = location_problem().prior
        simulator = gb.Simulator(
            lambda theta, z: theta["mean"] + z, noise=gb.tasks.normal_location().simulator.noise,
            summary=lambda x: 0.0 * x,
        )  # fmt: skip
        problem = gb.Problem(prior, simulator, RNG.normal(50, 1, 20))
        found = diagnostics.misfit(
            run_of(gb.ScorePosterior(problem, gb.EnergyScore()), np.zeros((50, 1)))
        )
        assert min(found.p_values.values()) == 1.0

    def test_refusals(self, target):
        run = run_of(target, np.zeros((50, 1)))
        with pytest.raises(ValueError, match="num_draws must be at least 20"):
            diagnostics.misfit(run, num_draws=5)
        with pytest.raises(ValueError, match="num_permutations must be at least 19"):
            diagnostics.misfit(run, num_permutations=5)
