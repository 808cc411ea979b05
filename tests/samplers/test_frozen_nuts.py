"""NUTS on frozen noise, on parameters and noise together, and on exact targets."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import numpyro.infer
import pytest
from tests.samplers.table import small_target
from tests.support import exact, laws
from tests.support.problems import (
    OBSERVATIONS,
    NormalLogScore,
    PlainEnergy,
    location_problem,
    location_scale_problem,
)

import genbayes as gb
from genbayes.samplers import freezing_error
from genbayes.targets import sobol_noise

PLAN = {"num_warmup": 300, "num_chains": 4, "seed": 1, "start": "zero", "progress": False}


@pytest.fixture(scope="module")
def location_exact() -> exact.Exact:
    return exact.location_posterior(exact.expected_energy(OBSERVATIONS))


@pytest.fixture(scope="module")
def finite_ten() -> exact.Exact:
    """The target of pseudo-marginal chains at ten simulations."""
    return exact.finite_location_posterior(OBSERVATIONS, 10, num_noises=40_000)


@pytest.fixture(scope="module")
def frozen() -> gb.Run:
    target = gb.ScorePosterior(location_problem(), PlainEnergy(), num_simulations=64)
    return gb.sample(target, gb.FrozenNUTS(), num_samples=1000, **PLAN)


class TestFrozen:
    def test_it_recovers_the_scoring_rule_posterior_with_few_simulations(
        self, frozen, location_exact
    ):
        laws.assert_recovers(frozen, location_exact, bias=0.03)

    def test_it_does_not_have_the_target_of_pseudo_marginal_chains(self, frozen, finite_ten):
        laws.assert_not_recovers(frozen, finite_ten, bias=0.03)

    def test_every_chain_freezes_its_own_noise_and_keeps_it(self, frozen):
        noise = np.asarray(frozen.walk.state.noise.simulator)
        assert noise.shape == (4, 64)
        assert len(np.unique(noise[:, 0])) == 4
        longer = gb.resume(frozen, num_samples=1001, progress=False)
        np.testing.assert_array_equal(longer.walk.state.noise.simulator, noise)

    def test_the_error_of_freezing_is_told(self, frozen):
        (remark,) = frozen.status.remarks
        largest = freezing_error(frozen.unconstrained).max()
        assert f"at most {largest:.3f} posterior sds" in remark
        assert largest < 0.1
        assert frozen.status.ok

    def test_one_chain_cannot_show_it(self, frozen):
        (remark,) = gb.FrozenNUTS().remarks({}, frozen.unconstrained[:1])
        assert "One chain cannot show the error of its frozen noise: num_chains=4" in remark

    def test_chains_whose_noise_differs_too_much_are_told(self, frozen):
        apart = frozen.unconstrained + np.array([0.0, 0.1, 0.0, -0.1])[:, None, None]
        (finding,) = gb.FrozenNUTS().findings(frozen.info, apart)
        assert "more than Monte Carlo error explains: their frozen noise differs" in finding


class TestFreezingError:
    @pytest.mark.parametrize("spread", [0.0, 0.05, 0.3])
    def test_it_measures_the_spread_of_the_means(self, spread):
        """Many chains, so that the spread itself is known to a tenth."""
        rng = np.random.default_rng(0)
        means = spread * rng.normal(size=(200, 1, 1))
        u = 2.0 * (means + rng.normal(size=(200, 2000, 1)))
        found = freezing_error(u)
        assert found is not None
        # Monte Carlo: the variance of 200 means of 2000 draws, over the within-chain variance
        noise = np.sqrt(2 / 199) * (spread**2 + 1 / 2000)
        assert abs(found[0] ** 2 - spread**2) < 4 * noise

    def test_it_needs_two_chains(self):
        assert freezing_error(np.zeros((1, 100, 2))) is None


INFO = {"diverging": np.zeros((2, 100), bool), "cut_off": np.zeros((2, 100), bool)}


class TestFindings:
    def test_a_sound_run_has_none(self):
        assert gb.NUTS().findings(INFO, np.zeros((2, 100, 1))) == []

    def test_divergences_are_told(self):
        info = INFO | {"diverging": np.arange(200).reshape(2, 100) < 3}
        (finding,) = gb.NUTS().findings(info, np.zeros((2, 100, 1)))
        assert finding.startswith("1.5% of the trajectories diverged")

    @pytest.mark.slow
    def test_trajectories_cut_off_are_told(self):
        target = small_target()
        sampler = gb.FrozenNUTS(step_size=1e-3, inverse_mass=jnp.ones(1), max_doublings=2)
        run = gb.sample(target, sampler, num_samples=40, start="zero", progress=False)
        assert run.info["cut_off"].all()
        assert np.all(run.info["num_evaluations"] == 3)
        (finding,) = run.status.findings
        assert (
            "100.0% of the trajectories were cut off at their longest (max_doublings=2" in finding
        )


def key_target(**options) -> gb.ScorePosterior:
    """The location model, with noise that is only known as a key."""
    simulator = gb.Simulator(lambda theta, key: theta["mean"] + jax.random.normal(key))
    problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, OBSERVATIONS)
    return gb.ScorePosterior(problem, PlainEnergy(), **{"num_simulations": 8} | options)


def exact_target() -> gb.ScorePosterior:
    return gb.ScorePosterior(location_scale_problem(), NormalLogScore())


def black_box_target() -> gb.ScorePosterior:
    simulator = gb.BlackBox(lambda theta, rng: rng.normal(theta["mean"], 1.0))
    problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, OBSERVATIONS)
    return gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)


@pytest.mark.parametrize(
    ("sampler", "make_target", "match"),
    [
        (gb.FrozenNUTS(), exact_target, r"no noise to freeze: use NUTS\(\)"),
        (gb.FrozenNUTS(), key_target, r"Sobol noise does not apply.*FrozenNUTS\(noise='iid'\)"),
        (gb.FrozenNUTS(), black_box_target, r"BlackBox has none. Use PseudoMarginal\(\)"),
        (gb.NUTS(), small_target, r"NUTS needs a density without noise.*Use FrozenNUTS\(\)"),
        (gb.PseudoMarginalNUTS(), exact_target, r"exact and has no noise: use NUTS\(\)"),
        (gb.PseudoMarginalNUTS(), key_target, "needs its density.*noise='groups'"),
        (gb.PseudoMarginalNUTS(), black_box_target, "BlackBox has none"),
        (
            gb.PseudoMarginalNUTS(noise="groups", groups=9),
            small_target,
            r"at most the number of simulations \(8\), got 9",
        ),
        (
            gb.PseudoMarginalNUTS(),
            lambda: small_target(batch_size=2),
            "batch_size and joint noise do not go together",
        ),
    ],
)
def test_a_target_that_does_not_fit_is_refused(sampler, make_target, match):
    with pytest.raises(ValueError, match=match):
        gb.sample(make_target(), sampler, num_samples=10, num_warmup=20, progress=False)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: gb.FrozenNUTS(noise="even"), ValueError, "noise must be one of 'sobol', 'iid'"),
        (lambda: gb.NUTS(metric="full"), ValueError, "metric must be one of 'auto', 'dense'"),
        (lambda: gb.NUTS(target_acceptance=1.0), ValueError, "strictly between 0 and 1, got 1.0"),
        (lambda: gb.NUTS(max_doublings=0), ValueError, "max_doublings must be at least 1, got 0"),
        (lambda: gb.PseudoMarginalNUTS(groups=0), ValueError, "groups must be at least 1, got 0"),
        (
            lambda: gb.sample(small_target(), gb.FrozenNUTS(), num_samples=10, progress=False),
            ValueError,
            r"FrozenNUTS learns its step size and metric in warm-up.*at least 10 \(500 is usual\)",
        ),
    ],
)
def test_bad_settings_are_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()


@pytest.mark.slow
def test_the_noise_of_a_simulator_that_takes_a_key_can_be_frozen(location_exact):
    """A fixed key is fixed noise: ordinary draws, so more of them, and chains that differ more."""
    target = key_target(num_simulations=2000)
    run = gb.sample(target, gb.FrozenNUTS(noise="iid"), num_samples=500, **PLAN | {"num_chains": 8})
    error = freezing_error(run.unconstrained)
    assert error is not None
    # the mean of eight freezes errs by their spread over the root of eight
    laws.assert_recovers(run, location_exact, bias=0.03 + 4 * error[0] / np.sqrt(8))


@pytest.mark.slow
@pytest.mark.parametrize("package", ["NumPyro", "BlackJAX"])
def test_other_packages_sample_a_frozen_target(package, location_exact):
    """`target.freeze(noise)` is an ordinary log density to them."""
    target = gb.ScorePosterior(location_problem(), gb.EnergyScore(), num_simulations=512)
    density = target.freeze(sobol_noise(jax.random.key(0), target))
    if package == "NumPyro":
        kernel = numpyro.infer.NUTS(potential_fn=lambda u: -density(u))
        chains = numpyro.infer.MCMC(
            kernel, num_warmup=500, num_samples=4000, num_chains=2, chain_method="sequential",
            progress_bar=False,
        )  # fmt: skip
        chains.run(jax.random.key(1), init_params=jnp.zeros((2, 1)))
        u = np.asarray(chains.get_samples(group_by_chain=True))
    else:
        sampler = blackjax.nuts(density, step_size=0.5, inverse_mass_matrix=0.1 * jnp.ones(1))

        def step(state, key):
            state, _ = sampler.step(key, state)
            return state, state.position

        keys = jax.random.split(jax.random.key(1), 5000)
        _, u = jax.lax.scan(step, sampler.init(jnp.zeros(1)), keys)
        u = np.asarray(u[None, 500:])
    # the error of one freeze: the points differ by pairs, not all pairs, an offset of order 1/m
    x, known = u[..., 0], location_exact
    assert abs(x.mean() - known.mean["mean"]) < 0.1 * known.sd["mean"]
    assert abs(x.std() / known.sd["mean"] - 1) < 0.1


class TestPseudoMarginalNUTS:
    @pytest.mark.parametrize(
        "sampler",
        [
            gb.PseudoMarginalNUTS(),
            pytest.param(gb.PseudoMarginalNUTS(noise="groups", groups=5), marks=pytest.mark.slow),
        ],
        ids=["joint", "groups"],
    )
    def test_it_has_the_target_of_pseudo_marginal_chains(self, sampler, finite_ten, location_exact):
        target = gb.ScorePosterior(location_problem(), PlainEnergy(), num_simulations=10)
        run = gb.sample(target, sampler, num_samples=2000, **PLAN)
        laws.assert_recovers(run, finite_ten)
        laws.assert_not_recovers(run, location_exact)

    @pytest.mark.slow
    def test_noise_on_a_bounded_space_keeps_its_density(self):
        """At weight 0 the noise follows its own distribution: an error of the Jacobian shows."""
        simulator = gb.Simulator(lambda theta, z: theta["mean"] + z, noise=dist.Gamma(3.0, 2.0))
        problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, OBSERVATIONS)
        target = gb.ScorePosterior(problem, PlainEnergy(), weight=0.0, num_simulations=2)
        run = gb.sample(
            target, gb.PseudoMarginalNUTS(), num_samples=1, num_warmup=300, num_chains=800,
            seed=0, progress=False,
        )  # fmt: skip
        noise = np.exp(np.asarray(run.walk.state.rest, float))  # of a positive support
        laws.assert_distribution(noise[:, :1].T, dist_cdf(3.0, 2.0))


def dist_cdf(concentration: float, rate: float):
    from scipy import stats

    return stats.gamma(concentration, scale=1 / rate).cdf


class TestExact:
    def test_a_step_over_a_cliff_is_refused_though_its_kinetic_energy_overflows(self):
        """With a full metric the sum of products, some of them negative, was minus infinity."""
        score = gb.LogScore(lambda theta, y: -jnp.exp(theta["x"] + 20 * theta["y"]) + 0 * y)
        problem = gb.Problem(
            gb.Prior(x=dist.Normal(0.0, 1.0), y=dist.Normal(0.0, 1.0)), None, OBSERVATIONS[:1]
        )
        sampler = gb.NUTS(step_size=2.0, inverse_mass=jnp.array([[1.0, -0.9], [-0.9, 1.0]]))
        run = gb.sample(
            gb.ScorePosterior(problem, score), sampler, num_samples=200, num_chains=8, seed=0,
            start={"x": 0.0, "y": -1.0}, progress=False,
        )  # fmt: skip
        assert run.info["diverging"].any()
        assert run.info["log_density"].min() > -100

    def test_nuts_recovers_a_conjugate_posterior(self):
        r"""$N(\mu, 1)$ with $\mu \sim N(0, 1)$: mean $\sum y / (n + 1)$, variance $1 / (n + 1)$."""
        problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), None, OBSERVATIONS)
        score = gb.LogScore(lambda theta, y: dist.Normal(theta["mean"], 1.0).log_prob(y))
        run = gb.sample(gb.ScorePosterior(problem, score), gb.NUTS(), num_samples=1000, **PLAN)
        n = len(OBSERVATIONS)
        known = exact.Exact({"mean": OBSERVATIONS.sum() / (n + 1)}, {"mean": (n + 1) ** -0.5})
        laws.assert_recovers(run, known)
        assert run.cost.simulator_calls == 0
