"""Runs that were damaged, forged or written by a later version: the truth, or a clear error."""

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genbayes.runs import _store_files, _store_layout
from genbayes.runs._store import RunStore
from genbayes.runs._store_chunks import ARRAYS
from genbayes.runs._store_errors import (
    CorruptedError,
    DiskError,
    NewerSchemaError,
    ReadOnlyError,
    StoreError,
    StoreValueError,
)

TOTAL, STEP = 30, 5
T = np.arange(TOTAL)
TRUTH = {"draws/A": T[None].astype("f4"), "info/b": np.stack([T, T * T], -1)[None]}
MANIFEST = {"seed": 0, "prior": {"A": "Uniform(0, 4)"}}


@pytest.fixture(scope="module", autouse=True)
def quick_and_small():
    with pytest.MonkeyPatch.context() as patch:
        # 8 draws of one array and 4 of the other make a chunk
        patch.setattr(_store_layout, "PENDING_BYTES", 128)
        patch.setattr(_store_files.calls, "fsync", lambda descriptor: None)
        yield


def make(path):
    with RunStore.create(path, MANIFEST) as store:
        for at in range(0, TOTAL, STEP):
            blocks = {name: array[:, at : at + STEP] for name, array in TRUTH.items()}
            store.append(blocks, {"at": np.array(at + STEP)}, {"step": at + STEP})
        store.log("done")
    return path


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    return make(tmp_path_factory.mktemp("intact") / "run")


FILES = [
    *("manifest.json", "commit", "commit.previous", "log.txt", "lock"),
    *(f"{ARRAYS}/draws/A/c.0.{i}" for i in range(4)),
    *(f"{ARRAYS}/info/b/c.0.{i}.0" for i in range(8)),
    *(f"{ARRAYS}/{part}zarr.json" for part in ("", "draws/", "draws/A/", "info/b/")),
]


@st.composite
def damages(draw):
    """Which file, what is done to it, and where; files of the run's copy and no others."""
    kind = draw(st.sampled_from(["flip", "cut", "remove", "zero", "lengthen", "swap", "odd"]))
    where = draw(st.one_of(st.integers(0, 300), st.floats(0, 1, exclude_max=True)))
    return draw(st.sampled_from(FILES)), kind, where, draw(st.sampled_from(FILES))


def damage(folder, name, kind, where, other):
    path = folder / name
    if path.is_symlink() or not path.is_file():
        return  # gone, or made odd by an earlier damage: never write through a link or a pipe
    data = path.read_bytes()
    at = int(where * len(data)) if isinstance(where, float) else min(where, max(0, len(data) - 1))
    if kind == "flip" and data:
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
    elif kind == "cut" and data:
        path.write_bytes(data[:at])
    elif kind == "zero" and data:
        path.write_bytes(data[:at] + bytes(len(data) - at))
    elif kind == "lengthen" and data:
        path.write_bytes(data + data[at:])
    elif kind == "swap" and (folder / other).is_file() and name != "commit":
        # an older record in the place of the last is a valid older run: nothing can tell it
        path.write_bytes((folder / other).read_bytes())
    elif kind == "remove":
        path.unlink()
    elif kind == "odd":
        make_odd(path, at)


def make_odd(path, at):
    """A name that leads to something else than a plain file, never out of the run's own folder."""
    moved = path.rename(path.with_name(path.name + ".moved"))
    if at % 4 == 0:
        path.mkdir()
    elif at % 4 == 1:
        path.symlink_to(moved.name)
    elif at % 4 == 2:
        os.mkfifo(path)
    else:
        path.symlink_to(path.name)


def check_message(error, pattern):
    with pytest.raises(StoreError, match=pattern):
        raise error


def truth_or_error(act, truth):
    """The outcome is the truth, or an error of ours that says what was expected."""
    try:
        outcome = act()
    except StoreError as error:
        check_message(error, "[Ee]xpected")
        return False
    np.testing.assert_array_equal(outcome, truth, strict=isinstance(truth, np.ndarray))
    return True


