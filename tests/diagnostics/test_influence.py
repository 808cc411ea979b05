"""Influence of contamination and of observations, against posteriors known by quadrature."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from tests.support.exact import expected_energy, expected_kernel
from tests.support.made import run_of
from tests.support.problems import OBSERVATIONS, location_problem

import genbayes as gb
from genbayes import diagnostics

GRID = np.linspace(-5, 5, 8001)
N, DRAWS = len(OBSERVATIONS), 800
POINTS = np.array([-30.0, -4.0, 0.0, 1.0, 2.5, 6.0, 30.0])
SCORES = {
    "energy": (gb.EnergyScore(), lambda y: expected_energy(y), 1.0),
    "kernel": (gb.KernelScore(gb.kernels.Gaussian(1.5)), lambda y: expected_kernel(y, 1.5), 2.0),
}


def density(total: np.ndarray) -> np.ndarray:
    """The posterior on the grid for a total score, weight included, under the prior N(0, 1)."""
    logs = -0.5 * GRID**2 - total
    p = np.exp(logs - logs.max())
    return p / p.sum()


def moments(p: np.ndarray) -> tuple[float, float]:
    mean = float(p @ GRID)
    return mean, float(np.sqrt(p @ (GRID - mean) ** 2))


def quantile_draws(p: np.ndarray, num: int) -> np.ndarray:
    """Draws of the grid's density without Monte Carlo error: its quantiles."""
    return np.interp((np.arange(num) + 0.5) / num, np.cumsum(p), GRID)[:, None]


@pytest.fixture(scope="module", params=list(SCORES))
def case(request):
    """A target, its exact posterior on the grid, a run of that, and the found influence."""
    score, expected, weight = SCORES[request.param]
    target = gb.ScorePosterior(location_problem(), score, weight=weight, num_simulations=64)
    p = density(weight * expected(OBSERVATIONS)(GRID))
    draws = np.random.default_rng(0).permutation(quantile_draws(p, DRAWS))
    run = run_of(target, draws)
    found = diagnostics.posterior_influence(run, POINTS, num_draws=DRAWS)
    return target, expected, weight, p, run, found


class TestPosteriorInfluence:
    def contaminated(self, case, z: float, epsilon: float) -> np.ndarray:
        _, expected, weight, *_ = case
        data = expected(OBSERVATIONS)(GRID)
        return density(
            weight * ((1 - epsilon) * data + epsilon * N * expected(np.array([z]))(GRID))
        )

    def test_equals_finite_differences_of_the_contaminated_posterior(self, case):
        found, h = case[-1], 1e-5
        for j, z in enumerate(POINTS):
            up, down = (moments(self.contaminated(case, z, e)) for e in (h, -h))
            mean, sd = ((a - b) / (2 * h) for a, b in zip(up, down, strict=True))
            allowed = 4 * found.mean_error[j, 0] + 0.01 * abs(mean)
            assert abs(found.mean[j, 0] - mean) < allowed, z
            assert abs(found.sd[j, 0] - sd) < 4 * found.mean_error[j, 0] + 0.02 * abs(sd) + 0.01, z

    def test_size_is_the_integral_of_the_influence(self, case):
        found, h = case[-1], 1e-5
        for j, z in enumerate(POINTS):
            pif = (self.contaminated(case, z, h) - self.contaminated(case, z, -h)) / (2 * h)
            assert found.size[j] == pytest.approx(np.abs(pif).sum(), rel=0.06, abs=0.02)

    def test_density_is_the_influence_on_the_smoothed_marginal(self, case):
        found, p, h, z = case[-1], case[3], 1e-5, 3
        pif = (self.contaminated(case, POINTS[z], h) - self.contaminated(case, POINTS[z], -h)) / (
            2 * h
        )
        grid = np.linspace(-0.5, 2.5, 13)
        width = moments(p)[1] * DRAWS**-0.2
        known = np.array([pif @ stats.norm.pdf(t, GRID, width) for t in grid])
        assert np.abs(found.density("mean", grid)[z] - known).max() < 0.05 * np.abs(known).max()

    def test_respects_the_bound_of_the_theorem(self, case):
        target, *_, found = case
        if isinstance(target.score, gb.EnergyScore):
            assert found.bound is None
            assert "no bound is known" in str(found.table())
        else:
            assert found.bound == pytest.approx(8 * 2.0 * N)
            assert np.abs(found.relative).max() <= found.bound

    def test_kernel_scores_forget_far_points_and_energy_scores_do_not(self, case):
        found = case[-1]
        far, near = np.abs(found.mean[[0, -1], 0]), np.abs(found.mean[[1, -2], 0])
        if isinstance(case[0].score, gb.EnergyScore):
            assert (far > 0.9 * near).all()
        else:  # at infinity a point is only missing data: the same on both sides
            assert found.mean[0, 0] == pytest.approx(found.mean[-1, 0], rel=1e-4)

    def test_table_and_picture(self, case):
        found = case[-1]
        assert len(found.table().rows) == len(POINTS)
        assert len(found.plot().axes) == 2
        with pytest.raises(ValueError, match="name must be one of"):
            found.density("sd", GRID)


def log_normal(theta, y):
    return -0.5 * (y[0] - theta["mean"]) ** 2


