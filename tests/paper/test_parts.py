"""The parts of a reproduction: errors of numbers, verdicts, what is kept, the published sampler."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.exact import expected_energy, expected_kernel, location_posterior

import genbayes as gb
from genbayes.paper import EXPERIMENTS, DriftingPseudoMarginal, _kept, reproduce
from genbayes.paper._data import Data
from genbayes.paper._experiment import SCALES, Comparison
from genbayes.paper._statistics import jackknife, trace_of_covariance
from genbayes.paper.pm_concentration import proposal_scale
from genbayes.paper.robust_normal import SCORES, quadrature, standard_bayes


def autoregressive(rng: np.random.Generator, rho: float, length: int) -> np.ndarray:
    x = np.empty(length)
    x[0] = rng.normal()
    for t in range(1, length):
        x[t] = rho * x[t - 1] + np.sqrt(1 - rho**2) * rng.normal()
    return x


def test_errors_of_a_correlated_chain_are_those_over_replications():
    rng = np.random.default_rng(0)
    found = [jackknife(np.mean, autoregressive(rng, 0.8, 2000)) for _ in range(200)]
    spread = np.std([value for value, _ in found], ddof=1)
    told = np.sqrt(np.mean([error**2 for _, error in found]))
    # the spread of 200 values is known to 5 %, an error from 20 blocks is a little too small
    assert told == pytest.approx(spread, rel=0.2)
    naive = 1 / np.sqrt(2000)
    assert naive < 0.5 * spread  # what forgets the correlation fails the same test


def test_trace_of_covariance_is_the_sum_of_variances():
    x = np.random.default_rng(1).normal(size=(50, 3))
    assert trace_of_covariance(x) == pytest.approx(np.trace(np.cov(x.T)))


def test_a_short_chain_has_no_error():
    assert jackknife(np.mean, np.ones(5)) == (1.0, float("inf"))


@pytest.mark.parametrize(
    ("published", "ours", "error", "rounding", "bound", "verdict"),
    [
        (0.100, 0.1004, 0.001, 0.0005, False, "agrees"),  # within rounding
        (0.100, 0.104, 0.001, 0.0005, False, "agrees"),  # 2.5 errors of the difference
        (0.100, 0.106, 0.001, 0.0005, False, "differs"),
        (0.001, 0.0001, 0.0001, 0.0005, True, "agrees"),  # under an upper bound
        (0.001, 0.0100, 0.0001, 0.0005, True, "differs"),
        (0.100, 0.106, float("nan"), 0.0, False, "not compared"),
    ],
)
def test_verdicts(published, ours, error, rounding, bound, verdict):
    comparison = Comparison("x", published, ours, error, rounding, bound=bound)
    assert comparison.verdict(comparable=True) == verdict
    assert comparison.verdict(comparable=False) == "not compared"


def test_results_are_kept_whole_and_belong_to_their_observations(tmp_path):
    result = {"acceptance": np.array([0.1, 0.01])}
    _kept.write(tmp_path, "cell", "these", result)
    assert [p.name for p in tmp_path.iterdir()] == ["cell.npz"]
    kept = _kept.read(tmp_path, "cell", "these")
    assert kept is not None
    np.testing.assert_array_equal(kept["acceptance"], result["acceptance"])
    assert _kept.read(tmp_path, "cell", "others") is None
    (tmp_path / "cell.npz").write_bytes((tmp_path / "cell.npz").read_bytes()[:50])
    assert _kept.read(tmp_path, "cell", "these") is None


def test_the_refreshed_noise_stays_when_the_published_sampler_rejects():
    problem = gb.tasks.normal_location().problem(num_observations=20)
    target = gb.ScorePosterior(problem, gb.EnergyScore(), weight=50.0, num_simulations=20)
    keys = jax.random.split(jax.random.key(0), 20)
    kept, drifted = gb.PseudoMarginal(5.0, groups=4), DriftingPseudoMarginal(5.0, groups=4)
    for sampler, moves in ((kept, False), (drifted, True)):
        state, rejected = sampler.init(keys[0], target, jnp.zeros(1)), 0
        step = eqx.filter_jit(sampler.step)
        for key in keys:
            after, info = step(key, target, state)
            if not info.accepted:
                rejected += 1
                same = np.array_equal(after.noise.simulator, state.noise.simulator)
                assert same is not moves
                assert after.log_density == state.log_density
            state = after
        assert rejected > 5


@pytest.mark.parametrize(
    ("score", "expected"),
    [("energy", expected_energy), ("kernel", partial(expected_kernel, bandwidth=0.9566))],
)
def test_quadrature_with_sobol_noise_meets_the_closed_form(score, expected):
    y = np.asarray(gb.tasks.normal_location().generate(3, 30), float)
    found = quadrature(score, y[:, None])
    exact = location_posterior(expected(y), SCORES[score][1])
    sd = exact.sd["mean"]
    # 2048 even points: their error is a few thousandths of an sd
    assert abs(found["mean"] - exact.mean["mean"]) < 0.02 * sd
    assert found["sd"] == pytest.approx(sd, rel=0.02)


def test_standard_bayes_in_closed_form():
    assert standard_bayes(np.array([[1.0], [2.0], [3.0]])) == (1.5, 0.5)


def test_published_proposals_are_variances():
    assert proposal_scale("uni_gk", "energy", 25) == 1.0
    assert proposal_scale("uni_gk", "energy", 30) == pytest.approx(0.4**0.5)
    assert proposal_scale("multi_gk", "kernel", 100) == pytest.approx(0.1**0.5)
    assert proposal_scale("uni_gk", "BSL", 100) == 1.0


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_cells_have_names_of_their_own(name):
    cells = EXPERIMENTS[name].cells(SCALES["smoke"], Data())
    assert cells
    assert len({cell.name for cell in cells}) == len(cells)


def test_what_is_unknown_is_refused(tmp_path):
    call = partial(reproduce, out=tmp_path, progress=False)
    with pytest.raises(ValueError, match="no experiment 'figure_9': expected 'all' or some of"):
        call("figure_9")
    with pytest.raises(ValueError, match="scale must be one of 'smoke', 'paper', got 'half'"):
        call("robust_normal", scale="half")
    with pytest.raises(FileNotFoundError, match="no file of observations at"):
        call("robust_normal", observations=tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(KeyError, match="holds no observations named 'normal_location_eps0"):
        call("robust_normal", observations=tmp_path / "other.npz")
