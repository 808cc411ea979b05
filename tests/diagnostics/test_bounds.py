"""The bounds of the paper's theorems, by hand and against what happens."""

import math

import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support.problems import location_problem

import genbayes as gb
from genbayes import diagnostics
from genbayes.kernels import Gaussian, Laplace

Y = np.array([0.2, 0.8, 1.4, -0.3])


def kernel_target(kernel=None, weight: float = 0.5) -> gb.ScorePosterior:
    score = gb.KernelScore(Gaussian(1.0) if kernel is None else kernel)
    return gb.ScorePosterior(location_problem(Y), score, weight=weight)


class TestRobustness:
    def test_kernel_score_by_hand(self):
        found = diagnostics.robustness_bound(kernel_target())
        sup = 1 / math.sqrt(2 * math.pi)
        assert found.constant == pytest.approx(8 * 0.5 * 4 * math.exp(6 * 0.5 * 4) * sup, rel=1e-4)
        assert found.relative == 16
        assert len(found.plot().axes) == 1
        assert found.table().to_dicts()[0]["value"] == found.log_constant

    def test_energy_score_by_hand(self):
        target = gb.ScorePosterior(location_problem(Y), gb.EnergyScore(1.5), weight=0.1)
        found = diagnostics.robustness_bound(target, size=3.0, log_sup_prior=0.0)
        b = 3.0**1.5
        assert found.constant == pytest.approx(8 * 0.4 * b * math.exp(2 * 0.4 * b))

    def test_overflow_is_infinite_not_an_error(self):
        found = diagnostics.robustness_bound(kernel_target(weight=100.0), log_sup_prior=0.0)
        assert found.constant == math.inf
        assert found.log_constant == pytest.approx(2400 + math.log(3200))

    def test_sums_of_kernels_and_weighted_scores(self):
        mixed = kernel_target(Gaussian(1.0) + 0.5 * Laplace(2.0))
        assert diagnostics.robustness_bound(mixed, log_sup_prior=0.0).size == 1.5
        score = gb.KernelScore.mmd_bayes(Gaussian(1.0), beta=8.0, n=4)
        target = gb.ScorePosterior(location_problem(Y), score, weight=0.5)
        assert diagnostics.robustness_bound(target, log_sup_prior=0.0).weight == 1.0

    def test_sup_of_the_prior_is_found(self):
        prior = gb.Prior(a=dist.Uniform(0, 4), b=dist.Normal(3.0, 0.5), c=dist.Gamma(3.0, 2.0))
        mode = 1.0  # of the gamma distribution
        known = math.log(1 / 4) + dist.Normal(3.0, 0.5).log_prob(3.0)
        known = float(known + dist.Gamma(3.0, 2.0).log_prob(mode))
        simulator = gb.Simulator(
            lambda t, z: t["a"] + t["b"] + t["c"] * z, noise=dist.Normal(0.0, 1.0)
        )
        target = gb.ScorePosterior(gb.Problem(prior, simulator, Y), gb.KernelScore(Gaussian(1.0)))
        found = diagnostics.robustness_bound(target)
        assert found.log_sup_prior == pytest.approx(known, abs=1e-3)

    def test_refusals(self):
        energy = gb.ScorePosterior(location_problem(Y), gb.EnergyScore())
        with pytest.raises(ValueError, match="only where observations lie in a bounded space"):
            diagnostics.robustness_bound(energy)
        other = gb.ScorePosterior(location_problem(Y), gb.SyntheticLikelihood())
        with pytest.raises(
            ValueError, match="The theorem is about the kernel and the energy score"
        ):
            diagnostics.robustness_bound(other)
        own = kernel_target(gb.kernels.Custom(lambda x, y: (x * y).sum()))
        with pytest.raises(ValueError, match="is not known for Custom: give it"):
            diagnostics.robustness_bound(own)
        with pytest.raises(TypeError, match="must be a ScorePosterior or a Run, got int"):
            diagnostics.robustness_bound(3)  # pyright: ignore
        with pytest.raises(ValueError, match="size must be a finite number above 0"):
            diagnostics.robustness_bound(energy, size=-1.0)


