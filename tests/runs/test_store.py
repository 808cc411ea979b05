"""The store as a caller sees it: what goes in comes out, and what does not fit is refused."""

import itertools
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from genbayes.runs import _store_chunks, _store_files, _store_layout
from genbayes.runs._store import RunStore
from genbayes.runs._store_commit import Commit, write_commit
from genbayes.runs._store_errors import (
    RunExistsError,
    RunNotFoundError,
    StoreError,
    StoreValueError,
)
from genbayes.runs._store_layout import ArraySpec

SOURCE = Path(_store_layout.__file__).parents[1]
DTYPES = st.sampled_from(_store_layout._DTYPES)


def same(left, right):
    """Bit for bit, so that NaNs and signed zeros count."""
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
    )


@st.composite
def histories(draw):
    """What a run might append: arrays by name, each cut into the same pieces."""
    chains = draw(st.integers(1, 3))
    cuts = np.cumsum(draw(st.lists(st.integers(0, 40), min_size=1, max_size=6)))
    shapes = npst.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)
    names = st.sampled_from(["draws/A", "draws/b c", "unconstrained", "info/ακ", "info/x[0]"])
    arrays = {}
    for name in draw(st.sets(names, min_size=1, max_size=3)):
        dtype = np.dtype(draw(DTYPES))
        size = (chains, int(cuts[-1]), *draw(shapes))
        seed = np.random.default_rng(draw(st.integers(0, 99)))
        raw = seed.bytes(int(np.prod(size)) * dtype.itemsize)
        flat = np.frombuffer(raw, np.uint8).copy()
        arrays[name] = (flat % 2 if dtype.kind == "b" else flat).view(dtype).reshape(size)
    return arrays, [0, *map(int, cuts)], draw(st.sampled_from([1, 256, 4096, 1 << 20]))


