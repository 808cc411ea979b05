"""Disks that fail: every system call in turn, and power cuts between any two of them."""

import errno
import itertools
import os
import random
import shutil

import numpy as np
import pytest

from genbayes.runs import _store_files, _store_layout
from genbayes.runs._store import RunStore
from genbayes.runs._store_errors import (
    DiskError,
    DiskFullError,
    ReadOnlyError,
    RunNotFoundError,
    StoreError,
)

STEP, TOTAL = 5, 20
CHANGES = ("open", "write", "fsync", "close", "truncate", "replace", "link", "unlink", "mkdir")


def blocks(start, stop):
    t = np.arange(start, stop)
    return {"draws/A": t[None].astype("f4"), "info/b": np.stack([t, t * t], -1)[None]}


def write_on(store):
    """Do what is left of the run."""
    for at in range(store.num_draws, TOTAL, STEP):
        store.append(blocks(at, at + STEP), {"at": np.array(at + STEP)}, {"step": at + STEP})


def whole_story(path):
    with RunStore.create(path, {"seed": 0}) as store:
        write_on(store)
        store.update_manifest(ended="yes")


def finish(path):
    """Go on with whatever a crash left, as a user would."""
    try:
        store = RunStore.open(path, write=True)
    except StoreError:
        store = RunStore.create(path, {"seed": 0})
    with store:
        write_on(store)
        store.update_manifest(ended="yes")


def contents(path):
    files = sorted(file for file in path.rglob("*") if file.is_file())
    skipped = {"log.txt", "lock", "commit.previous"}
    return {
        str(file.relative_to(path)): file.read_bytes() for file in files if file.name not in skipped
    }


def check_consistent(path, at_least=0):
    """What a reader finds is one commit, no older than the last that was confirmed."""
    try:
        run = RunStore.open(path)
    except StoreError:
        assert at_least == 0
        return
    assert at_least <= run.num_draws <= TOTAL
    if run.num_draws:
        assert run.state()["at"] == run.progress["step"] == run.num_draws
        for name, block in blocks(0, run.num_draws).items():
            assert run.read(name).tobytes() == block.tobytes()


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    """Many chunks, and no waiting for the disk, whose failures are modelled here anyhow."""
    # 8 draws of one array and 4 of the other make a chunk, so that commits fill both and neither
    monkeypatch.setattr(_store_layout, "PENDING_BYTES", 128)
    monkeypatch.setattr(_store_files.Calls, "fsync", staticmethod(lambda descriptor: None))
    monkeypatch.setattr(_store_files.calls, "fsync", _store_files.Calls.fsync)


@pytest.fixture
def expected(tmp_path):
    whole_story(tmp_path / "expected")
    return contents(tmp_path / "expected")


class Faulty:
    """The system's calls, of which one fails, or all from that one on."""

    def __init__(self, monkeypatch):
        self.count, self.failing, self.error = 0, range(0), errno.EIO
        for name in CHANGES:
            real = getattr(_store_files.Calls, name)
            monkeypatch.setattr(_store_files.calls, name, self.wrap(name, real))

    def wrap(self, name, real):
        def call(*arguments):
            self.count += 1
            if self.count - 1 not in self.failing:
                return real(*arguments)
            if name == "close":  # the system lets go of the file all the same
                real(*arguments)
            if name == "write":  # a disk fills in the middle of a file
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            raise OSError(self.error, os.strerror(self.error))

        return call

    def fail(self, at, error, lasting=False):
        self.count, self.error = 0, error
        self.failing = range(at, 10**9 if lasting else at + 1)

    def mend(self):
        self.failing = range(0)


@pytest.fixture
def faulty(monkeypatch):
    return Faulty(monkeypatch)


def num_calls(faulty, path):
    faulty.fail(10**9, errno.EIO)
    whole_story(path)
    return faulty.count


ERRORS = {
    errno.ENOSPC: (DiskFullError, "the disk is full.*committed before is safe.*free some space"),
    errno.EIO: (DiskError, "Input/output error.*check the disk"),
    errno.EROFS: (ReadOnlyError, "Read-only file system.*Expected a folder this process may write"),
}


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (errno.ENOSPC, True),
        (errno.EIO, False),
        pytest.param(errno.ENOSPC, False, marks=pytest.mark.slow),
        pytest.param(errno.EIO, True, marks=pytest.mark.slow),
        pytest.param(errno.EROFS, True, marks=pytest.mark.slow),
    ],
)
def test_whichever_call_fails_the_run_can_be_finished(tmp_path, faulty, expected, error, lasting):
    kind, message = ERRORS[error]
    raised = 0
    for at in range(num_calls(faulty, tmp_path / "counted")):
        path = tmp_path / str(at)
        faulty.fail(at, error, lasting)
        try:
            whole_story(path)
        except StoreError as problem:
            raised += 1
            with pytest.raises((kind, ReadOnlyError), match=message):
                raise problem
        faulty.mend()
        check_consistent(path)
        finish(path)
        assert contents(path) == expected
        shutil.rmtree(path)
    assert raised > 100


