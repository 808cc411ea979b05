"""The bandit keeps good step sizes, drops those that diverge, and says what it saw."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.plain import SDS, prior_target

import genbayes as gb
from genbayes.tuning._race import Field

# of N(0, 1) the first diverges and the second gives twice the variance; the last hardly move
GRID = (8.0, 2.0, 0.3, 1e-4, 1e-6)
ORIGIN = {"a": 0.0, "b": 0.0}


@pytest.fixture(scope="module")
def tuned():
    return gb.tuning.step_size(
        prior_target(), gb.SGLD(1.0), grid=GRID, eta=2, budget=9000, start=ORIGIN
    )


def test_the_best_arm_wins(tuned):
    assert tuned.value == 0.3
    assert tuned.sampler == gb.SGLD(0.3)
    assert [len(r.arms) for r in tuned.rounds] == [5, 2]
    assert [r.steps for r in tuned.rounds] == [900, 2247]  # whole draws


def test_an_arm_that_diverges_is_dropped(tuned):
    first = tuned.rounds[0]
    assert np.isinf(first.discrepancy[0])
    assert first.refused[0] > 0.5
    assert np.isfinite(first.discrepancy[1:]).all()
    fates = dict(zip(*(tuned.table().column(c) for c in ("step size", "fate")), strict=True))
    assert fates[8.0] == "diverged"
    assert fates[0.3] == "chosen"
    assert fates[1e-6] == "out after round 1"


def test_simulations_are_counted():
    """One estimate a step, two in warm-up (some samplers adapt), and those of the gradients."""
    problem = gb.tasks.normal_location().problem(seed=0, num_observations=5)
    target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=4)
    found = gb.tuning.step_size(
        target, gb.SGLD(1.0), grid=(0.01,), budget=40, num_draws=10, num_simulations=7, start="zero"
    )
    (only,) = found.rounds
    assert found.simulator_calls == 4 * (2 * 20 + only.steps) + 7 * 10


def test_what_is_chosen_is_right(tuned):
    """The draws of the chosen step size have the sds of the target; those of another have not."""

    def sds(sampler):
        run = gb.sample(
            prior_target(), sampler, num_samples=20_000, start=ORIGIN, progress=False
        )  # fmt: skip
        return run.unconstrained[0].std(axis=0) / SDS

    # SGLD on N(0, s^2) has variance s^2 / (1 - step / 4 s^2); 500 effective draws
    np.testing.assert_allclose(sds(tuned.sampler), 1, atol=0.04 + 4 / np.sqrt(2 * 500))
    assert sds(gb.SGLD(2.0))[0] > 1.3


def test_the_same_seed_makes_the_same_choice(tuned):
    again = gb.tuning.step_size(
        prior_target(), gb.SGLD(1.0), grid=GRID, eta=2, budget=9000, start=ORIGIN
    )
    for one, other in zip(tuned.rounds, again.rounds, strict=True):
        np.testing.assert_array_equal(one.discrepancy, other.discrepancy)


@eqx.filter_jit
def one_step(step, key, target, state):
    return eqx.tree_at(lambda s: s.step_size, gb.SGLD(1.0), step).step(key, target, state)[0]


def test_arms_walk_by_the_steps_of_the_sampler():
    target, key = prior_target(), jax.random.key(3)
    u = np.array([0.3, -0.2], np.float32)
    field = Field(key, target, [gb.SGLD(0.1), gb.SGLD(0.4)], u)
    field.warm_up(5)
    leg = field.advance(12, keep=4)
    assert leg.steps == 12
    keys = jax.random.split(jax.random.split(key)[1], 2)
    for arm, step in enumerate((0.1, 0.4)):
        state, rows = gb.SGLD(step).init(key, target, u), []
        for t in range(17):
            state = one_step(jnp.asarray(step), jax.random.fold_in(keys[arm], t), target, state)
            rows.append(np.asarray(state.u))
        np.testing.assert_allclose(leg.draws[arm], rows[7::3], rtol=1e-5)


def test_arms_adapt_as_they_would_alone():
    """The automatic diffusion is measured for each arm, in a warm-up of its own."""
    found = gb.tuning.step_size(
        prior_target(), gb.AdSGLD(1.0), grid=(0.3, 0.001), budget=1200, start=ORIGIN
    )
    assert found.value == 0.3
    assert found.sampler.diffusion == "auto"


def test_momentum_has_the_root_of_the_published_grid():
    arms = gb.tuning.Bandit().arms
    assert len(arms(gb.SGLD(1.0))) == 14
    np.testing.assert_allclose(arms(gb.SGLD(1.0))[::13], [1e-1, 10**-7.5])
    np.testing.assert_allclose(arms(gb.AdSGLD(1.0)), np.sqrt(arms(gb.PSGLD(1.0))))


def test_a_budget_in_seconds():
    found = gb.tuning.step_size(
        prior_target(), gb.SGLD(1.0), grid=(0.3, 0.001), seconds=0.2, start=ORIGIN
    )
    assert found.value == 0.3
    assert found.rounds[0].steps % 64 == 0


def test_table_and_picture(tuned):
    text = str(tuned)
    assert "Step size 0.3 of SGLD chosen among 5" in text
    assert "in 2 rounds of 8,994 steps in all" in text
    (ax,) = tuned.plot().axes
    assert len(ax.lines) == 3
    short = gb.tuning.step_size(
        prior_target(), gb.SGLD(1.0), grid=(0.3, 1e-6), budget=800, start=ORIGIN
    )
    assert "The largest of all was chosen" in str(short)


def test_all_diverging():
    with pytest.raises(RuntimeError, match="Every step size diverged"):
        gb.tuning.step_size(
            prior_target(), gb.SGLD(1.0), grid=(50.0, 90.0), budget=800, start=ORIGIN
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": ()}, "at least one step size"),
        ({"grid": (0.1, 0.1)}, "none twice"),
        ({"grid": (0.1, -0.1)}, "each step size of grid must be a finite number above 0"),
        ({"eta": 1}, "eta must be at least 2"),
        ({"budget": 10}, "budget must be at least 56"),
        ({"seconds": 0.0}, "seconds must be a finite number above 0"),
        ({"num_draws": 1}, "num_draws must be at least 2"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        gb.tuning.Bandit(**options)


def test_a_sampler_without_a_step_size_is_refused():
    with pytest.raises(ValueError, match="NUTS has no step size to be tuned by a bandit"):
        gb.tuning.step_size(prior_target(), gb.NUTS(), start=ORIGIN)
