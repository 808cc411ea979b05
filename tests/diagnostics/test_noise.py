"""The noise of the estimated log density, against brute force and theory."""

import jax
import numpy as np
import pytest
from tests.support.made import run_of
from tests.support.problems import OBSERVATIONS, NormalLogScore, PlainEnergy, location_problem

import genbayes as gb
from genbayes import diagnostics

Y = np.concatenate([OBSERVATIONS] * 4)


def make(m: int, **options) -> gb.ScorePosterior:
    return gb.ScorePosterior(location_problem(Y), PlainEnergy(), num_simulations=m, **options)


def brute_force(m: int, mean: float, repeats: int) -> np.ndarray:
    """Estimates of the energy score's total by NumPy."""
    rng = np.random.default_rng(5)
    x = mean + rng.standard_normal((repeats, m))
    cross = np.abs(x[:, :, None] - Y).mean(axis=1).sum(axis=1)
    spread = np.abs(x[:, :, None] - x[:, None, :]).sum(axis=(1, 2)) / (m * (m - 1))
    return 2 * cross - len(Y) * spread


@pytest.fixture(scope="module", params=[0.9, 2.5], ids=["at the fit", "in the tail"])
def case(request):
    found = diagnostics.noise(make(40), np.array([request.param]), num_repeats=2000)
    return request.param, found


def test_equals_brute_force(case):
    at, found = case
    known = brute_force(40, at, 4000)
    relative = np.sqrt(
        2 / 2000 + (np.mean((known - known.mean()) ** 4) / known.var() ** 2 - 1) / 4000
    )
    assert found.variance == pytest.approx(known.var(), rel=4 * relative)
    assert found.error == pytest.approx(found.variance * np.sqrt(2 / 1999))


def test_the_predicted_number_delivers_the_variance(case):
    at, found = case
    for wanted in (found.variance / 4, found.variance * 2):
        m = found.simulations_for(wanted)
        assert brute_force(m, at, 2000).var() == pytest.approx(wanted, rel=0.3)
        assert found.at(m) <= wanted * (1 + 1e-9)
        assert found.at(m - 1) > wanted


def test_table_and_picture(case):
    found = case[1]
    kinds = found.table().column("")
    assert kinds[:2] == ["measured", "measured"]
    assert len(found.plot().axes) == 1


def test_takes_runs_and_mappings():
    target = make(40)
    run = run_of(target, np.full((10, 1), 0.9))
    by_run = diagnostics.noise(run, num_repeats=16)
    by_name = diagnostics.noise(target, {"mean": np.float32(0.9)}, num_repeats=16)
    assert by_run.variance == pytest.approx(by_name.variance, rel=1e-4)


def test_sobol_noise_is_smaller_and_falls_faster():
    even = diagnostics.noise(make(64), np.array([0.9]), num_repeats=256, sobol=True)
    loose = diagnostics.noise(make(64), np.array([0.9]), num_repeats=256)
    assert even.variance < loose.variance / 5
    assert even.second > 1.5
    assert even.simulations_for(even.variance / 10) < 640


def test_black_boxes_serve():
    problem = location_problem(Y)
    box = gb.BlackBox(lambda theta, rng: theta["mean"] + rng.standard_normal())
    target = gb.ScorePosterior(gb.Problem(problem.prior, box, Y), PlainEnergy(), num_simulations=20)
    found = diagnostics.noise(target, {"mean": 0.9}, num_repeats=30)
    assert found.variance == pytest.approx(
        brute_force(20, 0.9, 4000).var(), rel=4 * np.sqrt(2 / 29)
    )


def test_subsets_of_the_data_add_what_simulations_do_not_cure():
    found = diagnostics.noise(make(40, batch_size=10), {"mean": 2.5}, num_repeats=32)
    with pytest.raises(ValueError, match="measure a target without batch_size"):
        found.simulations_for(1.0)
    assert found.table().column("") == ["measured", "measured"]


def test_failures_are_counted():
    def broken(theta, key):
        return theta["mean"] + jax.numpy.where(jax.random.uniform(key) < 0.005, jax.numpy.nan, 0.0)

    target = gb.ScorePosterior(
        gb.Problem(location_problem().prior, gb.Simulator(broken), Y), PlainEnergy(),
        num_simulations=40,
    )  # fmt: skip
    found = diagnostics.noise(target, {"mean": 0.0}, num_repeats=200)
    share = (1 - 0.995**40 + 1 - 0.995**10) / 2
    assert found.failures == pytest.approx(share, abs=4 * np.sqrt(share / 400))
    assert "were not finite" in str(found.table())


def test_refusals():
    target = make(40)
    exact = gb.ScorePosterior(location_problem(), NormalLogScore())
    with pytest.raises(ValueError, match="its log density has no noise"):
        diagnostics.noise(exact, np.zeros(1))
    with pytest.raises(ValueError, match="Give the point"):
        diagnostics.noise(target)
    with pytest.raises(ValueError, match=r"u must have shape \(1,\)"):
        diagnostics.noise(target, np.zeros(2))
    with pytest.raises(TypeError, match="must be a ScorePosterior or a Run"):
        diagnostics.noise("target", np.zeros(1))  # pyright: ignore
    with pytest.raises(ValueError, match="num_repeats must be at least 8"):
        diagnostics.noise(target, np.zeros(1), num_repeats=2)
