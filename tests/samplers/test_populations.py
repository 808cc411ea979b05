"""Laws of samplers whose draws are the particles of a population, and known ABC posteriors."""

import copy
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from tests.samplers import table
from tests.samplers.populations import assert_populations_recover, moments
from tests.samplers.table import POPULATIONS, TRACES, small_target
from tests.samplers.test_contract import MARGINALS, assert_same_chains, assert_same_run
from tests.support import laws
from tests.support.problems import (
    OBSERVATIONS,
    PlainEnergy,
    every_kind_problem,
    location_problem,
)

import genbayes as gb
from genbayes.problem._check import remarks_on_noise
from genbayes.runs import Outcome
from genbayes.samplers import _distances, _smc_abc
from genbayes.scores import energy_distance, mmd

every_population = pytest.mark.parametrize("name", POPULATIONS)
GENERATIONS = 8


def make(name: str, **changes):
    row = POPULATIONS[name]
    sampler = row.make(row.setting)
    return type(sampler)(**(vars(sampler) | changes))


def draw(name: str, *, changes=None, **options) -> gb.Run:
    settings = {"num_chains": 2, "seed": 3, "progress": False}
    sampler = make(name, **(changes or {}))
    return gb.sample(small_target(), sampler, **settings | options)


@pytest.fixture(scope="module")
def references() -> dict[str, gb.Run]:
    return {}


@pytest.fixture
def uninterrupted(name, references) -> gb.Run:
    if name not in references:
        references[name] = draw(name)
    return references[name]


def assert_same_history(one: gb.Run, other: gb.Run) -> None:
    assert_same_run(one, other)
    assert one.history.keys() == other.history.keys()
    for name, x in one.history.items():
        np.testing.assert_array_equal(x, other.history[name], err_msg=name)


@every_population
def test_draws_are_the_particles_of_the_last_generation(name, uninterrupted):
    run = uninterrupted
    assert run.status.outcome is Outcome.COMPLETE
    assert run.draws["mean"].shape == (2, 40)
    assert run.unconstrained.shape == (2, 40, 1)
    assert all(value.shape == (2, 40) for value in run.info.values())
    assert all(value.shape == (2, GENERATIONS) for value in run.generations.values())
    assert run.num_generations == GENERATIONS
    np.testing.assert_array_equal(run.population(-1).draws["mean"], run.draws["mean"])
    np.testing.assert_allclose(run.weights.sum(axis=1), 0.5, rtol=1e-5)
    tolerance = run.generations["tolerance"]
    assert np.all(np.diff(tolerance[:, 1:]) <= 0)
    assert np.all(tolerance[:, -1] < tolerance[:, 1]), "it falls"
    assert np.all(run.info["distance"][run.info["log_weight"] > -np.inf] <= tolerance[:, -1:].max())
    sets = run.sampler.num_simulations * OBSERVATIONS.size
    assert run.cost.simulator_calls == 2 * GENERATIONS * 40 * sets
    assert run.cost.steps == 2 * GENERATIONS


@every_population
def test_one_compilation_serves_every_setting_and_seed(name, uninterrupted):
    del uninterrupted
    row, target = POPULATIONS[name], small_target()
    before = TRACES[0]
    row.make(row.setting).check(target)
    remarks_on_noise(target.problem)  # as `sample` looks at it
    of_checks = TRACES[0] - before
    gb.sample(target, row.make(0.8 * row.setting), num_chains=2, seed=5, progress=False)
    assert TRACES[0] == before + 2 * of_checks


@pytest.mark.slow
@every_population
def test_sequential_and_more_populations_draw_the_same(name, uninterrupted):
    run = draw(name, chain_method="sequential", num_chains=3)
    assert_same_chains(run.unconstrained[:2], uninterrupted.unconstrained)
    assert not np.array_equal(run.unconstrained[2], run.unconstrained[0])


