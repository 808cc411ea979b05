"""Samplers against posteriors known by quadrature, and broken ones against the same law."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.support import broken, exact, laws
from tests.support.problems import OBSERVATIONS, location_problem, location_scale_problem

import genbayes as gb
from genbayes.kernels import Gaussian
from genbayes.scores import KernelScore

BANDWIDTH = 1.0
SCORES = {
    "energy": (gb.EnergyScore, exact.expected_energy(OBSERVATIONS)),
    "kernel": (
        lambda: KernelScore(Gaussian(BANDWIDTH)),
        exact.expected_kernel(OBSERVATIONS, BANDWIDTH),
    ),
}
PROBLEMS = {
    "location": (location_problem, exact.location_posterior),
    "location and scale": (location_scale_problem, exact.location_scale_posterior),
}

# A sampler, its draws, the draws of the simulator that an estimate takes, and the bias allowed for
# in sds: of the finite m for Metropolis and NUTS on the noise, of the step size for the others (of
# pSGLD, of the scale that moves with the gradients too).
ROWS: dict[str, tuple[Callable, int, int, float]] = {
    "pseudo-marginal": (lambda: gb.PseudoMarginal(0.6), 6000, 300, 0.03),
    "correlated": (lambda: gb.PseudoMarginal(0.6, groups=60), 6000, 300, 0.03),
    "adaptive": (lambda: gb.PseudoMarginal(0.2, adapt=True), 6000, 300, 0.03),
    "badodab": (lambda: gb.AdSGLD(0.1, diffusion=3.0), 10_000, 50, 0.03),
    "euler": (lambda: gb.AdSGLD(0.02, diffusion=3.0, integrator="euler"), 30_000, 50, 0.05),
    "automatic diffusion": (lambda: gb.AdSGLD(0.1), 10_000, 50, 0.03),
    "sgld": (lambda: gb.SGLD(0.005), 80_000, 50, 0.05),
    "psgld": (lambda: gb.PSGLD(0.02, decay=0.999), 30_000, 50, 0.1),
    "sghmc": (lambda: gb.SGHMC(0.02, friction=3.0), 30_000, 50, 0.05),
    "frozen nuts": (lambda: gb.FrozenNUTS(), 2000, 128, 0.03),
    "joint nuts": (lambda: gb.PseudoMarginalNUTS(), 2000, 300, 0.03),
    "alternating nuts": (lambda: gb.PseudoMarginalNUTS(noise="groups"), 2000, 300, 0.03),
}


def draw(target: gb.ScorePosterior, sampler, num_samples: int, **options) -> gb.Run:
    settings = {"num_warmup": 1000, "num_chains": 4, "chain_method": "sequential", "seed": 1}
    return gb.sample(
        target, sampler, num_samples=num_samples, start="zero", progress=False, **settings | options
    )


@pytest.mark.parametrize(
    ("row", "score", "problem"),
    [
        # few of the combinations; the slow tier has all
        ("pseudo-marginal", "energy", "location"),
        ("adaptive", "energy", "location"),
        ("euler", "energy", "location"),
        ("correlated", "kernel", "location"),
        ("badodab", "kernel", "location"),
        ("correlated", "energy", "location and scale"),
        ("badodab", "energy", "location and scale"),
        *(
            pytest.param(row, score, problem, marks=pytest.mark.slow)
            for row in ROWS
            for score in SCORES
            for problem in PROBLEMS
        ),
    ],
)
def test_recovers_the_exact_posterior(row, score, problem):
    sampler, num_samples, m, bias = ROWS[row]
    make_score, expected = SCORES[score]
    make_problem, posterior = PROBLEMS[problem]
    target = gb.ScorePosterior(make_problem(), make_score(), num_simulations=m)
    run = draw(target, sampler(), num_samples)
    laws.assert_recovers(run, posterior(expected), bias=bias)


@pytest.fixture(scope="module")
def location_exact() -> exact.Exact:
    return exact.location_posterior(exact.expected_energy(OBSERVATIONS))


class TestTheLawTurnsDown:
    """What no sampler test could show by itself: that the law would notice."""

    def test_a_wrong_sign(self, location_exact):
        target = broken.WrongSign(location_problem(), gb.EnergyScore(), num_simulations=50)
        run = draw(target, gb.PseudoMarginal(1.0, groups=50), 4000)
        laws.assert_not_recovers(run, location_exact, bias=0.03)

    def test_a_missing_jacobian(self):
        problem = location_scale_problem()
        prior = broken.NoJacobian(
            dict(zip(problem.prior.names, problem.prior.distributions, strict=True))
        )
        problem = gb.Problem(prior, problem.simulator, problem.observations)
        target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=300)
        run = draw(target, gb.PseudoMarginal(0.6, groups=60), 6000)
        known = exact.location_scale_posterior(exact.expected_energy(OBSERVATIONS))
        laws.assert_not_recovers(run, known, bias=0.03)

    def test_plain_langevin_is_the_sound_sibling(self, location_exact):
        target = gb.ScorePosterior(location_problem(), gb.EnergyScore(), num_simulations=50)
        run = draw(target, broken.PlainLangevin(0.01), 30_000)
        laws.assert_recovers(run, location_exact, bias=0.1)

    @pytest.mark.parametrize(
        "sampler",
        [broken.PlainLangevin(0.01, noise_power=1.0), broken.PlainLangevin(0.01, sign=-1.0)],
        ids=["noise scaled by the step size", "gradient sign"],
    )
    def test_a_langevin_step_with(self, sampler, location_exact):
        target = gb.ScorePosterior(location_problem(), gb.EnergyScore(), num_simulations=50)
        run = draw(target, sampler, 30_000)
        laws.assert_not_recovers(run, location_exact, bias=0.1)

    @pytest.mark.parametrize("integrator", ["badodab", "euler"])
    def test_a_thermostat_that_climbs(self, integrator, location_exact):
        target = broken.WrongGradientSign(location_problem(), gb.EnergyScore(), num_simulations=50)
        run = draw(target, gb.AdSGLD(0.05, diffusion=3.0, integrator=integrator), 5000)
        assert np.all(np.isfinite(run.unconstrained))
        laws.assert_not_recovers(run, location_exact, bias=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "m", "num_samples", "bias"),
    [
        (lambda: gb.PseudoMarginal(0.9, groups=50), 2000, 60_000, 0.05),
        (lambda: gb.AdSGLD(0.1, diffusion=3.0), 500, 100_000, 0.05),
        (lambda: gb.FrozenNUTS(), 512, 4000, 0.03),
    ],
    ids=["correlated", "badodab", "frozen nuts"],
)
def test_g_and_k_of_one_observation(sampler, m, num_samples, bias):
    """Four parameters that one observation hardly tells apart, against a grid of 160 000 points."""
    problem = gb.tasks.g_and_k.univariate().problem(np.array([4.0]))
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=m)
    run = draw(target, sampler(), num_samples, num_chains=2)
    laws.assert_recovers(run, exact.g_and_k_posterior(4.0), bias=bias)