@given(st.lists(damages(), min_size=1, max_size=3), st.booleans())
@settings(deadline=None, max_examples=200)
def test_damage_is_noticed_or_harmless(intact, harm, write):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        shutil.copytree(intact, path)
        for one in harm:
            damage(path, *one)
        try:
            run = RunStore.open(path, write=write)
        except StoreError as error:
            check_message(error, "[Ee]xpected|could not")
            return
        with run:
            assert (run.manifest, run.num_draws, run.progress) == (MANIFEST, TOTAL, {"step": TOTAL})
            assert run.state() == {"at": TOTAL}
            intact_reads = []
            for name, array in TRUTH.items():
                intact_reads.append(truth_or_error(lambda name=name: run.read(name), array))
                lazy = run.arrays()[name]
                assert truth_or_error(lambda lazy=lazy: lazy[...], array) == intact_reads[-1]
                truth_or_error(lambda lazy=lazy: lazy[:, 3:9], array[:, 3:9])
            assert truth_or_error(lambda: [run.verify() is None], [True]) == all(intact_reads)


@given(st.lists(damages(), min_size=1, max_size=3))
@settings(deadline=None, max_examples=200)
def test_salvage_finds_a_prefix_of_the_truth(intact, harm):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        shutil.copytree(intact, path)
        for one in harm:
            damage(path, *one)
        try:
            run = RunStore.open(path, salvage=True)
        except StoreError as error:
            check_message(error, "restore it from a copy")
            assert {name for name, *_ in harm} >= {"commit", "commit.previous"}
            return
        assert run.manifest in (MANIFEST, {})
        for name, array in TRUTH.items():
            np.testing.assert_array_equal(run.read(name), array[:, : run.num_draws], strict=True)
            np.testing.assert_array_equal(run.arrays()[name][...], array[:, : run.num_draws])
        if run.num_draws < TOTAL or run.manifest == {}:
            assert run.damage


def test_salvage_keeps_all_before_the_first_damaged_chunk(tmp_path):
    path = make(tmp_path / "run")
    (path / ARRAYS / "info/b/c.0.3.0").write_bytes(b"")
    run = RunStore.open(path)
    with pytest.raises(
        CorruptedError, match=r"c\.0\.3\.0 has 0 bytes, expected 68.*before number 12"
    ):
        run.read("info/b")
    with pytest.raises(CorruptedError, match=r"c\.0\.3\.0 has 0 bytes"):
        run.arrays()["info/b"][...]
    with pytest.raises(CorruptedError, match=r"c\.0\.3\.0 has 0 bytes"):
        run.verify()
    assert run.arrays()["info/b"][:, :12].tolist() == TRUTH["info/b"][:, :12].tolist()
    assert run.read("draws/A").tolist() == TRUTH["draws/A"].tolist()
    salvaged = RunStore.open(path, salvage=True)
    assert salvaged.num_draws == 12
    assert "c.0.3.0 has 0 bytes" in salvaged.damage[0]
    with pytest.raises(CorruptedError, match=r"lost draws in its midst.*begin a new run to go on"):
        RunStore.open(path, write=True, salvage=True)
    RunStore.open(path, write=True).close()  # the lock was let go


def test_a_lost_record_is_replaced_by_the_one_before_and_the_run_goes_on(tmp_path):
    path = make(tmp_path / "run")
    (path / "commit").write_bytes(b"")
    with pytest.raises(CorruptedError, match=r"commit is not a commit record.*salvage=True"):
        RunStore.open(path)
    with RunStore.open(path, write=True, salvage=True) as store:
        assert store.num_draws == store.state()["at"] == TOTAL - STEP
        assert "commit is not a commit record" in store.damage[0]
        blocks = {name: array[:, -STEP:] for name, array in TRUTH.items()}
        store.append(blocks, {"at": np.array(TOTAL)}, {"step": TOTAL})
    run = RunStore.open(path)
    run.verify()
    assert run.read("info/b").tolist() == TRUTH["info/b"].tolist()


def test_without_any_record_the_error_names_both(tmp_path):
    path = make(tmp_path / "run")
    (path / "commit").unlink()
    (path / "commit.previous").write_bytes(b"x")
    with pytest.raises(CorruptedError, match=r"commit is missing.*previous is not a commit record"):
        RunStore.open(path, salvage=True)


def test_what_a_newer_version_wrote_is_not_touched(tmp_path):
    path = make(tmp_path / "run")
    content = json.loads((path / "manifest.json").read_text())
    content.update(schema_version=2, checksum="of another kind")
    (path / "manifest.json").write_text(json.dumps(content))
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for options in ({}, {"write": True}, {"salvage": True}):
        with pytest.raises(
            NewerSchemaError, match=r"version 2, expected at most 1.*Upgrade genbayes"
        ):
            RunStore.open(path, **options)
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_newer_commit_record_is_refused_too(tmp_path):
    path = make(tmp_path / "run")
    data = (path / "commit").read_bytes()
    (path / "commit").write_bytes(data.replace(b"genbayes-commit 1", b"genbayes-commit 2", 1))
    with pytest.raises(NewerSchemaError, match="commit has schema version 2"):
        RunStore.open(path)