@every_population
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
def test_a_resumed_run_is_the_uninterrupted_one(name, stored, uninterrupted, tmp_path):
    store = tmp_path / "run" if stored else None
    most = int(0.45 * uninterrupted.cost.simulator_calls)
    stopped = draw(name, max_simulations=most, store=store)
    assert stopped.status.outcome is Outcome.MAX_SIMULATIONS
    assert stopped.num_generations == 4
    np.testing.assert_array_equal(stopped.unconstrained, uninterrupted.population(3).unconstrained)
    if stored:
        assert_same_history(gb.load(store), stopped)
        resumed = gb.resume(store, small_target(), progress=False)
        assert_same_history(gb.load(store), resumed)
    else:
        resumed = gb.resume(stopped, progress=False)
    assert resumed.status.outcome is Outcome.COMPLETE
    assert_same_history(resumed, uninterrupted)
    assert resumed.cost.simulator_calls == uninterrupted.cost.simulator_calls


@every_population
def test_more_generations_go_on_from_the_last(name, uninterrupted):
    longer = gb.resume(uninterrupted, num_generations=10, progress=False)
    assert_same_history(longer, draw(name, changes={"num_generations": 10}))
    assert_same_run(longer.population(GENERATIONS - 1), uninterrupted)
    with pytest.raises(ValueError, match="a population grows no particles: give num_generations"):
        gb.resume(uninterrupted, num_samples=50, progress=False)


@every_population
def test_a_file_holds_every_generation(name, uninterrupted, tmp_path):
    loaded = gb.load(uninterrupted.save(tmp_path / "run.nc"))
    assert_same_history(loaded, uninterrupted)
    np.testing.assert_array_equal(loaded.weights, uninterrupted.weights)
    tree = uninterrupted.to_xarray()
    assert tree["generations"]["tolerance"].dims == ("chain", "generation")
    assert tree["sample_stats"]["log_weight"].dims == ("chain", "draw")


@every_population
def test_a_run_ends_at_its_tolerance_and_stays_there(name, uninterrupted):
    wanted = float(uninterrupted.generations["tolerance"][:, 4].max())
    run = draw(name, changes={"tolerance": wanted})
    assert run.status.outcome is Outcome.REACHED
    assert run.status.ok
    assert run.num_generations <= 6
    assert np.all(run.generations["tolerance"][:, -1] <= wanted)
    # the population that came first has waited for the other, as it was
    first = int(np.argmax(np.any(run.generations["tolerance"] <= wanted, axis=0)))
    chain = int(np.argmax(run.generations["tolerance"][:, first] <= wanted))
    np.testing.assert_array_equal(
        run.population(first).unconstrained[chain], run.unconstrained[chain]
    )
    again = gb.resume(run, progress=False)
    assert again.num_generations == run.num_generations


def test_it_ends_where_moves_are_hardly_accepted():
    run = draw("smc-abc", changes={"min_acceptance": 0.99})
    assert run.status.outcome is Outcome.REACHED
    assert run.num_generations == 2
    assert any("of the moves were accepted" in text for text in run.status.findings)


@pytest.mark.parametrize("name", ["smc-abc", pytest.param("rejection-abc", marks=pytest.mark.slow)])
def test_the_first_generation_is_the_prior_of_every_kind_of_parameter(name):
    target = gb.ScorePosterior(every_kind_problem(), PlainEnergy(), num_simulations=2)
    sampler = make(name, num_particles=5000, num_generations=1, data_size=1)
    run = gb.sample(target, sampler, seed=5, progress=False)
    for label, law in MARGINALS.items():
        key, _, index = label.partition("[")
        x = run.draws[key][..., int(index[:-1])] if index else run.draws[key]
        laws.assert_distribution(x, law.cdf)


def mean(x):
    return x.mean(axis=0)


BY_MEAN = {"distance": "euclidean", "summary": mean, "num_particles": 600, "num_generations": 60}
LOCATION = gb.ScorePosterior(location_problem(), gb.EnergyScore(), num_simulations=2)


class Reindexed(gb.SMCABC):
    """Copies particles where weights are uneven, but not the data sets that belong to them."""

    def next_generation(self, key, target, state):
        right = _smc_abc._selected

        def wrong(sampler, key, state):
            return right(sampler, key, state)._replace(distance=state.distance)

        with mock.patch.object(_smc_abc, "_selected", wrong):
            return super().next_generation(key, target, state)