class TestGeneralisation:
    def bound(self, form="published", **options):
        return diagnostics.generalisation_bound(
            kernel_target(), alpha1=1.0, alpha2=2.0, form=form, **options
        )

    def test_by_hand(self):
        n, epsilon = 10_000, 0.5
        inside = (math.sqrt(n) * epsilon - 1 - 2 / 0.5) / 8
        known = 2 * math.exp(-0.5 * inside**2)
        assert self.bound().probability(epsilon, n) == pytest.approx(known)
        larger = math.exp(-0.5 * ((math.sqrt(n) * epsilon - 5 - 8) / 8) ** 2)
        assert self.bound("uniform").probability(epsilon, n) == pytest.approx(larger)

    def test_where_it_says_nothing_it_says_one(self):
        assert self.bound().probability(0.01) == 1.0  # the square alone would fall again
        assert self.bound().probability(1e-9, 1) == 1.0

    @pytest.mark.parametrize("form", ["published", "uniform"])
    def test_deviation_and_number_invert_it(self, form):
        bound = self.bound(form)
        epsilon = bound.deviation(0.05, 500)
        assert bound.probability(epsilon, 500) == pytest.approx(0.05)
        assert bound.observations_for(epsilon, 0.05) == 500
        assert len(bound.plot().axes) == 1
        assert bound.table().column("observations") == [4, 40, 400, 4000]

    def test_holds_for_the_location_model(self):
        """The deviation, exact by quadrature, never exceeds what is allowed one time in two."""
        target, n = kernel_target(weight=1.0), 50
        alpha2 = diagnostics.prior_mass(target, {"mean": 0.5}, alpha1=0.5, num_simulations=200)
        assert 0 < alpha2 < 5
        assert max(alpha2.table().column("alpha2")) <= alpha2
        bound = diagnostics.generalisation_bound(target, alpha1=0.5, alpha2=alpha2)
        rng, grid = np.random.default_rng(0), np.linspace(-4, 5, 901)
        found = []
        for _ in range(100):
            y = rng.normal(0.5, 1.0, n)
            score = -2 * np.exp(-((grid[:, None] - y) ** 2) / 4).sum(axis=1) / math.sqrt(2)
            p = np.exp(-0.5 * grid**2 - score + score.min())
            divergence = 2 / math.sqrt(3) * (1 - np.exp(-((grid - 0.5) ** 2) / 6))
            found.append(p @ divergence / p.sum())
        assert np.quantile(found, 0.5) < bound.deviation(0.5, n)
        assert np.mean(found) < 0.2  # the posterior itself is far below the bound

    def test_mass_of_a_known_ball(self):
        """The squared MMD of N(a, 1) and N(0, 1) is a known function of a."""
        target = kernel_target()
        alpha1, largest = 0.5, 1
        found = diagnostics.prior_mass(
            target, {"mean": 0.0}, alpha1=alpha1, largest=largest, num_draws=1000,
            num_simulations=200,
        )  # fmt: skip
        radius = math.sqrt(-6 * math.log(1 - alpha1 * math.sqrt(3) / 2))
        mass = math.erf(radius / math.sqrt(2))
        assert math.exp(-found) == pytest.approx(mass, abs=4 * math.sqrt(mass / 1000) + 0.05)
        assert found.table().column("alpha2") == [pytest.approx(float(found))]
        assert len(found.plot().axes) == 1

    def test_refusals(self):
        with pytest.raises(ValueError, match="form must be 'published' or 'uniform'"):
            self.bound(form="sharp")
        with pytest.raises(ValueError, match="alpha1 must be a finite number above 0"):
            diagnostics.generalisation_bound(kernel_target(), alpha1=0.0, alpha2=1.0)
        with pytest.raises(ValueError, match="probability must lie strictly between"):
            self.bound().deviation(1.5)
        with pytest.raises(ValueError, match="weight must be a finite number above 0"):
            diagnostics.generalisation_bound(kernel_target(weight=0.0), alpha1=1.0, alpha2=1.0)