def test_the_same_writer_goes_on_after_space_is_made(tmp_path, faulty, expected):
    for at in itertools.count():
        path = tmp_path / str(at)
        store = RunStore.create(path, {"seed": 0})
        store.append(blocks(0, STEP), {"at": np.array(STEP)}, {"step": STEP})
        faulty.fail(at, errno.ENOSPC, lasting=True)
        begun = faulty.count
        try:
            write_on(store)
        except StoreError:
            pass
        else:
            break
        finally:
            faulty.mend()
        assert faulty.count > begun
        check_consistent(path, at_least=store.num_draws)
        try:
            write_on(store)
        except StoreError as problem:
            with pytest.raises(StoreError, match=r"was cut short.*open the run again"):
                raise problem
            store.close()
            store = RunStore.open(path, write=True)
            write_on(store)
        store.update_manifest(ended="yes")
        store.close()
        assert contents(path) == expected
        shutil.rmtree(path)
    assert at > 40


def test_doubtful_commit_is_not_written_over(tmp_path, faulty):
    """The record is renamed, then flushing the folder fails: the disk is ahead of the writer."""
    store = RunStore.create(tmp_path, {})
    store.append(blocks(0, 6), {}, {})
    real = _store_files.calls.replace

    def replace(source, target):
        real(source, target)
        if str(target).endswith("commit"):
            faulty.fail(0, errno.EIO)

    _store_files.calls.replace = replace
    with pytest.raises(DiskError, match="Input/output error"):
        store.append(blocks(6, 12), {}, {})
    faulty.mend()
    _store_files.calls.replace = real
    assert store.num_draws == 6
    with pytest.raises(StoreError, match=r"was cut short.*open the run again"):
        store.append(blocks(0, 6), {}, {})
    store.close()
    run = RunStore.open(tmp_path)
    assert run.num_draws == 12
    run.verify()
    assert run.read("draws/A").tobytes() == blocks(0, 12)["draws/A"].tobytes()