class NoPrior(gb.SMCABC):
    """Leaves the ratio of prior densities out of the acceptance."""

    def next_generation(self, key, target, state):
        right = _smc_abc._decided

        def wrong(key, target, state, found):
            flat = copy.copy(target)
            object.__setattr__(flat, "problem", copy.copy(target.problem))
            object.__setattr__(flat.problem, "prior", FlatPrior(mean=dist.Normal(0.0, 1.0)))
            return right(key, flat, state, found)

        with mock.patch.object(_smc_abc, "_decided", wrong):
            return super().next_generation(key, target, state)


class FlatPrior(gb.Prior):
    def log_prob_unconstrained(self, u):
        return jnp.zeros((), u.dtype)


def by_mean(kind, tolerance: float, **settings) -> gb.Run:
    # resampled often, so that what a resampling breaks shows
    usual = BY_MEAN | {"tolerance": tolerance, "alpha": 0.9, "resample_below": 0.9}
    sampler = kind(**usual | settings)
    return gb.sample(LOCATION, sampler, num_chains=24, seed=1, progress=False)


@pytest.mark.parametrize(
    ("tolerance", "num_simulations"),
    [
        (1.0, 1),
        (0.1, 4),
        pytest.param(1.0, 4, marks=pytest.mark.slow),
        pytest.param(0.1, 1, marks=pytest.mark.slow),
    ],
)
def test_smc_recovers_the_posterior_at_its_tolerance(tolerance, num_simulations):
    run = by_mean(gb.SMCABC, tolerance, num_simulations=num_simulations)
    assert run.status.outcome is Outcome.REACHED
    assert_populations_recover(run, OBSERVATIONS)


@pytest.mark.parametrize("kind", [Reindexed, pytest.param(NoPrior, marks=pytest.mark.slow)])
def test_a_broken_sampler_does_not(kind):
    run = by_mean(kind, 1.0, num_simulations=1)
    with pytest.raises(AssertionError, match="not recovered"):
        assert_populations_recover(run, OBSERVATIONS)


def test_weights_left_out_are_noticed():
    run = by_mean(gb.SMCABC, 1.0, num_simulations=4, resample_below=0.0, num_particles=400)
    assert_populations_recover(run, OBSERVATIONS)
    run.info["log_weight"][:] = 0.0
    with pytest.raises(AssertionError, match="not recovered"):
        assert_populations_recover(run, OBSERVATIONS)


def test_rejection_recovers_the_posterior_at_its_tolerance():
    settings = {"num_particles": 400, "num_generations": 10}
    sampler = gb.RejectionABC(**BY_MEAN | settings)
    run = gb.sample(LOCATION, sampler, num_chains=24, seed=1, progress=False)
    assert_populations_recover(run, OBSERVATIONS)


@pytest.mark.slow
def test_as_the_tolerance_falls_the_posterior_itself_is_recovered():
    n = OBSERVATIONS.size
    exact = OBSERVATIONS.sum() / (n + 1), (n + 1) ** -0.5
    off = []
    for tolerance in (2.0, 0.5, 0.05):
        found = moments(by_mean(gb.SMCABC, tolerance, num_simulations=4))
        off.append(
            [abs(x.mean() - known) / exact[1] for x, known in zip(found, exact, strict=True)]
        )
    assert off[0][1] > 0.5, "far at first"
    assert off[1][1] < off[0][1]
    assert max(off[2]) < 0.06


def test_distances_are_those_of_numpy(precision):
    del precision
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    simulator = gb.Simulator(lambda theta, z: theta["a"] + z, lambda key: jax.random.normal(key, 3))
    problem = gb.Problem(gb.Prior(a=dist.Normal(0.0, 1.0)), simulator, y)
    target = gb.ScorePosterior(problem, gb.EnergyScore())
    pairs = np.linalg.norm(x[:, None] - y, axis=-1)
    kernel = gb.kernels.Gaussian(1.3)
    cases = {
        "euclidean": pairs.mean(),
        "energy": float(energy_distance(jnp.asarray(x), jnp.asarray(y), unbiased=False)),
        kernel: float(mmd(jnp.asarray(x), jnp.asarray(y), kernel, unbiased=False)),
    }
    features = target.problem.features()
    for distance, value in cases.items():
        by = gb.SMCABC(distance=distance, data_size=4)
        by.check(target)
        found = _distances.compare(by, jnp.asarray(x, features.dtype), features)
        np.testing.assert_allclose(found, value, rtol=2e-4, atol=1e-5)
    by = gb.SMCABC(distance="euclidean", summary=mean)
    by.check(target)
    found = _distances.compare(by, jnp.asarray(x, features.dtype), features)
    np.testing.assert_allclose(found, np.linalg.norm(x.mean(0) - y.mean(0)), rtol=1e-4)