@pytest.mark.parametrize("text", ["[]", "{", '{"format": "other"}', "[" * 100_000, "\xff"])
def test_manifests_of_other_things_are_refused(tmp_path, text):
    path = make(tmp_path / "run")
    (path / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(CorruptedError, match=r"manifest\.json is not .*salvage=True"):
        RunStore.open(path)


def forge(path, change):
    """Rewrite the record as a stranger might, with a checksum that holds."""
    preamble, _, body = (path / "commit").read_bytes().partition(b"\n")
    line, _, payload = body.partition(b"\n")
    header = json.loads(line)
    change(header)
    body = json.dumps(header).encode() + b"\n" + payload
    preamble = b"genbayes-commit 1 %08x %d\n" % (google_crc32c.value(body), len(body))
    (path / "commit").write_bytes(preamble + body)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["layout"][0].__setitem__(0, "../../../etc"),
        lambda header: header["layout"][0].__setitem__(1, "object"),
        lambda header: header["layout"][0].__setitem__(4, 0),
        lambda header: header["layout"][0].__setitem__(4, -8),
        lambda header: header["layout"][0].__setitem__(2, 10**30),
        lambda header: header.update(num_draws=10**18),
        lambda header: header.update(num_draws=-1),
        lambda header: header.update(num_draws="many"),
        lambda header: header.update(layout=[], parts=[]),
        lambda header: header["parts"].append(["state", "x", "float64", [10**18]]),
        lambda header: header["parts"].append(["state", "x", "float64", [-1]]),
        lambda header: header["parts"].append(["code", "x", "float64", [0]]),
        lambda header: header.pop("progress"),
    ],
)
def test_forged_records_are_refused(tmp_path, change):
    path = make(tmp_path / "run")
    forge(path, change)
    with pytest.raises(CorruptedError, match="commit cannot be understood"):
        RunStore.open(path)


def test_links_do_not_lead_a_writer_astray(tmp_path):
    path = make(tmp_path / "run")
    victim = tmp_path / "victim"
    victim.mkdir()
    shutil.rmtree(path / ARRAYS / "info")
    (path / ARRAYS / "info").symlink_to(victim)
    (victim / "b").mkdir()
    with pytest.raises(
        StoreValueError, match=r"are links, or two are the same\. Expected one folder"
    ):
        RunStore.open(path, write=True)
    other = make(tmp_path / "other")
    (other / "log.txt").unlink()
    (other / "log.txt").symlink_to(victim / "file")
    with (
        RunStore.open(other, write=True) as store,
        pytest.raises(DiskError, match=r"could not write .*log\.txt: Too many levels"),
    ):
        store.log("hello")
    assert [file.name for file in victim.rglob("*")] == ["b"]


def test_a_read_that_fails_is_an_error_of_ours(tmp_path, monkeypatch):
    path = make(tmp_path / "run")

    def fail(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(_store_files.calls, "open", fail)
    with pytest.raises(DiskError, match=r"could not read .*manifest\.json: Input/output error"):
        RunStore.open(path)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS], ids=errno.errorcode.get)
def test_a_read_only_folder_can_be_read(tmp_path, monkeypatch, error):
    path = make(tmp_path / "run")
    real = _store_files.Calls.open

    def forbid(path, flags, *mode):
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(error, os.strerror(error))
        return real(path, flags, *mode)

    monkeypatch.setattr(_store_files.calls, "open", forbid)
    with pytest.raises(ReadOnlyError, match=r"or open it without write=True"):
        RunStore.open(path, write=True)
    with pytest.raises(ReadOnlyError, match=r"could not write .*lock"):
        RunStore.create(tmp_path / "new", {})
    assert RunStore.open(path).read("info/b").tolist() == TRUTH["info/b"].tolist()


def test_a_disk_without_hard_links_will_do(tmp_path, monkeypatch):
    def link(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(_store_files.calls, "link", link)
    run = RunStore.open(make(tmp_path / "run"))
    run.verify()
    assert not (tmp_path / "run" / "commit.previous").exists()
