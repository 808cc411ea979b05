"""Starting points found by climbing the estimated density."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support.problems import OBSERVATIONS, PlainEnergy

import genbayes as gb


def target_of(fn) -> gb.ScorePosterior:
    problem = gb.Problem(
        gb.Prior(mean=dist.Normal(0.0, 1.0)),
        gb.Simulator(fn, noise=dist.Normal(0.0, 1.0)),
        OBSERVATIONS,
    )
    return gb.ScorePosterior(problem, PlainEnergy(), num_simulations=50)


def test_it_climbs_to_the_mode_from_the_origin():
    """The posterior has mean 0.88 and sd 0.28; noise and a finite step leave a part of that sd."""
    climb = gb.tuning.Optimise(steps=400, learning_rate=0.02)
    target = target_of(lambda theta, z: theta["mean"] + z)
    u = np.array([float(climb.find_start(jax.random.key(s), target)[0]) for s in range(4)])
    assert np.all(np.abs(u - 0.88) < 0.28)
    assert len(np.unique(u)) == 4


def test_steps_whose_estimate_is_not_finite_are_left_out():
    """Where a draw fails at every other key, the climb goes on with what is left."""

    def fails_at_times(theta, z):
        return jnp.where(z > 2.0, jnp.nan, theta["mean"] + z)

    u = gb.tuning.Optimise(steps=300, learning_rate=0.05).find_start(
        jax.random.key(0), target_of(fails_at_times)
    )
    assert np.all(np.isfinite(np.asarray(u)))
    assert abs(float(u[0]) - 0.9) < 0.5


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0, got 0.0"),
    ],
)
def test_bad_settings_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        gb.tuning.Optimise(**settings)
