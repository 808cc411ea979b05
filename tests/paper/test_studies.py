"""The stochastic-gradient studies: what they read off results that are made up here."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import genbayes as gb
from genbayes.paper import (
    EXPERIMENTS,
    _langevin,
    concentration_uni,
    lorenz_abc,
    pm_vs_sg,
    tuning,
)
from genbayes.paper._chains import flat_draws
from genbayes.paper._concentration import N
from genbayes.paper._data import PUBLISHED_INTERVAL, TRUTHS, Data
from genbayes.paper._experiment import SCALES, Scale
from genbayes.paper._pages import write_page

PART = Scale("part", 0.01, False)


def answer(size: int, spread: float = 1.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "draws": 1.0 + 0.2 * spread * rng.normal(size=(50, size)),
        "mean": np.stack([np.ones(size), np.full(size, 0.01)]),
        "sd": np.stack([np.full(size, 0.2 * spread), np.full(size, 0.01)]),
        "acceptance": np.array([0.1, 0.01]),
        "dt": np.array(1e-3),
        "drawn": np.ones((2, size, 2)),
        "seconds": np.array(1.0),
        "simulations": np.array(10),
    }


def made_up(name: str, cell: str) -> dict[str, np.ndarray]:
    if cell.startswith("KSD"):
        chains = np.linspace(1.0, 2.0, 3)[:, None] / np.arange(1, 31)[None]
        return {"path": chains, "sizes": np.arange(1, 31)}
    if name == "lorenz_neural":
        size = 3 if cell.startswith("linear") else 111
        path = {"path": 1 / np.arange(1.0, 6.0), "sizes": np.arange(10, 60, 10)}
        score = np.full(20, 1.0 if cell.startswith("neural") else 2.0)
        return answer(size) | path | {"scores": score}
    if name == "lorenz_abc":
        told = lorenz_abc.SCORES[cell[:-2]] if cell[:-2] in lorenz_abc.SCORES else np.ones(20)
        few = np.full(20, 0.01)
        return answer(3) | {"scores": np.array(told), "error": few, "noise": few}
    size = 4 if name in ("pm_vs_sg", "concentration_uni") else 5
    if cell.endswith("race"):
        return {"dt": np.array([1e-3, 1e-3, 10**-3.5])}
    if cell.endswith("answers"):
        both = {f"reference/{k}": v for k, v in answer(size).items()}
        return both | {f"ours/{k}": v for k, v in answer(size, 1.1).items()}
    return answer(size, 0.5)


STUDIES = (
    "pm_vs_sg", "concentration_uni", "concentration_multi", "concentration_multi_misspecified",
    "lorenz_abc", "lorenz_neural",
)  # fmt: skip


@pytest.fixture
def no_series(monkeypatch):
    """Data of the right shape, without the cost of the two-scale model."""
    from genbayes.paper import _data

    monkeypatch.setattr(_data, "_series", lambda: np.ones((5, 21, 8)) + np.eye(21, 8))


@pytest.mark.parametrize("name", STUDIES)
def test_pages_of_studies(name, tmp_path, no_series):
    experiment, data = EXPERIMENTS[name], Data()
    names = [cell.name for cell in experiment.cells(PART, data)]
    results = {cell: made_up(name, cell) for cell in names}
    outcome = write_page(experiment, PART, data, results, {}, 1.0, tmp_path)
    page = (tmp_path / outcome.page).read_text()
    assert page.count("data:image/png;base64,") >= 2
    assert "Which is right" in page
    # as made up: the published sampler has half the reference's sd, elsewhere all are alike
    assert ("0.50 to 0.50" if name.startswith("conc") else "1.00 to 1.00") in page
    assert len(outcome.numbers) == {"pm_vs_sg": 76, "lorenz_abc": 60, "lorenz_neural": 0}.get(
        name, 16
    )


def test_weights_and_bandwidths_are_judged_by_their_own_data(tmp_path):
    y = {key: np.zeros((1, 1)) for key in ("pm_uni_gk", "pm_mv_gk", "normal_location_eps0")}
    np.savez(tmp_path / "y.npz", **y)
    data, paper = Data(tmp_path / "y.npz"), SCALES["paper"]
    items = {**tuning.BANDWIDTHS, **tuning.WEIGHTS}
    results = {
        name: {"value": np.array(x), "interval": np.array([0.99 * x, 1.01 * x])}
        for name, x in ((name, item.published) for name, item in items.items())
    }
    outcome = write_page(EXPERIMENTS["tuning"], paper, data, results, {}, 1.0, tmp_path)
    verdicts = {n.what: n.verdict for n in outcome.numbers}
    assert verdicts["bandwidth, univariate g-and-k"] == "agrees"
    assert verdicts["weight, univariate, energy to BSL"] == "agrees"
    assert verdicts["weight, univariate, energy to BSL (the released script)"] == "differs"
    assert verdicts["weight, multivariate, kernel to energy"] == "not compared"  # other data
    without = write_page(EXPERIMENTS["tuning"], paper, Data(), results, {}, 1.0, tmp_path)
    assert without.verdicts == {"agrees": 5, "not compared": 13}  # bandwidths need no data


def test_published_step_sizes_are_squares():
    sampler = _langevin.published_adsgld(0.01)
    assert sampler.step_size == pytest.approx(0.1)
    assert sampler.diffusion == pytest.approx(0.1)  # 0.01 / 0.1
    assert (sampler.integrator, sampler.noise) == ("euler", "iid")
    energy = concentration_uni.STUDY.methods["energy"]
    assert [f"{energy.dt(n):.0e}" for n in N] == [
        "3e-02", "3e-02", "3e-03", "3e-04", "1e-03", "1e-04", "1e-04", "3e-06",
    ]  # fmt: skip


def test_races_are_compared_on_the_scale_of_powers():
    compare = partial(_langevin.compare_step_size, "x", note="")
    near = compare(10**-2.5, {"dt": np.array([1e-3, 1e-3, 10**-2.5])})
    assert near.verdict(comparable=True) == "agrees"
    far = compare(1e-1, {"dt": np.array([1e-4, 1e-4, 1e-4])})
    assert far.verdict(comparable=True) == "differs"


def test_marginals_are_read_as_they_were_drawn():
    x = np.random.default_rng(0).normal(2.0, 0.5, 100_000)
    mean, sd = pm_vs_sg.as_drawn(x)
    assert (mean, sd) == pytest.approx((2.0, 0.5), abs=0.01)
    mean, _ = pm_vs_sg.as_drawn(np.abs(x - 2.0))  # what lies beyond the range is lost
    assert mean > np.mean(np.abs(x - 2.0))


def test_a_failing_step_halves_the_published_step_size():
    """A target whose gradient is finite only near the origin, so that large steps leave it."""

    def log_likelihood(theta, y):
        return jnp.where(jnp.abs(theta["mean"]) < 3, -20 * theta["mean"] ** 2, jnp.inf) + 0 * y

    problem = gb.tasks.normal_location().problem(seed=0, num_observations=1)
    target = gb.ScorePosterior(problem, gb.LogScore(log_likelihood))
    settings = {"num_samples": 200, "start": "zero", "seed": 0}
    run, dt = _langevin.published_run(target, 1.0, **settings)
    assert dt < 1.0
    assert np.log2(dt) == round(np.log2(dt))
    assert not np.any(run.info["refused"])


def test_statistics_of_a_series_are_means_over_its_ring():
    x = np.random.default_rng(0).normal(size=(20, 8))

    def covariance(a, b):
        return np.mean([np.cov(a[:, k], b[:, k], bias=True)[0, 1] for k in range(8)])

    other = x[:, [1, 2, 3, 4, 5, 6, 7, 0]]
    expected = [
        x.mean(), x.var(axis=0).mean(), covariance(x[1:], x[:-1]), covariance(x, other),
        covariance(x[1:], other[:-1]), covariance(other[1:], x[:-1]),
    ]  # fmt: skip
    found = lorenz_abc.hakkarainen(jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_forecasts_are_scored_as_series_whatever_the_distance_saw(monkeypatch):
    """Of data sets of the published model at its truth, ten series each."""
    y = np.asarray(gb.tasks.lorenz96.linear(num_records=2).generate(0, 3)).reshape(3, 2, 8)
    y = np.concatenate([y, np.zeros((3, 18, 8))], axis=1).reshape(3, 160)
    monkeypatch.setattr(lorenz_abc, "LEAST_RECORDS", 2)
    glance = SCALES["smoke"]
    target = lorenz_abc._target(y, glance, statistics=True)
    assert target.problem.features().shape == (3, 6)
    sampler = gb.SMCABC(num_particles=20, num_generations=2, num_simulations=2, data_size=1)
    run = gb.sample(target, sampler, progress=False)
    told = lorenz_abc._forecasts(run, glance)
    assert told["scores"].shape == told["error"].shape == (2,)
    # at the first record a series is its start, a step of the drift and noise of sd about 0.5
    assert 3 * 0.5 < told["scores"][0] < 3 * 4.0


def test_weighted_draws_are_copied_as_often_as_they_weigh():
    class Weighted:
        unconstrained = np.zeros((1, 4, 2))
        draws = {"a": np.arange(4.0)[None], "b": 10 * np.arange(4.0)[None]}  # noqa: RUF012
        weights = np.array([[0.0, 0.5, 0.25, 0.25]])

    found = flat_draws(Weighted())  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(found, [[1, 10], [1, 10], [2, 20], [3, 30]])


def test_series_come_from_the_file_or_from_the_text(tmp_path, no_series):
    assert Data().get("l96_truth_obs_0").shape == (1, 160)
    assert not Data().holds(TRUTHS)
    np.savez(tmp_path / "y.npz", **{key: np.zeros((1, 8)) for key in TRUTHS})
    assert Data(tmp_path / "y.npz").holds(TRUTHS)
    assert PUBLISHED_INTERVAL == 0.075
    np.savez(tmp_path / "other.npz", x=np.zeros(3))  # these sets need not be there
    assert Data(tmp_path / "other.npz").get("l96_truth_init_3").shape == (1, 8)


def test_a_glance_takes_few_cells():
    names = [c.name for c in EXPERIMENTS["concentration_uni"].cells(SCALES["smoke"], Data())]
    assert names == ["energy-10-published", "energy-10-race", "energy-10-answers"]
