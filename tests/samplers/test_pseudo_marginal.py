"""Pseudo-marginal chains: their finite-m target, correlated noise, adaptation, diagnosis."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from tests.samplers.table import small_target
from tests.support import broken, exact, laws
from tests.support.problems import (
    OBSERVATIONS,
    NormalLogScore,
    PlainEnergy,
    location_problem,
    location_scale_problem,
)

import genbayes as gb
from genbayes.samplers._base import longest_stay
from genbayes.samplers._pseudo_marginal import scaled


def draw(m: int, sampler: gb.PseudoMarginal, num_samples: int, seed: int = 2) -> gb.Run:
    target = gb.ScorePosterior(location_problem(), PlainEnergy(), num_simulations=m)
    return gb.sample(
        target, sampler, num_samples=num_samples, num_warmup=500, num_chains=4, seed=seed,
        start="zero", chain_method="sequential", progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def finite_ten() -> exact.Exact:
    """The target at m = 10: as wide again by 40 % as that of many simulations."""
    return exact.finite_location_posterior(OBSERVATIONS, 10, num_noises=100_000)


@pytest.fixture(scope="module")
def plain_ten() -> gb.Run:
    return draw(10, gb.PseudoMarginal(0.8), 25_000)


@pytest.fixture(scope="module")
def correlated_ten() -> gb.Run:
    return draw(10, gb.PseudoMarginal(0.8, groups=10), 25_000)


class TestFiniteTarget:
    """At m simulations the exact target is the average over noise of exp(-w S_hat)."""

    def test_ten_simulations(self, plain_ten, finite_ten):
        laws.assert_recovers(plain_ten, finite_ten)

    def test_ten_simulations_correlated(self, correlated_ten, finite_ten):
        laws.assert_recovers(correlated_ten, finite_ten)

    def test_ten_simulations_in_groups_of_two_and_three(self, finite_ten):
        laws.assert_recovers(draw(10, gb.PseudoMarginal(0.8, groups=4), 25_000), finite_ten)

    def test_it_is_not_the_target_of_many_simulations(self, correlated_ten):
        limit = exact.location_posterior(exact.expected_energy(OBSERVATIONS))
        laws.assert_not_recovers(correlated_ten, limit)

    def test_fifty_simulations(self):
        known = exact.finite_location_posterior(OBSERVATIONS, 50, num_noises=40_000)
        laws.assert_recovers(draw(50, gb.PseudoMarginal(0.8, groups=50), 20_000), known)

    @pytest.mark.slow
    @pytest.mark.parametrize(("m", "noises"), [(10, 400_000), (50, 100_000), (500, 20_000)])
    @pytest.mark.parametrize("groups", [None, 10], ids=["plain", "correlated"])
    def test_dependence_on_the_number_of_simulations(self, m, noises, groups):
        known = exact.finite_location_posterior(OBSERVATIONS, m, num_noises=noises)
        target = gb.ScorePosterior(location_problem(), gb.EnergyScore(), num_simulations=m)
        run = gb.sample(
            target, gb.PseudoMarginal(0.8, groups=groups), num_samples=100_000, num_warmup=1000,
            num_chains=2, seed=2, chain_method="sequential", progress=False,
        )  # fmt: skip
        laws.assert_recovers(run, known)

    def test_the_law_turns_down_a_refreshed_estimate(self, finite_ten):
        laws.assert_not_recovers(draw(10, broken.Refreshing(0.8), 25_000), finite_ten)

    def test_the_law_turns_down_noise_kept_after_a_rejection(self, finite_ten):
        run = draw(10, broken.DriftingNoise(0.8, groups=10), 25_000)
        laws.assert_not_recovers(run, finite_ten)


class TestCorrelated:
    def test_it_has_the_law_of_the_plain_chain(self, plain_ten, correlated_ten):
        laws.assert_same_distribution(plain_ten.draws["mean"], correlated_ten.draws["mean"])

    @pytest.mark.slow
    def test_it_mixes_better_where_the_plain_chain_is_stuck(self):
        """The noise of the estimate has an sd far above 1 here: that is what groups are for.

        Effective draws of a chain are counted by the variance of the means of 64 chains, known to
        18 %: an estimate from one chain believes what a stuck chain shows. Where the plain chain
        moves well, the groups are a brake, for the noise is renewed slowly: acceptance rises all
        the same, and the effective sample size falls.
        """
        problem = location_problem()
        target = gb.ScorePosterior(problem, PlainEnergy(), weight=40.0, num_simulations=10)
        found = []
        for groups in (None, 10):
            run = gb.sample(
                target, gb.PseudoMarginal(0.3, groups=groups), num_samples=20_000, num_warmup=2000,
                num_chains=64, seed=2, start={"mean": 1.0}, progress=False,
            )  # fmt: skip
            accepted, x = run.info["accepted"], run.draws["mean"].astype(float)
            effective = x.var() / x.mean(axis=1).var(ddof=1)
            found.append((accepted.mean(), longest_stay(accepted), effective))
        (plain, plain_stay, plain_ess), (correlated, stay, ess) = found
        assert correlated > 4 * plain
        assert stay < plain_stay / 3
        assert ess > 2 * plain_ess  # 3.5 times, by six such pairs: three standard errors of a ratio

    def test_noise_and_estimate_stand_or_fall_together(self):
        sampler, target = gb.PseudoMarginal(0.8, groups=3), small_target()
        step = eqx.filter_jit(lambda key, state: sampler.step(key, target, state))
        estimate = eqx.filter_jit(lambda state: target.log_density(state.u, state.noise))
        state = sampler.init(jax.random.key(0), target, jnp.zeros(1))
        seen = set()
        for t in range(40):
            before = state
            state, info = step(jax.random.fold_in(jax.random.key(1), t), state)
            np.testing.assert_allclose(state.log_density, estimate(state), rtol=1e-5)
            changed = np.sum(np.asarray(state.noise.simulator != before.noise.simulator))
            moved = bool(state.u != before.u)
            assert moved == bool(info.accepted)
            assert changed in ((2, 3) if moved else (0,))  # one group of 8 draws in three
            seen.add(moved)
        assert seen == {True, False}


def test_a_rejection_keeps_the_estimate_to_the_bit(plain_ten):
    accepted = plain_ten.info["accepted"][:, 1:]
    u, value = plain_ten.unconstrained[..., 0], plain_ten.info["log_density"]
    assert np.all((np.diff(u, axis=1) == 0) == ~accepted)
    assert np.all(np.diff(value, axis=1)[~accepted] == 0)


class TestRefreshGroup:
    @pytest.mark.parametrize(("m", "groups"), [(10, 1), (10, 3), (10, 4), (10, 10), (7, 2)])
    def test_exactly_one_group_changes(self, m, groups):
        target = small_target(num_simulations=m)
        noise = target.draw_noise(jax.random.key(0))
        keys = jax.random.split(jax.random.key(1), 500)
        fresh = jax.jit(jax.vmap(lambda key: target.refresh_group(key, noise, groups)))(keys)
        changed = np.asarray(fresh.simulator != noise.simulator[None])
        patterns, counts = np.unique(changed, axis=0, return_counts=True)
        bounds = np.arange(groups + 1) * m // groups
        expected = {tuple(range(bounds[g], bounds[g + 1])) for g in range(groups)}
        assert {tuple(np.flatnonzero(p).tolist()) for p in patterns} == expected
        if groups > 1:
            assert stats.chisquare(counts).pvalue > 1e-4, "groups are not chosen alike"

    def test_fresh_noise_has_the_noise_distribution(self):
        target = small_target(num_simulations=10)
        noise = target.draw_noise(jax.random.key(0))
        keys = jax.random.split(jax.random.key(1), 500)
        fresh = jax.jit(jax.vmap(lambda key: target.refresh_group(key, noise, 4)))(keys)
        values = np.asarray(fresh.simulator)
        new = values[values != np.asarray(noise.simulator)[None]]
        assert stats.kstest(new, "norm").pvalue > 1e-4

    def test_structured_noise_and_keys_are_refreshed_together(self):
        def structured(key):
            return {"wide": jax.random.normal(key, (2,)), "key": jax.random.fold_in(key, 7)}

        prior = gb.Prior(mean=dist.Normal(0.0, 1.0))
        simulator = gb.Simulator(lambda t, z: t["mean"] + z["wide"][0], noise=structured)
        problem = gb.Problem(prior, simulator, OBSERVATIONS)
        target = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=6)
        noise = target.draw_noise(jax.random.key(0))
        fresh = target.refresh_group(jax.random.key(1), noise, 3)
        wide = np.any(np.asarray(fresh.simulator["wide"] != noise.simulator["wide"]), axis=1)
        keys = [jax.random.key_data(x.simulator["key"]) for x in (noise, fresh)]
        assert wide.sum() == 2
        np.testing.assert_array_equal(wide, np.any(np.asarray(keys[0] != keys[1]), axis=1))


class TestProposals:
    def test_scales_are_numbers_vectors_or_cholesky_factors(self):
        jump = jnp.array([1.0, 2.0])
        factor = jnp.array([[2.0, 0.0], [1.0, 3.0]])
        np.testing.assert_allclose(scaled(0.5, jump), [0.5, 1.0])
        np.testing.assert_allclose(scaled(jnp.array([1.0, 3.0]), jump), [1.0, 6.0])
        np.testing.assert_allclose(scaled(factor, jump), [2.0, 7.0])

    def test_adaptation_learns_the_covariance_and_then_stops(self):
        covariance = np.array([[1.0, 1.35], [1.35, 2.25]])  # correlation 0.9
        vector = dist.MultivariateNormal(jnp.zeros(2), jnp.asarray(covariance))
        simulator = gb.Simulator(lambda t, z: t["v"][0] + z, noise=dist.Normal(0.0, 1.0))
        problem = gb.Problem(gb.Prior(v=vector), simulator, OBSERVATIONS)
        target = gb.ScorePosterior(problem, PlainEnergy(), weight=0.0, num_simulations=2)
        run = gb.sample(
            target, gb.PseudoMarginal(0.1, adapt=True), num_samples=4000, num_warmup=4000,
            seed=0, progress=False,
        )  # fmt: skip
        fixed = run.walk.walker
        assert fixed.adapt is False
        factor = np.asarray(fixed.proposal_scale)[0]
        learned = factor @ factor.T / (2.38**2 / 2)
        np.testing.assert_allclose(learned, covariance, rtol=0.35)
        longer = gb.resume(run, num_samples=4100, progress=False)
        np.testing.assert_array_equal(longer.walk.walker.proposal_scale, fixed.proposal_scale)
        assert 0.2 < run.info["accepted"].mean() < 0.5


class TestDiagnosis:
    def test_longest_stay_counts_rejections_in_a_row(self):
        accepted = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 1, 1]])
        assert longest_stay(accepted) == 3
        assert longest_stay(np.ones((2, 4))) == 0
        assert longest_stay(np.zeros((1, 6))) == 6

    def test_a_sticky_chain_is_told(self):
        target = small_target(weight=60.0)
        run = gb.sample(target, gb.PseudoMarginal(0.8), num_samples=1000, progress=False)
        assert not run.status.ok
        (finding,) = [f for f in run.status.findings if "sticky" in f]
        assert "of the proposals were accepted" in finding
        assert "groups=num_simulations" in finding
        assert finding in str(run.summary())

    @pytest.mark.parametrize(("groups", "told"), [(None, True), (8, False)])
    def test_what_is_done_already_is_not_advised(self, groups, told):
        stuck = {"accepted": np.zeros((1, 200))}
        (finding,) = gb.PseudoMarginal(0.8, groups=groups).findings(stuck, np.zeros((1, 200, 1)))
        assert ("correlated noise" in finding) is told

    def test_a_chain_that_moves_is_not(self, correlated_ten):
        assert correlated_ten.status.findings == ()


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"proposal_scale": 0.0}, ValueError, "proposal_scale must be above 0, got 0.0"),
        ({"proposal_scale": -1.0}, ValueError, "proposal_scale must be above 0"),
        ({"proposal_scale": float("nan")}, ValueError, "proposal_scale must be finite, got nan"),
        ({"proposal_scale": "wide"}, ValueError, "proposal_scale must be finite, got 'wide'"),
        ({"proposal_scale": np.ones((1, 1, 1))}, ValueError, "number, vector or matrix"),
        ({"groups": 0}, ValueError, "groups must be at least 1, got 0"),
        ({"groups": 2.5}, TypeError, r"groups must be a whole number, got 2.5 \(float\)"),
        ({"groups": True}, TypeError, "groups must be a whole number, got True"),
    ],
)
def test_bad_settings_are_refused(settings, error, match):
    with pytest.raises(error, match=match):
        gb.PseudoMarginal(**settings)


@pytest.mark.parametrize(
    ("sampler", "match"),
    [
        (gb.PseudoMarginal(groups=9), r"at most the number of simulations \(8\), got 9"),
        (gb.PseudoMarginal(np.ones(2)), r"one number, 1 of them, or a \(1, 1\) Cholesky factor"),
        (gb.PseudoMarginal(np.eye(3)), r"got shape \(3, 3\)"),
    ],
)
def test_settings_that_do_not_fit_the_target_are_refused(sampler, match):
    with pytest.raises(ValueError, match=match):
        gb.sample(small_target(), sampler, num_samples=10, progress=False)


def test_groups_are_refused_where_there_is_no_noise():
    problem = gb.Problem(location_scale_problem().prior, None, OBSERVATIONS)
    target = gb.ScorePosterior(problem, NormalLogScore())
    with pytest.raises(ValueError, match="groups has no meaning for an exact score"):
        gb.sample(target, gb.PseudoMarginal(groups=2), num_samples=10, progress=False)


def test_joint_distribution_of_parameters_and_data():
    """Geweke (2004): alternating y | theta and Metropolis steps of theta | y leaves the prior.

    The score is the exact negative log-likelihood, so one step is a Metropolis step; any error of
    its ratio, of the Jacobian or of the weight moves the marginals of theta or of the data away
    from what plain simulation gives.
    """
    n, sweeps = 5, 60_000
    problem = gb.Problem(location_scale_problem().prior, None, np.zeros(n))
    target = gb.ScorePosterior(problem, NormalLogScore())
    sampler, prior = gb.PseudoMarginal(0.9), problem.prior

    def sweep(u, key):
        key_data, key_init, *key_steps = jax.random.split(key, 4)
        theta = prior.constrain(u)
        y = theta["mean"] + theta["scale"] * jax.random.normal(key_data, (n, 1))
        given = eqx.tree_at(lambda t: t.prepared, target, target.score.prepare(y))
        state = sampler.init(key_init, given, u)
        for key_step in key_steps:
            state, _ = sampler.step(key_step, given, state)
        theta = prior.constrain(state.u)
        return state.u, (theta["mean"], theta["scale"], y[0, 0], jnp.mean(y**2))

    keys = jax.random.split(jax.random.key(0), sweeps)
    _, (mean, scale, first, _) = jax.jit(lambda u: jax.lax.scan(sweep, u, keys))(jnp.zeros(2))
    laws.assert_distribution(np.asarray(mean)[None], stats.norm(0, 2).cdf)
    laws.assert_distribution(np.asarray(scale)[None], stats.halfnorm(scale=2).cdf)
    rng = np.random.default_rng(0)
    simulated = 2 * rng.normal(size=(1, 20_000))
    simulated += 2 * np.abs(rng.normal(size=simulated.shape)) * rng.normal(size=simulated.shape)
    laws.assert_same_distribution(np.asarray(first)[None], simulated)
