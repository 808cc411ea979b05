"""Runs on disk as users have them: stopped in every way, gone on with, damaged, read."""

import errno
import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.samplers.table import small_target
from tests.support.problems import OBSERVATIONS, PlainEnergy

import genbayes as gb
from genbayes.runs import Outcome, _loop, _sink, _store_files, _stored
from genbayes.runs._lazy import StoredArray
from genbayes.runs._store_errors import CorruptedError, DiskFullError, StoreError

SAMPLER = gb.PseudoMarginal(0.8, groups=4)
SETTINGS = {"num_samples": 60, "num_warmup": 10, "num_chains": 2, "seed": 3, "start": "zero"}


def draw(target=None, sampler=SAMPLER, **options) -> gb.Run:
    target = small_target() if target is None else target
    return gb.sample(target, sampler, **SETTINGS | {"progress": False} | options)


def go_on(path, target=None, **options) -> gb.Run:
    target = small_target() if target is None else target
    return gb.resume(path, target, progress=False, **options)


@pytest.fixture(autouse=True)
def short_chunks_and_many_commits(monkeypatch):
    monkeypatch.setattr(_loop, "CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr(_sink, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(_store_files.calls, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def whole() -> gb.Run:
    return draw()


def same(run: gb.Run, whole: gb.Run) -> None:
    for name in whole.draws:
        np.testing.assert_array_equal(run.draws[name], whole.draws[name])
    for name in whole.info:
        np.testing.assert_array_equal(run.info[name], whole.info[name])
    np.testing.assert_array_equal(run.unconstrained, whole.unconstrained)
    assert run.cost.steps == whole.cost.steps
    assert run.cost.simulator_calls == whole.cost.simulator_calls


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ({"max_seconds": 1e-9}, Outcome.MAX_SECONDS),
        ({"max_simulations": 100}, Outcome.MAX_SIMULATIONS),
        ({"min_ess": 2.0}, Outcome.MIN_ESS),
    ],
)
def test_every_rule_that_stops_a_stored_run_lets_it_go_on(
    tmp_path, whole, monkeypatch, rule, outcome
):
    monkeypatch.setattr(_sink.Sink, "reached", lambda sink, least: bool(sink.arrays()))
    stopped = draw(store=tmp_path / "run", **rule)
    assert stopped.status.outcome is outcome
    assert f"({next(iter(rule))})" in str(gb.load(tmp_path / "run").status)
    resumed = go_on(tmp_path / "run")
    assert resumed.status.outcome is Outcome.COMPLETE
    same(resumed, whole)
    same(gb.load(tmp_path / "run"), whole)


def failing_at(monkeypatch, place, name, number, error):
    """Make one call fail, the `number`-th."""
    real, count = getattr(place, name), iter(range(10**6))

    def call(*args, **settings):
        if next(count) == number:
            raise error
        return real(*args, **settings)

    monkeypatch.setattr(place, name, call)
    return lambda: monkeypatch.setattr(place, name, real)


def stop_by(monkeypatch, path, place, name, error, number=30) -> None:
    mend = failing_at(monkeypatch, place, name, number, error)
    with pytest.raises(type(error), match=str(error)):
        draw(store=path)
    mend()


def test_a_simulator_that_raises_leaves_a_run_that_says_so(tmp_path, whole, monkeypatch):
    stop_by(monkeypatch, tmp_path, _loop.Walk, "advance", ZeroDivisionError("in the model"))
    status = gb.load(tmp_path).status
    assert status.outcome is Outcome.FAILED
    assert status.findings == ("ZeroDivisionError: in the model",)
    assert "ZeroDivisionError: in the model" in (tmp_path / "log.txt").read_text()
    same(go_on(tmp_path), whole)


