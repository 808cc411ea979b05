"""Experiments from end to end, at a scale of seconds, and against the published numbers."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest

from genbayes.paper import EXPERIMENTS, _kept, _reproduce, _work, reproduce
from genbayes.paper._data import Data
from genbayes.paper._experiment import SCALES, Cell
from genbayes.paper._outcome import Number, Outcome, read_outcome, write_numbers, write_outcome
from genbayes.paper._work import Job, Queue, Task

PUBLISHED = Path(
    os.environ.get(
        "GENBAYES_PUBLISHED_OBSERVATIONS",
        Path(__file__).parents[3] / "shared/reference/published_observations.npz",
    )
)
needs_published = pytest.mark.skipif(
    not PUBLISHED.is_file(), reason="needs the published observations, which are not part of this"
)


def test_a_stopped_reproduction_goes_on_and_failures_are_told(tmp_path, monkeypatch):
    from genbayes.paper import robust_normal

    calls, broken = [], {"BSL"}

    def chain(score, observations, scale):
        calls.append(score)
        if score in broken:
            raise RuntimeError("out of <memory>")
        numbers = {"acceptance": [0.1, 0.01], "mean": np.zeros((2, 1)), "sd": np.ones((2, 1))}
        cost = {"seconds": 1.0, "simulations": 5}
        return {name: np.array(x) for name, x in (numbers | cost).items()}

    def grid(score, observations):
        return {"grid": np.arange(3.0), "density": np.ones(3), "sd": np.array(1.0)}

    monkeypatch.setattr(robust_normal, "published_chain", chain)
    monkeypatch.setattr(robust_normal, "quadrature", grid)
    done = reproduce("robust_normal", out=tmp_path, progress=False)
    assert done.failures == 1
    page = (tmp_path / "robust_normal-smoke.html").read_text()
    assert "out of &lt;memory&gt;" in page
    assert "robust_normal-smoke.html" in done.index.read_text()
    assert sorted(calls) == ["BSL", "energy", "kernel"]

    calls.clear()
    broken.clear()
    done = reproduce("robust_normal", out=tmp_path, progress=False)
    assert calls == ["BSL"]  # the failed part alone
    assert done.failures == 0
    page = (tmp_path / "robust_normal-smoke.html").read_text()
    assert "Not compared: other observations" in page
    assert "data:image/png;base64," in page


@pytest.mark.slow
def test_all_experiments_at_the_smallest_scale(tmp_path):
    done = reproduce("all", out=tmp_path, progress=False)
    assert done.index.is_file()
    assert done.failures == 0
    for name in EXPERIMENTS:
        page = (tmp_path / f"{name}-smoke.html").read_text()
        assert "Not finished" not in page
        assert "data:image/png;base64," in page


# cells of a few seconds whose published numbers another implementation has met digit for digit
CELLS = [
    ("effect_of_m", "uni_gk-energy-50", "acceptance", 0.179, 0.0005),
    ("effect_of_m", "uni_gk-energy-50", "trace", 3.6105, 0.0),
    ("effect_of_m", "uni_gk-BSL-50", "acceptance", 0.129, 0.0005),
    ("effect_of_m", "uni_gk-BSL-50", "trace", 4.3778, 0.0),
    ("robust_normal", "normal_location_eps0.2_z20-energy", "acceptance", 0.082, 0.0005),
    ("robust_normal", "normal_location_eps0.2_z20-energy", "sd", 0.113, 0.0005),
]


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    done = {}

    def compute(experiment: str, cell: str):
        if (experiment, cell) not in done:
            cells = EXPERIMENTS[experiment].cells(SCALES["paper"], Data(PUBLISHED))
            done[experiment, cell] = next(c for c in cells if c.name == cell).work()
        return done[experiment, cell]

    return compute


@needs_published
@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "cell", "what", "published", "rounding"), CELLS)
def test_published_numbers(computed, experiment, cell, what, published, rounding):
    value, error = np.ravel(computed(experiment, cell)[what])[:2]
    # both chains have this error; three and a half of it for six numbers
    assert abs(value - published) < rounding + 3.5 * 2**0.5 * error


def test_kept_results_of_a_scale_are_apart(tmp_path):
    _kept.write(tmp_path / "a" / "smoke", "cell", "f", {"x": np.ones(1)})
    assert _kept.read(tmp_path / "a" / "paper", "cell", "f") is None


def made_outcome(name: str, **changed) -> Outcome:
    number = Number("a rate", 0.1, 0.104, 0.001, 2.5, "agrees", False)
    settings = {"published": True, "failures": 0, "seconds": 1.0, "work_seconds": 120.0}
    settings |= {"title": name.title(), "scale": "smoke", "page": f"{name}.html"}
    return Outcome(name=name, **settings | {"numbers": [number]} | changed)


def test_outcomes_are_kept_and_told_together(tmp_path):
    outcome = made_outcome("robust_normal")
    write_outcome(outcome, tmp_path)
    assert read_outcome("robust_normal", "smoke", tmp_path) == outcome
    assert read_outcome("robust_normal", "paper", tmp_path) is None
    (tmp_path / "robust_normal" / "smoke.json").write_text("{}")
    assert read_outcome("robust_normal", "smoke", tmp_path) is None
    bound = Number("another", 0.001, 0.0, 0.1, 0.0, "agrees", True)
    far = Number("third", 0.1, 0.2, 0.01, 7.0, "differs", False, "a slip of the pen")
    found = [made_outcome("x", numbers=[*outcome.numbers, bound, far]), made_outcome("y")]
    text = write_numbers(found, tmp_path).read_text()
    assert "| a rate | 0.1 | 0.104 | 0.001 | 2.5 | agrees |" in text
    assert "| another | < 0.001 | 0 |" in text
    assert "| 7 | differs: a slip of the pen |" in text
    assert "| `x` | 2 | 1 | 0 | 2.0 |" in text
    assert "| all | 3 | 1 | 0 | 4.0 |" in text


def job(name: str, load: float, programs: str = "") -> Job:
    return Job(Cell(name, dict, load, programs), Task("x", name, "smoke", None, "", "", False))


def test_workers_stay_with_what_they_have_compiled_and_begin_with_the_longest():
    jobs = [job("a1", 1, "a"), job("a2", 9, "a"), job("b1", 8, "b"), job("b2", 7, "b"), job("c", 2)]
    queue = Queue(jobs)
    assert queue.take(None).cell.name == "a2"
    assert queue.take(None).cell.name == "b1"  # the other worker: what nobody has compiled
    assert queue.take("b").cell.name == "b2"
    assert queue.take("b").cell.name == "c"
    assert queue.take("x/c").cell.name == "a1"  # nothing else is left: of the first worker's
    assert not queue


def test_each_cell_runs_once_over_workers_and_a_worker_that_dies_is_replaced(monkeypatch):
    ran, pools = [], []

    class Pool(ThreadPoolExecutor):
        def __init__(self, number, mp_context, max_tasks_per_child):
            del mp_context
            assert max_tasks_per_child > 1
            super().__init__(number)
            self.broken = False
            pools.append(self)

        def submit(self, work, task):
            if self.broken:
                raise BrokenProcessPool
            self.broken = task.cell == "dies"
            return super().submit(work, task)

    def run(task):
        ran.append((threading.get_ident(), task.cell))
        if task.cell == "dies":
            raise BrokenProcessPool("out of memory")

    monkeypatch.setattr(_work, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(_work, "run_task", run)
    jobs = [job("dies", 99), *(job(f"{p}{i}", 5 - i, p) for p in "ab" for i in range(4))]
    ended = {j.cell.name: error for j, error in _work.run_all(jobs, 2, None)}
    assert sorted(cell for _, cell in ran) == sorted(j.cell.name for j in jobs)
    assert [name for name, error in ended.items() if error is not None] == ["dies"]
    assert len(ended) == len(jobs)
    assert len(pools) == 3


def test_pages_come_as_experiments_are_finished(tmp_path, monkeypatch):
    seen = []

    def ends(jobs, processes, executor):
        for job in sorted(jobs, key=lambda job: job.task.experiment):
            seen.append((job.task.experiment, (tmp_path / "bsl_sticky-smoke.html").exists()))
            yield job, RuntimeError("nothing was computed")

    monkeypatch.setattr(_reproduce, "run_all", ends)
    done = reproduce(["tuning", "bsl_sticky"], out=tmp_path, progress=False)
    assert seen[0] == ("bsl_sticky", False)
    assert {written for name, written in seen if name == "tuning"} == {True}
    assert [outcome.name for outcome in done.outcomes] == ["tuning", "bsl_sticky"]