@pytest.mark.slow
def test_blocks_do_not_change_a_distance(monkeypatch):
    whole = draw("smc-abc", changes={"alpha": 0.85, "data_size": 3})
    monkeypatch.setattr(_distances, "BLOCK", 100)
    # another setting that is not a number, so that it is compiled again
    blocks = draw("smc-abc", changes={"alpha": 0.85, "data_size": 3, "num_generations": 9})
    assert_same_chains(blocks.population(7).unconstrained, whole.unconstrained)


def black_box_target() -> gb.ScorePosterior:
    y = float(OBSERVATIONS.mean())
    box = gb.BlackBox(lambda theta, rng: rng.normal(theta["mean"], OBSERVATIONS.size**-0.5))
    problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), box, [y])
    return gb.ScorePosterior(problem, gb.EnergyScore())


def test_a_black_box_is_recovered_resumed_and_spared_particles_without_weight():
    target = black_box_target()
    sampler = gb.SMCABC(
        num_particles=300, num_generations=25, num_simulations=1, alpha=0.8, resample_below=0.3,
        distance="euclidean", tolerance=0.5,
    )  # fmt: skip
    run = gb.sample(target, sampler, num_chains=12, seed=2, progress=False)
    assert_populations_recover(run, OBSERVATIONS, bias=0.05, most=0.3)
    asked = 12 * 300 * run.num_generations
    assert run.cost.simulator_calls < 0.95 * asked
    stopped = gb.sample(
        target, sampler, num_chains=12, seed=2, progress=False, max_simulations=asked // 3
    )
    assert stopped.num_generations < run.num_generations
    assert_same_history(gb.resume(stopped, progress=False), run)


def test_draws_that_are_not_finite_lose_their_weight():
    def half(theta, z):
        return jnp.where(theta["mean"] > 0, theta["mean"] + z, jnp.nan)

    problem = gb.Problem(table.PRIOR, gb.Simulator(half, noise=dist.Normal(0.0, 1.0)), OBSERVATIONS)
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=2)
    run = gb.sample(target, make("smc-abc"), progress=False)
    alive = run.weights[0] > 0
    assert np.all(run.draws["mean"][0][alive] > 0)
    first = run.population(0)
    np.testing.assert_array_equal(first.weights[0] > 0, first.draws["mean"][0] > 0)


def test_nothing_finite_is_refused():
    simulator = gb.Simulator(lambda theta, z: theta["mean"] + z + jnp.inf, dist.Normal(0.0, 1.0))
    problem = gb.Problem(table.PRIOR, simulator, OBSERVATIONS)
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=2)
    with pytest.raises(ValueError, match="No particle drawn from the prior had a finite distance"):
        gb.sample(target, make("smc-abc"), progress=False)