@pytest.mark.parametrize("number", range(12, 20))
def test_a_second_ctrl_c_anywhere_in_the_keeping_of_draws_does_no_harm(
    tmp_path, whole, monkeypatch, number
):
    """Between a step and the commit of its draw the state is ahead: it must not be stored."""
    place = (_sink, "constrain") if number % 2 else (_sink.Sink, "commit")
    mend = failing_at(monkeypatch, *place, number, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        draw(store=tmp_path)
    mend()
    assert gb.load(tmp_path).status.outcome is Outcome.INTERRUPTED
    same(go_on(tmp_path), whole)


@pytest.mark.parametrize("number", [15, 40, 70])
def test_a_disk_that_fills_up_ends_the_run_and_frees_it(tmp_path, whole, monkeypatch, number):
    full = OSError(errno.ENOSPC, "No space left on device")
    real, count = _store_files.Calls.write, iter(range(10**6))

    def write(*arguments):
        if next(count) >= number:
            raise full
        return real(*arguments)

    monkeypatch.setattr(_store_files.calls, "write", write)
    with pytest.raises(DiskFullError, match=r"the disk is full.*free some space"):
        draw(store=tmp_path)
    monkeypatch.setattr(_store_files.calls, "write", real)
    found = gb.load(tmp_path)
    kept = found.unconstrained.shape[1]
    np.testing.assert_array_equal(found.unconstrained, whole.unconstrained[:, :kept])
    same(go_on(tmp_path), whole)


def test_a_run_killed_before_its_first_commit_is_begun_by_resume(tmp_path, whole, monkeypatch):
    def killed(*arguments):
        raise SystemExit("killed")

    monkeypatch.setattr(_stored, "begin_session", killed)
    with pytest.raises(SystemExit, match="killed"):
        draw(store=tmp_path)
    monkeypatch.undo()
    assert not _stored.RunStore.open(tmp_path).state()
    same(go_on(tmp_path), whole)


def test_a_run_whose_prior_draws_all_fail_is_resumed_from_where_it_stands(tmp_path):
    def fn(theta, z):
        return jnp.where(jnp.abs(theta["mean"] - 9.0) > 1.0, jnp.nan, theta["mean"]) + z

    problem = gb.Problem(
        gb.Prior(mean=dist.Normal(0.0, 1.0)),
        gb.Simulator(fn, noise=dist.Normal(0, 1)),
        OBSERVATIONS,
    )
    target = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)
    options = {"start": {"mean": 9.0}, "num_chains": 1, "num_warmup": 0, "num_samples": 20}
    whole = draw(target, **options)
    draw(target, store=tmp_path, max_simulations=50, **options)
    assert gb.load(tmp_path).provenance["start"] == {"mean": 9.0}
    same(go_on(tmp_path, target), whole)


def test_what_the_simulator_calls_and_its_noise_are_compared(tmp_path):
    draw(store=tmp_path, max_simulations=100)
    simulator = gb.Simulator(small_target().problem.simulator.fn, noise=dist.Normal(0.0, 1.5))
    problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, OBSERVATIONS)
    other = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)
    with pytest.raises(ValueError, match=r"\(simulator: .* then, .* now\).*allow_changes=True"):
        go_on(tmp_path, other)
    assert go_on(tmp_path, other, allow_changes=True).status.outcome is Outcome.COMPLETE


def test_another_precision_is_refused_before_anything_is_compared(tmp_path):
    draw(store=tmp_path, max_simulations=100)
    with (
        jax.enable_x64(True),
        pytest.raises(ValueError, match=r"begun in 32-bit .*set to 64 bits.*enable_x64\", False"),
    ):
        go_on(tmp_path)


def test_state_and_draws_that_disagree_are_refused(tmp_path):
    draw(store=tmp_path, max_simulations=600)
    with _stored.RunStore.open(tmp_path, write=True) as store:
        store.append({}, store.state(), store.progress | {"step": store.progress["step"] + 5})
    with pytest.raises(CorruptedError, match=r"holds \d+ draws, and its state stands after \d+"):
        go_on(tmp_path)


def test_the_manifest_says_what_was_run_when_and_what_it_cost(tmp_path):
    draw(store=tmp_path, max_simulations=300, notes={"for": "the paper"})
    go_on(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())["manifest"]
    first, second = manifest["sessions"]
    assert (first["outcome"], second["outcome"]) == ("MAX_SIMULATIONS", "COMPLETE")
    assert first["began"] <= first["ended"] <= second["began"] <= second["ended"]
    assert {"command", "host", "pid", "genbayes"} <= first.keys()
    assert manifest["cost"]["steps"] == 2 * 70
    about = manifest["provenance"]
    assert {"prior", "simulator_hash", "score", "weight"} <= about["target"].keys()
    assert {"sampler", "seed", "start", "versions", "machine", "command", "started"} <= about.keys()
    assert about["notes"] == {"for": "the paper"}
    lines = [line.split(" ", 1)[1] for line in (tmp_path / "log.txt").read_text().splitlines()]
    assert lines[0].startswith("begun: PseudoMarginal(proposal_scale=0.8, groups=4")
    assert lines[1].startswith("draws from step 0 on, process")
    assert "limit of simulations" in lines[2]
    assert lines[-1].startswith("The run is complete.")


