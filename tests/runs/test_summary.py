"""Summaries against ArviZ, which computes the same diagnostics in its own code."""

from dataclasses import replace

import arviz
import numpy as np
import pytest
import xarray as xr

import genbayes as gb
from genbayes._convergence import ess_bulk, ess_mean, ess_tail, rhat


def autoregressive(rng: np.random.Generator, rho: float, chains: int, draws: int) -> np.ndarray:
    """Chains of unit variance with correlation rho between neighbours."""
    x = np.empty((chains, draws))
    x[:, 0] = rng.normal(size=chains)
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=chains)
    return x


def chains_of(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "independent":
        return rng.normal(size=(4, 1000))
    if kind == "slow":
        return autoregressive(rng, 0.9, 4, 2000)
    if kind == "alternating":
        return autoregressive(rng, -0.6, 2, 1001)
    if kind == "one chain":
        return autoregressive(rng, 0.5, 1, 800)
    if kind == "odd length":
        return autoregressive(rng, 0.5, 3, 777)
    if kind == "heavy tails":
        return rng.standard_cauchy(size=(4, 1000))
    if kind == "different spread":
        return rng.normal(size=(4, 1000)) * np.array([[1.0], [1.0], [1.0], [4.0]])
    if kind == "sticky":  # as Metropolis draws are: many ties
        return np.repeat(rng.normal(size=(4, 100)), 10, axis=1)
    assert kind == "stuck apart"
    return 0.1 * rng.normal(size=(4, 500)) + np.arange(4.0)[:, None]


KINDS = [
    "independent", "slow", "alternating", "one chain", "odd length", "heavy tails",
    "different spread", "sticky", "stuck apart",
]  # fmt: skip


# ArviZ leaves the last pairs of lags out of its monotone sequence, which shows at these
DIFFERS_IN_THE_LAST_LAGS = {"different spread": 0.01, "stuck apart": 0.02}


@pytest.mark.parametrize("kind", KINDS)
def test_diagnostics_are_those_of_arviz(kind):
    x, tolerance = chains_of(kind), DIFFERS_IN_THE_LAST_LAGS.get(kind, 1e-9)
    data = arviz.convert_to_dataset(x)  # (chain, draw)
    if len(x) > 1:  # of a single chain ArviZ gives no R-hat; ours compares its halves
        np.testing.assert_allclose(rhat(x), arviz.rhat(data)["x"], rtol=1e-9)
    for ours, method in ((ess_bulk, "bulk"), (ess_tail, "tail"), (ess_mean, "mean")):
        theirs = arviz.ess(data, method=method)["x"]
        np.testing.assert_allclose(ours(x), theirs, rtol=tolerance, err_msg=method)


def test_one_chain_has_an_r_hat_that_compares_its_halves():
    x = chains_of("one chain")
    assert abs(rhat(x) - 1) < 0.02
    assert rhat(x + np.linspace(0, 10, x.shape[1])) > 1.5


def test_chains_stuck_in_different_places_are_seen_along_the_right_axis(made_run):
    """Read with its axes swapped, the same array would look like perfect mixing."""
    run = made_run(chains=4, draws=400)
    run.draws["A"][:] = chains_of("stuck apart")[:, :400]
    row = run.summary().to_dicts()[0]
    assert row["r-hat"] > 2
    assert row["ess bulk"] < 10
    assert rhat(run.draws["A"].T[:4]) < 2
    assert "! R-hat above 1.01: A" in str(run.summary())


@pytest.mark.parametrize("kind", ["independent", "slow", "stuck apart"])
def test_the_table_holds_the_numbers_of_arviz(kind, made_run):
    x = chains_of(kind)
    run = made_run(chains=x.shape[0], draws=x.shape[1])
    run.draws["A"][:] = x
    row = run.summary().to_dicts()[0]
    theirs = arviz.summary(run.to_arviz(), var_names=["A"], kind="all", round_to="none").iloc[0]
    for ours, name in (
        ("mean", "mean"), ("ess bulk", "ess_bulk"), ("ess tail", "ess_tail"),
        ("r-hat", "r_hat"), ("mc error", "mcse_mean"),
    ):  # fmt: skip
        tolerance = 0.02 if kind == "stuck apart" else 1e-6
        np.testing.assert_allclose(row[ours], theirs[name], rtol=tolerance, err_msg=ours)
    np.testing.assert_allclose(row["sd"], theirs["sd"], rtol=1e-3)
    low, high = np.quantile(x, [0.05, 0.95])
    np.testing.assert_allclose([row["5%"], row["95%"]], [low, high])


def test_every_coordinate_of_a_vector_has_a_row(made_run):
    table = made_run(chains=2, draws=100).summary()
    assert table.column("parameter") == ["A", "b[0]", "b[1]"]


@pytest.mark.parametrize(("chains", "draws"), [(1, 1), (2, 3)])
def test_few_draws_give_a_table_and_a_warning_instead_of_an_error(chains, draws, made_run):
    text = str(made_run(chains=chains, draws=draws).summary())
    assert "Effective sample size under 100 a chain" in text


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_not_passed_over(value):
    x = np.random.default_rng(0).normal(size=(2, 100))
    x[0, 3] = value
    assert np.isnan(rhat(x))
    assert np.isnan(ess_mean(x))


def test_chains_that_never_moved():
    assert rhat(np.zeros((2, 100))) == 1.0
    assert rhat(np.zeros((2, 100)) + np.array([[0.0], [1.0]])) > 1000
    assert ess_bulk(np.zeros((2, 100))) == 200


def test_to_xarray_is_in_the_arviz_schema(made_run):
    run = made_run(chains=3, draws=20)
    tree = run.to_xarray()
    assert isinstance(tree, xr.DataTree)
    assert tree["posterior"]["b"].dims == ("chain", "draw", "b_dim_0")
    assert tree["posterior"].sizes == {"chain": 3, "draw": 20, "b_dim_0": 2}
    assert tree["unconstrained_posterior"]["u"].shape == (3, 20, 3)
    assert tree["observed_data"]["y"].dims == ("observation",)
    assert "acceptance_rate" in tree["sample_stats"]
    assert tree.attrs["inference_library"] == "genbayes"
    data = run.to_arviz()
    np.testing.assert_array_equal(data.posterior["A"].values, run.draws["A"])
    np.testing.assert_allclose(arviz.rhat(data)["A"], rhat(run.draws["A"]), rtol=1e-6)


def test_save_and_load_give_the_run_back(made_run, tmp_path):
    run = made_run(chains=2, draws=30)
    again = gb.load(run.save(tmp_path / "deep" / "run.nc"))
    for part in ("draws", "info"):
        assert getattr(run, part).keys() == getattr(again, part).keys()
        for name, value in getattr(run, part).items():
            np.testing.assert_array_equal(getattr(again, part)[name], value)
    np.testing.assert_array_equal(again.unconstrained, run.unconstrained)
    np.testing.assert_array_equal(again.observations, run.observations)
    assert (again.status, again.cost, again.plan) == (run.status, run.cost, run.plan)
    assert again.provenance == run.provenance
    assert str(again.summary()) == str(run.summary())
    theirs = arviz.from_netcdf(tmp_path / "deep" / "run.nc")
    np.testing.assert_array_equal(theirs.posterior["A"].values, run.draws["A"])


def test_a_file_of_another_library_is_refused(tmp_path):
    xr.DataTree.from_dict({"/": xr.Dataset(attrs={"a": 1})}).to_netcdf(
        tmp_path / "other.nc", engine="h5netcdf"
    )
    with pytest.raises(ValueError, match=r"was not written by genbayes: use xarray.open_datatree"):
        gb.load(tmp_path / "other.nc")


def test_weights_are_those_of_the_info_and_sum_to_one(made_run):
    run = made_run(chains=2, draws=3)
    assert run.weights is None
    log_weight = np.log(np.arange(1.0, 7.0)).reshape(2, 3) + 1000
    weighted = replace(run, info=run.info | {"log_weight": log_weight})
    np.testing.assert_allclose(weighted.weights, np.arange(1.0, 7.0).reshape(2, 3) / 21)