def standard_bayes(y: np.ndarray):
    """N(mean, 1) with a N(0, 1) prior: draws of the known posterior."""
    problem = gb.Problem(location_problem().prior, None, y)
    exact = stats.norm(y.sum() / (len(y) + 1), (len(y) + 1) ** -0.5)
    quantiles = exact.ppf((np.arange(4000) + 0.5) / 4000)
    return run_of(gb.ScorePosterior(problem, gb.LogScore(log_normal)), quantiles[:, None])


class TestLogScore:
    def test_influence_is_linear_and_grows_without_end(self):
        run = standard_bayes(OBSERVATIONS)
        found = diagnostics.posterior_influence(run, POINTS, num_draws=4000)
        known = N * (POINTS - OBSERVATIONS.mean()) / (N + 1)
        assert found.mean[:, 0] == pytest.approx(known, rel=5e-3, abs=1e-3)

    def test_leaving_an_observation_out_has_a_closed_form(self):
        run = standard_bayes(OBSERVATIONS)
        found = diagnostics.observation_influence(run, num_draws=4000)
        sd = (N + 1) ** -0.5
        mean = OBSERVATIONS.sum() / (N + 1)
        without = (OBSERVATIONS.sum() - OBSERVATIONS) / N
        known = (without - mean) / sd
        assert found.shift[:, 0] == pytest.approx(known, rel=0.02, abs=5e-3)
        narrow, wide = stats.norm(mean, sd), N**-0.5
        x = narrow.ppf((np.arange(4000) + 0.5) / 4000)
        ratio = narrow.logpdf(x)[None] - stats.norm(without[:, None], wide).logpdf(x[None])
        assert found.divergence == pytest.approx(ratio.mean(axis=1), abs=3e-3)


class TestObservationInfluence:
    def test_equals_the_posterior_without_the_row(self, case):
        _, expected, weight, p, run, _ = case
        found = diagnostics.observation_influence(run, num_draws=DRAWS)
        mean, sd = moments(p)
        for i in range(N):
            without = density(weight * expected(np.delete(OBSERVATIONS, i))(GRID))
            known = (moments(without)[0] - mean) / sd
            assert found.shift[i, 0] == pytest.approx(known, abs=0.03)
        assert (found.reliability > 0.5).all()
        assert found.findings == ()

    def test_points_at_an_outlier(self):
        run = standard_bayes(np.concatenate([OBSERVATIONS, [40.0]]))
        found = diagnostics.observation_influence(run)
        assert found.largest[0] == N
        assert found.reliability[N] < 0.1
        assert found.findings[0].endswith(", 10.")
        assert "reweighting is unreliable" in str(found.table())
        assert len(found.plot().axes) == 1

    def test_of_many_parameters_those_that_move_are_shown(self):
        shift = np.random.default_rng(0).normal(size=(5, 40)) / 100
        shift[2, [3, 30]] = [0.9, -0.8]
        found = diagnostics.ObservationInfluence(
            np.zeros(5), tuple(f"w[{j}]" for j in range(40)), shift, np.zeros(5), np.zeros(5),
            np.ones(5), 0,
        )  # fmt: skip
        assert len(found.most_moved) == len(found.plot().axes) == 6
        assert {3, 30} <= set(found.most_moved)
        first = found.table().to_dicts()[0]
        assert (first["row"], first["w[3]"], first["w[30]"]) == (2, 0.9, -0.8)
        assert "6 of 40 parameters" in str(found.table())

    def test_weighted_draws(self, case):
        """Draws spread evenly, with the posterior as weights, give the same answer."""
        target, expected, weight, p, _, _ = case
        if not isinstance(target.score, gb.EnergyScore):
            pytest.skip("one score is enough")
        wide = np.linspace(-3, 4, 1500)
        log_weight = -0.5 * wide**2 - weight * expected(OBSERVATIONS)(wide)
        run = run_of(target, wide[:, None], log_weight=log_weight)
        found = diagnostics.posterior_influence(run, POINTS, num_draws=DRAWS)
        assert found.posterior_sd[0] == pytest.approx(moments(p)[1], rel=0.02)
        assert found.mean == pytest.approx(case[-1].mean, rel=0.05, abs=0.1)


class TestRefusals:
    def test_points(self, case):
        run = case[4]
        with pytest.raises(ValueError, match=r"z must have shape \(number of points"):
            diagnostics.posterior_influence(run, np.zeros((3, 2)))
        with pytest.raises(ValueError, match="z must be finite"):
            diagnostics.posterior_influence(run, [np.nan])
        with pytest.raises(TypeError, match="num_draws must be a whole number"):
            diagnostics.posterior_influence(run, [0.0], num_draws=2.5)  # pyright: ignore
        with pytest.raises(ValueError, match="num_simulations must be at least 2"):
            diagnostics.posterior_influence(run, [0.0], num_simulations=1)

    def test_a_stored_run(self, case):
        stored = dataclasses.replace(case[4], target=None)
        for call in (diagnostics.observation_influence, diagnostics.misfit):
            with pytest.raises(ValueError, match="give the one it was drawn from"):
                call(stored)
            with pytest.raises(TypeError, match="Expected a Run, got str"):
                call("run")  # pyright: ignore