def test_interrupted_commit_is_not_written_over(tmp_path, monkeypatch):
    store = RunStore.create(tmp_path, {})
    store.append(blocks(0, 6), {}, {})
    real = _store_files.calls.replace

    def replace(source, target):
        real(source, target)
        if str(target).endswith("commit"):
            raise KeyboardInterrupt

    monkeypatch.setattr(_store_files.calls, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        store.append(blocks(6, 12), {}, {})
    store.close()
    run = RunStore.open(tmp_path)
    run.verify()
    assert run.num_draws == 12


class Disk:
    """What would be found after a power cut: only what was flushed is sure to be there.

    A file's content is sure once the file was flushed, a folder's names once the folder was; of
    the rest each part may or may not have arrived. Calls also go through to the real disk.
    """

    def __init__(self, root, monkeypatch):
        self.root, self.names, self.sure_names = root, {}, {}
        self.now, self.sure, self.open_files, self.number = {}, {}, {}, itertools.count()
        self.on_change = lambda: None
        for name in CHANGES:
            if hasattr(self, name):
                monkeypatch.setattr(_store_files.calls, name, self.wrap(name))

    def wrap(self, name):
        real, model = getattr(_store_files.Calls, name), getattr(self, name)

        def call(*arguments):
            self.on_change()
            result = real(*arguments)
            model(result, *arguments)
            return result

        return call

    def open(self, descriptor, path, flags, *mode):
        del mode
        if flags & os.O_DIRECTORY:
            self.open_files[descriptor] = ("folder", str(path))
            return
        if flags & os.O_CREAT and str(path) not in self.names:
            self.names[str(path)] = inode = next(self.number)
            self.now[inode] = b""
        if str(path) in self.names:
            inode = self.names[str(path)]
            if flags & os.O_TRUNC:
                self.now[inode] = b""
            self.open_files[descriptor] = ("file", inode)

    def write(self, written, descriptor, data):
        self.now[self.open_files[descriptor][1]] += bytes(data)[:written]

    def truncate(self, nothing, descriptor, size):
        inode = self.open_files[descriptor][1]
        self.now[inode] = self.now[inode][:size]

    def fsync(self, nothing, descriptor):
        kind, which = self.open_files[descriptor]
        if kind == "file":
            self.sure[which] = self.now[which]
            return
        inside = {p: i for p, i in self.names.items() if os.path.dirname(p) == which}
        kept = {p: i for p, i in self.sure_names.items() if os.path.dirname(p) != which}
        self.sure_names = {**kept, **inside}

    def replace(self, nothing, source, target):
        self.names[str(target)] = self.names.pop(str(source))

    def link(self, nothing, source, target):
        self.names[str(target)] = self.names[str(source)]

    def unlink(self, nothing, path):
        self.names.pop(str(path))

    def mkdir(self, nothing, path):
        self.names[str(path)] = None

    def after_power_cut(self, target, rng, names_arrive, contents_arrive):
        """Lay out in `target` one of the states that the disk might be found in."""
        found = dict(self.sure_names)
        for path in {**self.names, **self.sure_names}:
            if rng.random() < names_arrive:
                found.pop(path, None)
                if path in self.names:
                    found[path] = self.names[path]
        for path in sorted(found, key=len):
            place = target / os.path.relpath(path, self.root)
            if not place.parent.is_dir():
                continue  # the folder itself did not arrive
            if found[path] is None:
                place.mkdir()
            else:
                place.write_bytes(self.content(found[path], rng, contents_arrive))

    def content(self, inode, rng, contents_arrive):
        latest = self.now[inode]
        if self.sure.get(inode) == latest or rng.random() < contents_arrive:
            return latest
        # what was not flushed may be old, missing, or zeros up to any point
        kept = latest[: rng.randrange(len(latest) + 1)]
        return rng.choice([self.sure.get(inode, b""), kept, bytes(len(latest))])


def power_cuts(tmp_path, monkeypatch, expected, each):
    """Cut the power before every `each`-th call, and see what a user finds."""
    disk = Disk(tmp_path / "live", monkeypatch)
    (tmp_path / "live").mkdir()
    path, rng = tmp_path / "live" / "run", random.Random(0)
    pictures, confirmed, calls = [], [0], itertools.count()

    def picture():
        if next(calls) % each == 0:
            for names, data in ((0, 0), (1, 0), (0, 1), (0.5, 0.5)):
                target = tmp_path / f"cut-{len(pictures)}"
                target.mkdir()
                disk.after_power_cut(target, rng, names, data)
                pictures.append((target, confirmed[0]))

    disk.on_change = picture
    with RunStore.create(path, {"seed": 0}) as store:
        while store.num_draws < TOTAL:
            at = store.num_draws
            store.append(blocks(at, at + STEP), {"at": np.array(at + STEP)}, {"step": at + STEP})
            confirmed[0] = store.num_draws
        store.update_manifest(ended="yes")
    disk.on_change = lambda: None
    monkeypatch.setattr(_store_files, "calls", _store_files.Calls())
    monkeypatch.setattr(_store_files.calls, "fsync", lambda descriptor: None)
    for target, at_least in pictures:
        check_consistent(target / "run", at_least)
        finish(target / "run")
        without_previous = {
            k: v for k, v in contents(target / "run").items() if "previous" not in k
        }
        assert without_previous == {k: v for k, v in expected.items() if "previous" not in k}
        shutil.rmtree(target)
    return len(pictures)


def test_power_cuts_leave_the_last_commit_or_the_next(tmp_path, monkeypatch, expected):
    assert power_cuts(tmp_path, monkeypatch, expected, each=4) > 100


@pytest.mark.slow
def test_power_cuts_between_any_two_calls(tmp_path, monkeypatch, expected):
    assert power_cuts(tmp_path, monkeypatch, expected, each=1) > 400


def test_the_power_cut_model_notices_a_missing_flush(tmp_path, monkeypatch, expected):
    """Were the files not flushed, the test above would fail: it is able to."""
    monkeypatch.setattr(Disk, "fsync", lambda self, nothing, descriptor: None)
    with pytest.raises((AssertionError, StoreError), match=r"assert|already holds a run"):
        power_cuts(tmp_path, monkeypatch, expected, each=5)


def test_an_unfinished_creation_is_begun_again(tmp_path, faulty):
    faulty.fail(12, errno.EIO, lasting=True)
    with pytest.raises(DiskError, match="Input/output error"):
        RunStore.create(tmp_path / "run", {})
    faulty.mend()
    with pytest.raises(RunNotFoundError, match="holds no run"):
        RunStore.open(tmp_path / "run")
    RunStore.create(tmp_path / "run", {}).close()