@pytest.fixture(scope="module", autouse=True)
def no_waiting():
    """Flushing to the disk changes nothing that these tests can see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_store_files.calls, "fsync", lambda descriptor: None)
        yield


@given(histories())
@settings(deadline=None, max_examples=40)
def test_any_history_comes_back_bit_for_bit(history):
    arrays, cuts, pending_bytes = history
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_store_layout, "PENDING_BYTES", pending_bytes)
        path = Path(folder) / "run"
        RunStore.create(path, {}).close()
        for start, stop in itertools.pairwise(cuts):
            with RunStore.open(path, write=True) as store:
                blocks = {name: array[:, start:stop] for name, array in arrays.items()}
                store.append(blocks, {"at": np.array(stop)}, {"step": stop})
        store = RunStore.open(path)
        assert store.num_draws == store.progress["step"] == store.state()["at"] == cuts[-1]
        published = zarr.open_group(path / _store_chunks.ARRAYS, mode="r")
        for name, array in arrays.items():
            assert same(store.read(name), array)
            lazy = store.arrays()[name]
            assert (lazy.shape, lazy.dtype) == (array.shape, array.dtype)
            assert same(np.asarray(lazy), array)
            assert same(lazy[:, 1:5], array[:, 1:5])
            assert same(published[name][...], array)


@given(st.dictionaries(st.text(max_size=5), npst.arrays(DTYPES, npst.array_shapes(min_dims=0))))
@settings(deadline=None, max_examples=30)
def test_states_of_any_name_and_shape_come_back(state):
    with tempfile.TemporaryDirectory() as folder:
        with RunStore.create(folder, {}) as store:
            store.append({}, state, {})
        found = RunStore.open(folder).state()
        assert found.keys() == state.keys()
        assert all(same(found[name], value) for name, value in state.items())


def test_commits_without_draws_leave_the_layout_open(tmp_path):
    with RunStore.create(tmp_path, {}) as store:
        store.append({}, {"u": np.zeros(2)}, {"phase": "warm-up"})
        assert (store.num_draws, store.arrays(), store.progress) == (0, {}, {"phase": "warm-up"})
        store.append({"draws/A": np.zeros((2, 0, 3), "f4")}, {}, {})
        assert store.arrays()["draws/A"].shape == (2, 0, 3)
        store.append({"draws/A": np.ones((2, 4, 3), "f4")}, {"u": np.ones(1)}, {})
        store.append({}, {}, {"phase": "done"})
        assert store.num_draws == 4
        assert store.state() == {}


def test_big_endian_and_strided_arrays_are_stored_by_value(tmp_path):
    values = np.arange(24, dtype=">f8").reshape(4, 6).T
    with RunStore.create(tmp_path, {}) as store:
        store.append({"x": values}, {"x": values}, {})
    run = RunStore.open(tmp_path)
    assert same(run.read("x"), values.astype("<f8"))
    assert same(run.state()["x"], values.astype("<f8"))


def test_later_changes_to_the_callers_arrays_do_not_reach_the_run(tmp_path):
    block, state, progress = np.zeros((1, 3)), np.zeros(2), {"list": [1]}
    with RunStore.create(tmp_path, {}) as store:
        store.append({"x": block}, {"s": state}, progress)
        block[:], state[:] = 7, 7
        progress["list"].append(2)
        store.progress["list"].append(3)
        store.append({"x": np.ones((1, 1))}, store.state(), store.progress)
    run = RunStore.open(tmp_path)
    assert run.read("x").tolist() == [[0, 0, 0, 1]]
    assert run.state()["s"].tolist() == [0, 0]
    assert run.progress == {"list": [1]}


def test_manifest_is_updated_as_a_whole_and_read_by_people(tmp_path):
    with RunStore.create(tmp_path, {"seed": 1, "prior": ("a", "b"), "cost": 0.1}) as store:
        store.update_manifest(seed=2, ended=None)
        expected = {"seed": 2, "prior": ["a", "b"], "cost": 0.1, "ended": None}
        assert store.manifest == expected
    assert RunStore.open(tmp_path).manifest == expected
    content = json.loads((tmp_path / "manifest.json").read_text())
    assert (content["schema_version"], content["manifest"]) == (1, expected)


def test_log_is_one_line_a_message(tmp_path):
    with RunStore.create(tmp_path, {}) as store:
        store.log("first\nof two")
        store.log("second")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["first of two", "second"]


def test_a_reader_keeps_its_moment_until_it_looks_again(tmp_path):
    with RunStore.create(tmp_path, {}) as store:
        store.append({"x": np.zeros((1, 2))}, {}, {"step": 2})
        reader = RunStore.open(tmp_path)
        lazy = reader.arrays()["x"]
        store.append({"x": np.ones((1, 2))}, {}, {"step": 4})
        assert (reader.num_draws, lazy.shape, reader.read("x").shape) == (2, (1, 2), (1, 2))
        reader.refresh()
        assert (reader.num_draws, reader.progress) == (4, {"step": 4})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((1, 2, 3), "f8")}, r"dtype float64 .* expected float32 and \(1, 'k', 3\)"),
        ({"x": np.zeros((1, 2, 4), "f4")}, r"shape \(1, 2, 4\), expected float32"),
        ({"x": np.zeros((2, 2, 3), "f4")}, r"shape \(2, 2, 3\), expected float32"),
        ({"y": np.zeros((1, 2, 3), "f4")}, r"got arrays \['y'\], expected \['x'\]"),
        ({"x": np.zeros(3, "f4")}, r"shape \(3,\), expected \(chain, draw, ...\)"),
        ({"x": np.array([[None]])}, "dtype object, expected one of bool"),
        ({"x": np.array([["a"]])}, "dtype <U1, expected one of bool"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_and_nothing_is_lost(tmp_path, arrays, message):
    with RunStore.create(tmp_path, {}) as store:
        store.append({"x": np.zeros((1, 2, 3), "f4")}, {}, {})
        with pytest.raises(StoreValueError, match=message):
            store.append(arrays, {}, {})
        store.append({"x": np.ones((1, 1, 3), "f4")}, {}, {})
        assert store.num_draws == 3


def test_arrays_of_one_append_agree(tmp_path):
    with (
        RunStore.create(tmp_path, {}) as store,
        pytest.raises(StoreValueError, match=r"must agree on \(chain, draw\)"),
    ):
        store.append({"x": np.zeros((1, 2)), "y": np.zeros((1, 3))}, {}, {})


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "/etc/x", "a/../../x", "a//b", "", ".", ".hidden", "a/zarr.json", "a\\b", "a\0b"),
        *("x/", "a\n", "é" * 101, 3),
    ],
)
def test_hostile_names_are_refused(tmp_path, name):
    with RunStore.create(tmp_path / "run", {}) as store:
        with pytest.raises(StoreValueError, match=r"cannot be stored\. Expected words such as"):
            store.append({name: np.zeros((1, 2))}, {}, {})
        assert store.num_draws == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_array_inside_another_is_refused(tmp_path):
    with (
        RunStore.create(tmp_path, {}) as store,
        pytest.raises(StoreValueError, match="'draws/A' lies inside another array, 'draws'"),
    ):
        store.append({"draws": np.zeros((1, 2)), "draws/A": np.zeros((1, 2))}, {}, {})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": float("nan")}, "cannot be written as JSON: .*not JSON compliant.*finite"),
        ({"x": np.float32(1)}, "cannot be written as JSON: .*float32.*convert arrays"),
        ({1: 2}, "must be a dictionary with text keys"),
        ([1], "must be a dictionary with text keys, got list"),
    ],
)
def test_what_json_cannot_hold_is_refused(tmp_path, value, message):
    with pytest.raises(StoreValueError, match=message):
        RunStore.create(tmp_path / "run", value)
    assert not (tmp_path / "run").exists()
    with (
        RunStore.create(tmp_path / "run", {}) as store,
        pytest.raises(StoreValueError, match=message),
    ):
        store.append({}, {}, value)


def test_names_that_do_not_exist_are_answered_with_those_that_do(tmp_path):
    with RunStore.create(tmp_path, {}) as store:
        store.append({"x": np.zeros((1, 2))}, {}, {})
    with pytest.raises(StoreValueError, match=r"no array 'y', expected one of \['x'\]"):
        RunStore.open(tmp_path).read("y")


def test_creating_over_something_is_refused(tmp_path):
    RunStore.create(tmp_path / "run", {}).close()
    with pytest.raises(RunExistsError, match=r"already holds a run. Resume it with .*resume"):
        RunStore.create(tmp_path / "run", {})
    with pytest.raises(RunExistsError, match=r"holds no run, but it holds run\. Expected a new"):
        RunStore.create(tmp_path, {})
    (tmp_path / "file").touch()
    with pytest.raises(RunExistsError, match="is a file"):
        RunStore.create(tmp_path / "file", {})


def test_a_run_without_its_manifest_is_not_overwritten(tmp_path):
    with RunStore.create(tmp_path, {}) as store:
        store.append({"x": np.zeros((1, 2))}, {}, {})
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(RunExistsError, match="already holds a run"):
        RunStore.create(tmp_path, {})


def test_opening_what_is_no_run_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        for write in (False, True):
            with pytest.raises(RunNotFoundError, match=r"holds no run\. Expected a folder with"):
                RunStore.open(path, write=write)


def test_a_run_being_created_is_not_there_yet(tmp_path):
    write_commit(tmp_path, Commit())
    with pytest.raises(RunNotFoundError, match="holds no run"):
        RunStore.open(tmp_path)


def test_readers_and_closed_writers_do_not_write(tmp_path):
    writer = RunStore.create(tmp_path, {})
    writer.close()
    writer.close()
    for store in (writer, RunStore.open(tmp_path)):
        for act in (
            lambda store: store.append({}, {}, {}),
            lambda store: store.update_manifest(a=1),
            lambda store: store.log("x"),
        ):
            with pytest.raises(StoreError, match="opened to be read, or has been closed"):
                act(store)


def test_lazy_arrays_refuse_to_be_written(tmp_path):
    with RunStore.create(tmp_path, {}) as store:
        store.append({"x": np.zeros((1, 2))}, {}, {})
    with pytest.raises(ValueError, match="read-only"):
        RunStore.open(tmp_path).arrays()["x"][:] = 1


def big_run(path, num_chunks):
    """A gigabyte of zeros: files with holes, so that making it costs nothing."""
    RunStore.create(path, {}).close()
    spec = ArraySpec("draws/A", "float32", 4, (64,), 1024)
    block = np.zeros((4, 1024, 64), "<f4")
    chunk = _store_chunks.encode_chunk(spec, block)
    _store_chunks.make_folders(path, (spec,))
    for index in range(num_chunks):
        with open(_store_chunks.chunk_path(path, spec, index), "wb") as file:
            file.seek(len(chunk) - 4)
            file.write(chunk[-4:])
    sums = np.full(num_chunks, _store_chunks.checksum_of(chunk), "<u4")
    commit = Commit(
        1024 * num_chunks, {"step": 1}, (spec,), {}, {spec.name: spec.empty()}, {spec.name: sums}
    )
    write_commit(path, commit)
    return num_chunks * len(chunk)


def test_a_gigabyte_opens_at_once_and_in_little_memory(tmp_path):
    assert big_run(tmp_path, 1024) > 2**30
    RunStore.open(tmp_path).arrays()  # imports what it needs
    tracemalloc.start()
    begin = time.process_time()
    run = RunStore.open(tmp_path)
    lazy = run.arrays()["draws/A"]
    seconds = time.process_time() - begin
    assert not lazy[:, 500_000:500_010].any()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lazy.shape == (4, 2**20, 64)
    assert seconds < 0.2
    assert peak < 16 * 2**20


def test_the_engine_needs_neither_jax_nor_zarr_to_write(tmp_path):
    # packages without their __init__, so that only what the engine itself imports is seen
    program = f"""
import sys, types
for name, path in (("genbayes", {str(SOURCE)!r}), ("genbayes.runs", {str(SOURCE / "runs")!r})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
import genbayes.runs._store as store
import numpy as np
with store.RunStore.create({str(tmp_path / "run")!r}, {{}}) as run:
    run.append({{"x": np.zeros((1, 2))}}, {{}}, {{}})
heavy = {{name.split(".")[0] for name in sys.modules}} & {{"jax", "numpyro", "equinox", "zarr"}}
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
