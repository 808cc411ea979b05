"""Writers that are killed, writers that meet, readers that look while somebody writes."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from genbayes.runs import _store_layout
from genbayes.runs._store import RunStore
from genbayes.runs._store_errors import LockedError

SOURCE = Path(_store_layout.__file__).parents[1]
TOTAL, STEP = 12_000, 40

# What a sampler would do, without one: the draws are a function of their number. Packages are
# stood in for, so that a new process takes a tenth of a second. Small chunks make many files.
WRITER = f"""
import sys, types
for name, path in (("genbayes", {str(SOURCE)!r}), ("genbayes.runs", {str(SOURCE / "runs")!r})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
import numpy as np
from genbayes.runs import _store_layout
from genbayes.runs._store import RunStore

_store_layout.PENDING_BYTES = 1 << 15
path, verb, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])

def blocks(start, stop):
    t = np.arange(start, stop)
    return {{
        "draws/A": np.stack([t, -t]).astype("f4"),
        "unconstrained": np.stack([np.sin(t), np.cos(t)], -1)[None].repeat(2, 0),
        "info/accepted": np.stack([t % 2 == 0, t % 3 == 0]),
    }}

if __name__ == "__main__":
    import time
    store = RunStore.create(path, {{"seed": 0}}) if verb == "create" else RunStore.open(path, write=True)
    print("ready", flush=True)
    with store:
        start = store.num_draws
        if start:
            assert store.state()["at"] == start == store.progress["step"], "state and draws differ"
        for at in range(start, {TOTAL}, {STEP}):
            store.append(blocks(at, at + {STEP}), {{"at": np.array(at + {STEP})}}, {{"step": at + {STEP}}})
            time.sleep(pause)
"""  # noqa: E501


def start_writer(path, verb, pause=0.0):
    """A writer in another process, which has the lock when this returns."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), verb, str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process


def wait_ready(process):
    line = process.stdout.readline()
    assert line == "ready\n", process.communicate()


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def contents(path):
    """Every byte of a run but those that tell the time."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    skipped = {"log.txt", "lock"}
    return {
        str(file.relative_to(path)): file.read_bytes() for file in files if file.name not in skipped
    }


def expected(num_draws):
    t = np.arange(num_draws)
    return np.stack([np.sin(t), np.cos(t)], -1)[None].repeat(2, 0)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("uninterrupted") / "run"
    process = start_writer(path, "create")
    wait_ready(process)
    begin = time.perf_counter()
    process.communicate(timeout=60)
    assert process.returncode == 0
    return contents(path), time.perf_counter() - begin


def kill_and_resume(folder, uninterrupted, num_kills, seed):
    """Kill writers at random instants until that many died, each run then coming out the same."""
    bytes_expected, seconds = uninterrupted
    rng = random.Random(seed)
    died = 0
    for number in itertools.count():
        path = folder / str(number)
        verb = "create"
        while True:
            process = start_writer(path, verb)
            if verb == "open" or rng.random() < 0.8:
                wait_ready(process)
            # also within the opening, and also after the end
            try:
                process.communicate(
                    timeout=rng.uniform(0, 0.6 * seconds) if died < num_kills else 60
                )
                assert process.returncode == 0
                break
            except subprocess.TimeoutExpired:
                kill(process)
                died += 1
            verb = "open" if (path / "manifest.json").exists() else "create"
        assert contents(path) == bytes_expected
        if died >= num_kills:
            return


def test_killed_writers_leave_what_others_can_finish(tmp_path, uninterrupted):
    kill_and_resume(tmp_path, uninterrupted, num_kills=8, seed=0)


@pytest.mark.slow
def test_fifty_killed_writers_leave_what_others_can_finish(tmp_path, uninterrupted):
    kill_and_resume(tmp_path, uninterrupted, num_kills=50, seed=1)


def test_readers_see_whole_commits_while_a_writer_writes(tmp_path):
    process = start_writer(tmp_path / "run", "create", pause=0.001)
    wait_ready(process)
    seen = []
    try:
        while process.poll() is None:
            run = RunStore.open(tmp_path / "run")
            seen.append(run.num_draws)
            draws = run.read("unconstrained") if run.num_draws else expected(0)
            assert draws.tobytes() == expected(run.num_draws).tobytes()
            if run.num_draws:
                assert run.state()["at"] == run.progress["step"] == run.num_draws
                assert np.asarray(run.arrays()["draws/A"])[0].tolist() == list(range(run.num_draws))
    finally:
        kill(process)
    assert seen == sorted(seen)
    assert len(set(seen)) > 5


def test_a_second_writer_is_told_who_the_first_is(tmp_path):
    path = tmp_path / "run"
    process = start_writer(path, "create", pause=10)
    wait_ready(process)
    try:
        with pytest.raises(
            LockedError, match=rf"written by process {process.pid} on .*wait"
        ) as raised:
            RunStore.open(path, write=True)
        assert raised.value.owner["pid"] == process.pid
        assert RunStore.open(path).manifest == {"seed": 0}
    finally:
        kill(process)
    with RunStore.open(path, write=True) as store:
        assert f"took over the lock of process {process.pid} on" in (path / "log.txt").read_text()
        with pytest.raises(LockedError, match=rf"written by process {os.getpid()} on"):
            RunStore.open(path, write=True)
        store.log("still the owner")
    RunStore.open(path, write=True).close()
    assert (path / "log.txt").read_text().count("took over") == 1


def test_only_one_of_many_creates(tmp_path):
    processes = [start_writer(tmp_path / "run", "create", pause=10) for _ in range(4)]
    try:
        deadline = time.monotonic() + 30
        while (ends := [p.poll() for p in processes]).count(1) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sorted(ends, key=str) == [1, 1, 1, None]
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
        errors = [process.communicate()[1] for process in processes]
    lost = [text for text in errors if text]
    assert all("LockedError" in text or "RunExistsError" in text for text in lost)


def test_a_lock_left_on_another_machine_is_not_taken(tmp_path):
    RunStore.create(tmp_path, {}).close()
    owner = {"pid": 7, "host": "elsewhere", "time": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "lock").write_text(json.dumps(owner))
    with pytest.raises(LockedError, match=r"process 7 on elsewhere .*then delete .*lock") as raised:
        RunStore.open(tmp_path, write=True)
    assert raised.value.owner == owner
    (tmp_path / "lock").unlink()
    RunStore.open(tmp_path, write=True).close()


def test_a_lock_file_nobody_can_read_does_not_stop_the_next_writer(tmp_path):
    RunStore.create(tmp_path, {}).close()
    for text in (b"\xff\x00", b"[1]", b"[" * 4000):
        (tmp_path / "lock").write_bytes(text)
        RunStore.open(tmp_path, write=True).close()