REFUSALS = {
    "num_samples": ({"num_samples": 7}, "The draws of SMCABC are its particles, 40 of them"),
    "num_warmup": ({"num_warmup": 7}, "keeps its last generation: num_warmup, thinning"),
    "thinning": ({"thinning": 2}, "num_warmup, thinning, min_ess and start have no meaning"),
    "start": ({"start": "zero"}, "num_warmup, thinning, min_ess and start have no meaning"),
    "min_ess": ({"min_ess": 10.0}, "num_warmup, thinning, min_ess and start have no meaning"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_has_no_meaning_is_refused(case):
    options, message = REFUSALS[case]
    with pytest.raises(ValueError, match=message):
        draw("smc-abc", **options)


SETTINGS = {
    "num_particles": (1, "num_particles must be at least 2"),
    "num_simulations": (0, "num_simulations must be at least 1"),
    "data_size": (0, "data_size must be at least 1"),
    "distance": ("manhattan", "distance must be one of 'energy', 'euclidean'"),
    "alpha": (1.0, "alpha must lie strictly between 0 and 1"),
    "tolerance": (-1.0, "tolerance must be a finite number, 0 or above"),
    "proposal_scale": (0.0, "proposal_scale must be a finite number above 0"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_bad_settings_are_refused(name):
    value, message = SETTINGS[name]
    with pytest.raises(ValueError, match=message):
        gb.SMCABC(**{name: value})
    with pytest.raises(TypeError, match="summary must be a function of a data set"):
        gb.SMCABC(summary=3)


def test_a_distance_that_does_not_fit_is_refused_before_anything_is_compiled():
    with pytest.raises(ValueError, match="must be one floating-point number, got float32"):
        gb.sample(LOCATION, gb.SMCABC(distance=lambda x, y: x[:, 0]), progress=False)
    with pytest.raises(ValueError, match=r"cannot compare a simulated data set of shape \(10, 1\)"):
        gb.sample(LOCATION, gb.SMCABC(distance=lambda x, y: x @ y), progress=False)


def test_a_problem_without_a_simulator_is_refused():
    likelihood = lambda theta, y: stats.norm.logpdf(y - theta["mean"])  # noqa: E731
    problem = gb.Problem(table.PRIOR, None, OBSERVATIONS)
    target = gb.ScorePosterior(problem, gb.LogScore(likelihood))
    with pytest.raises(ValueError, match="SMCABC compares simulations with the data"):
        gb.sample(target, gb.SMCABC(), progress=False)


def test_chains_need_num_samples():
    with pytest.raises(TypeError, match=r"sample needs num_samples=\.\.\."):
        gb.sample(LOCATION, gb.PseudoMarginal(0.5), progress=False)
    run = gb.sample(LOCATION, gb.PseudoMarginal(0.5), num_samples=5, progress=False)
    with pytest.raises(ValueError, match="chains have no generations: give num_samples"):
        gb.resume(run, num_generations=3, progress=False)
    with pytest.raises(ValueError, match="its sampler has no population"):
        run.population(0)


@pytest.mark.slow
def test_functions_are_not_stored(tmp_path):
    store = tmp_path / "run"
    sampler = make("smc-abc", summary=mean)
    options = {"store": store, "progress": False, "max_simulations": 1}
    gb.sample(small_target(), sampler, **options)
    with pytest.raises(ValueError, match=r"functions that are not stored \(summary\)"):
        gb.resume(store, small_target(), progress=False)
    assert gb.resume(store, small_target(), sampler, progress=False).num_generations == GENERATIONS


def test_the_summary_is_weighted():
    run = draw("smc-abc", num_chains=1)
    row = run.summary().to_dicts()[0]
    x, weight = run.draws["mean"].ravel(), run.weights.ravel()
    average = np.average(x, weights=weight)
    assert row["mean"] == pytest.approx(average)
    assert row["sd"] == pytest.approx(np.sqrt(np.average((x - average) ** 2, weights=weight)))
    assert row["ess"] == pytest.approx(1 / np.sum(weight**2))
    assert row["ess"] == pytest.approx(float(run.generations["ess"][0, -1]), rel=1e-3)
    assert weight[x <= row["5%"]].sum() >= 0.05 > weight[x < row["5%"]].sum()
    assert weight[x <= row["95%"]].sum() >= 0.95 > weight[x < row["95%"]].sum()
    assert any("weights leave" in note for note in run.summary().notes)


def test_plots_and_the_page_take_a_population(tmp_path):
    run = draw("smc-abc", store=tmp_path / "run")
    gb.plots.marginals(run)
    gb.plots.pairs(run)
    page = gb.report(run, tmp_path / "page.html").read_text()
    assert "particles, weighted, of generation 8 of 8" in page
    assert "1\\{\\rho" in page or "rho" in page
    assert "weight w" not in page
    arviz = run.to_arviz()
    assert arviz["posterior"]["mean"].shape == (2, 40)
    assert gb.runs.peek(tmp_path / "run").draws == 40
    assert gb.runs.latest_draws(tmp_path / "run", 10)["draws/mean"].shape == (2, 10)