def test_a_run_without_a_description_is_refused(tmp_path):
    with _stored.RunStore.create(tmp_path, {"seed": 0}):
        pass
    with pytest.raises(CorruptedError, match=r"does not describe a run .*KeyError.*Expected what"):
        gb.load(tmp_path)


@pytest.mark.parametrize("text", [b"", b"draws", b"\x89HDF\r\n\x1a\n" + bytes(64)])
def test_a_file_that_is_no_run_is_refused(tmp_path, text):
    (tmp_path / "run.nc").write_bytes(text)
    with pytest.raises(ValueError, match=r"run\.nc cannot be read as a run .*Expected the folder"):
        gb.load(tmp_path / "run.nc")


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_stored.RunStore.append.__globals__["files"].calls, "fsync", lambda d: None)
        from genbayes.runs import _store_layout

        patch.setattr(_store_layout, "PENDING_BYTES", 512)  # several chunks
        draw(store=path)
    return path


@given(st.data())
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_run_is_the_truth_or_an_error_of_ours(stored, whole, tmp_path, data):
    path = tmp_path / "copy"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(stored, path)
    files = sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.is_file())
    file = path / data.draw(st.sampled_from(files))
    content = file.read_bytes()
    at = data.draw(st.integers(0, max(0, len(content) - 1)))
    kind = data.draw(st.sampled_from(["flip", "cut", "remove"]))
    if kind == "remove":
        file.unlink()
    elif kind == "cut" or not content:
        file.write_bytes(content[:at])
    else:
        file.write_bytes(content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :])
    try:
        run = gb.load(path)
        same(run, whole)
    except StoreError as error:
        assert "xpected" in str(error) or "could not" in str(error)  # noqa: PT017


def test_what_is_not_damaged_is_read_and_the_rest_says_so(stored, whole, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(stored, path)
    (path / "arrays.zarr/draws/mean/c.0.1").write_bytes(b"")
    run = gb.load(path)
    np.testing.assert_array_equal(run.unconstrained, whole.unconstrained)
    with pytest.raises(CorruptedError, match=r"c\.0\.1 has 0 bytes"):
        run.summary()
    intact = gb.load(path, salvage=True)
    kept = intact.unconstrained.shape[1]
    assert 0 < kept < 60
    np.testing.assert_array_equal(intact.draws["mean"], whole.draws["mean"][:, :kept])


def test_a_large_run_stays_on_the_disk(stored, whole, monkeypatch):
    monkeypatch.setattr(_stored, "EAGER_BYTES", 10)
    run = gb.load(stored)
    assert isinstance(run.unconstrained, StoredArray)
    same(run, whole)
    assert str(run.summary()) == str(gb.load(stored).summary())
    np.testing.assert_array_equal(run.draws["mean"] * 2 - 1, whole.draws["mean"] * 2 - 1)
    np.testing.assert_array_equal(run.to_xarray()["posterior"]["mean"], whole.draws["mean"])


VALUES = np.arange(24.0).reshape(2, 6, 2)
INDICES = [
    0, -1, slice(None), (slice(None), slice(1, 4)), (..., 0), (slice(None), slice(None, None, 2)),
    (slice(None), slice(None, None, -1)), (1, -2), (0, 0, 0), [1, 0], (slice(None), [0, 2]),
    VALUES > 3, (slice(None), slice(-3, None)), (slice(None), np.array([5, 1])),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_parts_of_a_stored_array_are_those_of_the_array(index):
    found = StoredArray(zarr.array(VALUES))[index]
    np.testing.assert_array_equal(found, VALUES[index])
    assert np.shape(found) == VALUES[index].shape


def test_a_stored_array_computes_like_the_array():
    x = StoredArray(zarr.array(VALUES))
    assert (x.shape, x.ndim, x.size, len(x), x.dtype) == ((2, 6, 2), 3, 24, 2, np.dtype(float))
    assert bool((x == VALUES).all())
    assert bool((x == VALUES).all())
    assert x.mean() == np.mean(x) == jnp.mean(jnp.asarray(x)) == VALUES.mean()
    np.testing.assert_array_equal(np.exp(x) + 1, np.exp(VALUES) + 1)
    np.testing.assert_array_equal(np.concatenate([x, x]), np.concatenate([VALUES, VALUES]))
    np.testing.assert_array_equal([row.sum() for row in x], VALUES.sum((1, 2)))
    assert repr(x) == "<StoredArray float64[2, 6, 2]>"
    assert np.asarray(x, np.float32).dtype == np.float32
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = x.nothing
