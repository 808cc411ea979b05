"""Laws that every sampler obeys, from one table."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tests.samplers.table import POPULATIONS, SAMPLERS, TRACES, small_target
from tests.support import laws
from tests.support.problems import COVARIANCE, PlainEnergy, every_kind_problem

import genbayes as gb
from genbayes.problem._check import remarks_on_noise
from genbayes.runs import Outcome, _loop
from genbayes.samplers import AbstractSampler

ROOT = Path(__file__).parents[2]
PLAN = {"num_samples": 60, "num_warmup": 30, "num_chains": 2, "seed": 3, "start": "zero"}

every_sampler = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if row.slow else []) for n, row in SAMPLERS.items()],
)
# for laws of the loop that need programs of their own: siblings of others only in the slow tier
SIBLINGS = ("pseudo-marginal", "euler")
every_kind = pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if row.slow or n in SIBLINGS else [])
        for n, row in SAMPLERS.items()
    ],
)
ROWS = SAMPLERS | POPULATIONS
every_shape = pytest.mark.parametrize("name", ROWS)


def make(name: str) -> AbstractSampler:
    return ROWS[name].make(ROWS[name].setting)


def draw(name: str, **options) -> gb.Run:
    return gb.sample(small_target(), make(name), progress=False, **PLAN | options)


@pytest.fixture(scope="module")
def reference() -> dict[str, gb.Run]:
    return {}


@pytest.fixture
def uninterrupted(name, reference) -> gb.Run:
    """The run that all others are compared with, drawn once for each sampler."""
    if name not in reference:
        reference[name] = draw(name)
    return reference[name]


def assert_same_run(one: gb.Run, other: gb.Run) -> None:
    """Bit for bit: positions, parameters and infos."""
    np.testing.assert_array_equal(one.unconstrained, other.unconstrained)
    assert one.info.keys() == other.info.keys()
    for part in ("draws", "info"):
        for key, value in getattr(one, part).items():
            np.testing.assert_array_equal(value, getattr(other, part)[key], err_msg=key)


def assert_same_chains(one: np.ndarray, other: np.ndarray) -> None:
    """The same draws up to the rounding of differently vectorised programs."""
    np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)


def test_the_table_holds_every_kind_of_sampler_that_walks():
    kinds = {type(make(name)) for name in SAMPLERS}
    walk = {gb.PseudoMarginal, gb.AdSGLD, gb.SGLD, gb.PSGLD, gb.SGHMC}
    assert walk | {gb.FrozenNUTS, gb.PseudoMarginalNUTS} <= kinds


@every_shape
def test_init_and_step_have_the_common_signature(name):
    sampler = make(name)
    assert list(inspect.signature(sampler.init).parameters) == ["key", "target", "u"]
    assert list(inspect.signature(sampler.step).parameters) == ["key", "target", "state"]
    warmup = sampler.warmup(10)
    if warmup is not None:
        assert list(inspect.signature(warmup.init).parameters) == ["key", "target", "u"]
        assert list(inspect.signature(warmup.step).parameters) == ["key", "target", "state"]


@every_shape
@pytest.mark.parametrize("x64", [False, True], ids=["float32", "float64"])
def test_a_step_keeps_shapes_and_precision(name, x64):
    with jax.enable_x64(x64):
        sampler, target, key = make(name), small_target(), jax.random.key(0)
        walker = sampler.warmup(10) or sampler
        u = jnp.zeros(target.size)
        state = eqx.filter_eval_shape(walker.init, key, target, u)
        after, info = eqx.filter_eval_shape(walker.step, key, target, state)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), state) == jax.tree.map(
        lambda x: (x.shape, x.dtype), after
    )
    assert state.u.dtype == (jnp.float64 if x64 else jnp.float32)
    floats = [x.dtype for x in jax.tree.leaves(info) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert all(dtype == state.u.dtype for dtype in floats)
    of_particles = () if name in SAMPLERS else (sampler.num_particles,)
    fits = [value.shape in ((), of_particles) for value in info]
    assert all(fits), "infos are single numbers, of the step or of each particle"


@every_shape
def test_repr_can_be_pasted(name):
    sampler = make(name)
    assert eval(repr(sampler), {type(sampler).__name__: type(sampler)}) == sampler


@every_sampler
def test_draws_have_names_shapes_and_finite_values(name, uninterrupted):
    run = uninterrupted
    assert run.status.outcome is Outcome.COMPLETE
    assert run.draws["mean"].shape == (2, 60)
    assert run.unconstrained.shape == (2, 60, 1)
    assert np.all(np.isfinite(run.unconstrained))
    assert all(value.shape == (2, 60) for value in run.info.values())
    assert np.ptp(run.draws["mean"]) > 0.1
    assert run.unconstrained.dtype == np.float32


@every_sampler
def test_one_compilation_serves_every_setting_weight_seed_and_chunk(
    name, uninterrupted, monkeypatch
):
    del uninterrupted  # it has compiled everything
    row, target = SAMPLERS[name], small_target(weight=0.7)
    before = TRACES[0]
    remarks_on_noise(target.problem)  # as `sample` looks at it
    of_checks = TRACES[0] - before
    monkeypatch.setattr(_loop, "CHUNK_SECONDS", 1e-9)
    options = PLAN | {"num_samples": 41, "seed": 8, "start": {"mean": 0.4}}
    gb.sample(target, row.make(0.9 * row.setting), progress=False, **options)
    assert TRACES[0] == before + 2 * of_checks


@every_kind
def test_sequential_chains_and_more_chains_draw_the_same(name, uninterrupted):
    run = draw(name, chain_method="sequential", num_chains=3)
    assert_same_chains(run.unconstrained[:2], uninterrupted.unconstrained)
    assert not np.array_equal(run.unconstrained[2], run.unconstrained[0])


@every_sampler
def test_chunks_do_not_change_a_draw(name, uninterrupted, monkeypatch):
    monkeypatch.setattr(_loop, "CHUNK_SECONDS", 1e-9)  # one record a chunk
    assert_same_run(draw(name), uninterrupted)


def test_a_small_buffer_does_not_change_a_draw(monkeypatch):
    whole = draw("correlated")
    monkeypatch.setattr(_loop, "LARGEST_CHUNK", 7)
    assert_same_chains(draw("correlated").unconstrained, whole.unconstrained)


@every_sampler
@pytest.mark.parametrize("steps", [20, 50], ids=["in warm-up", "in sampling"])
def test_a_resumed_run_is_the_uninterrupted_one(name, steps, uninterrupted, monkeypatch):
    monkeypatch.setattr(_loop, "CHUNK_SECONDS", 1e-9)
    share = steps / 90 * uninterrupted.cost.simulator_calls
    stopped = draw(name, max_simulations=int(share))
    assert stopped.status.outcome is Outcome.MAX_SIMULATIONS
    assert stopped.unconstrained.shape[1] < 60
    resumed = gb.resume(stopped, progress=False)
    assert resumed.status.outcome is Outcome.COMPLETE
    assert_same_run(resumed, uninterrupted)
    assert resumed.cost.simulator_calls == uninterrupted.cost.simulator_calls
    assert resumed.cost.steps == uninterrupted.cost.steps


@every_sampler
def test_a_longer_run_begins_with_the_shorter_one(name, uninterrupted):
    longer = gb.resume(uninterrupted, num_samples=75, progress=False)
    assert_same_run(longer, draw(name, num_samples=75))
    np.testing.assert_array_equal(longer.unconstrained[:, :60], uninterrupted.unconstrained)


@every_kind
def test_thinning_is_subsampling(name, uninterrupted):
    thinned = draw(name, num_samples=20, thinning=3)
    assert_same_chains(thinned.unconstrained, uninterrupted.unconstrained[:, 2::3])
    for key, value in thinned.info.items():
        whole = uninterrupted.info[key]
        if whole.dtype.kind in "bi":  # flags and counts are summed over the steps between
            np.testing.assert_array_equal(value, whole.reshape(2, 20, 3).sum(axis=2))
        else:
            np.testing.assert_allclose(value, whole[:, 2::3], rtol=2e-3, atol=2e-3)


@every_sampler
def test_seeds_differ_and_repeat(name, uninterrupted):
    other = draw(name, seed=4)
    assert not np.any(other.unconstrained[:, 30:] == uninterrupted.unconstrained[:, 30:])
    assert_same_run(draw(name, seed=jax.random.key(3)), uninterrupted)


MARGINALS = {
    "free": stats.norm(1.0, 2.0),
    "positive": stats.gamma(3.0, scale=0.5),
    "bounded": stats.uniform(-1.0, 4.0),
    "shares[0]": stats.beta(2.0, 7.0),
    "shares[1]": stats.beta(3.0, 6.0),
    "shares[2]": stats.beta(4.0, 5.0),
    "vector[0]": stats.norm(0.5, 1.0),
    "vector[1]": stats.norm(-1.0, np.sqrt(2.0)),
}


SOON = ("pseudo-marginal", "badodab")  # the others take their time in the slow tier


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SOON else [pytest.mark.slow]) for n in SAMPLERS]
)
def test_weight_zero_leaves_the_prior_of_every_kind_of_parameter(name):
    row = SAMPLERS[name]
    if not row.prior_draws:
        pytest.skip("approximate at every step size")
    target = gb.ScorePosterior(every_kind_problem(), PlainEnergy(), weight=0.0, num_simulations=2)
    run = gb.sample(
        target, row.make(row.for_prior), num_samples=row.prior_draws, num_warmup=1000, num_chains=4,
        chain_method="sequential", seed=5, progress=False,
    )  # fmt: skip
    x = run.draws
    for label, law in MARGINALS.items():
        key, _, index = label.partition("[")
        values = x[key][..., int(index[:-1])] if index else x[key]
        laws.assert_distribution(values, law.cdf)
    difference = x["vector"][..., 0] - x["vector"][..., 1]
    spread = np.sqrt(COVARIANCE[0, 0] + COVARIANCE[1, 1] - 2 * COVARIANCE[0, 1])
    laws.assert_distribution(difference, stats.norm(1.5, spread).cdf)


PARALLEL = """
import sys
import numpy as np
from tests.samplers.table import SAMPLERS, small_target
import genbayes as gb, jax

assert jax.device_count() == 2
found = {}
for name in sys.argv[2:]:
    run = gb.sample(
        small_target(), SAMPLERS[name].make(SAMPLERS[name].setting), num_samples=60, num_warmup=30,
        num_chains=2, seed=3, start="zero", chain_method="parallel", progress=False,
    )
    found[name] = run.unconstrained
np.savez(sys.argv[1], **found)
"""


@pytest.mark.parametrize(
    "names",
    [
        ["correlated", "badodab"],
        pytest.param(sorted(SAMPLERS), marks=pytest.mark.slow),
    ],
    ids=["two samplers", "all samplers"],
)
def test_parallel_chains_draw_the_same(names, tmp_path):
    flags = "--xla_force_host_platform_device_count=2"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        [sys.executable, "-c", PARALLEL, str(tmp_path / "draws.npz"), *names],
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": path}, check=True, timeout=300,
    )  # fmt: skip
    with np.load(tmp_path / "draws.npz") as found:
        for name in names:
            assert_same_chains(found[name], draw(name).unconstrained)
