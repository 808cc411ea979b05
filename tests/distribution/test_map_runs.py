"""Many runs at once: order, errors, what is kept."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import genbayes as gb


@pytest.fixture
def draw(made_run):
    return lambda seed: made_run(seed=seed, draws=5)


def test_in_the_order_of_the_items(draw):
    with ThreadPoolExecutor(2) as threads:
        spread = gb.map_runs(maker, [3, 1, 2], executor=threads)
    for run, seed in zip(spread, (3, 1, 2), strict=True):
        np.testing.assert_array_equal(run.unconstrained, draw(seed).unconstrained)


def maker(seed):
    from tests.conftest import maker_of_runs

    if seed == 13:
        raise ValueError("unlucky")
    return maker_of_runs(seed=seed, draws=5)


@pytest.mark.parametrize("threads", [0, 2])
def test_the_others_are_finished_and_kept(tmp_path, threads):
    executor = ThreadPoolExecutor(threads) if threads else None
    with pytest.raises(RuntimeError, match=r"1 of 3 runs failed.*item 0: 13.*unlucky.*are kept"):
        gb.map_runs(maker, [13, 1, 2], keep=tmp_path, executor=executor)
    assert len(list(tmp_path.glob("*.nc"))) == 2
    assert not list(tmp_path.glob("*.part"))
    if executor is not None:
        executor.shutdown()


def test_what_is_kept_is_not_drawn_again(tmp_path, made_run):
    called: list[int] = []

    def count(seed):
        called.append(seed)
        return made_run(seed=seed, draws=5)

    first = gb.map_runs(count, [1, 2], keep=tmp_path)
    again = gb.map_runs(count, [1, 2, 3], keep=tmp_path)
    assert called == [1, 2, 3]
    np.testing.assert_array_equal(first[1].unconstrained, again[1].unconstrained)


def test_what_is_no_run_is_refused():
    with pytest.raises(TypeError, match="make_run must return a Run, got int"):
        gb.map_runs(lambda seed: seed, [1])


def test_what_is_no_executor_is_refused(draw):
    with pytest.raises(TypeError, match="executor must be a concurrent"):
        gb.map_runs(draw, [1], executor=2)
