"""The sampler that a target gets when none is named, and starts found by an optimiser."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.samplers.test_frozen_nuts import black_box_target, exact_target, key_target
from tests.support.problems import OBSERVATIONS, PlainEnergy

import genbayes as gb
from genbayes.samplers import choose_sampler


def wide(theta, z):
    return jnp.sum(theta["weights"]) + jnp.sum(z)


def wide_target(parameters: int, dimensions: int, score: gb.scores.AbstractScore | None = None):
    """A target with so many parameters and numbers of noise."""
    prior = gb.Prior(weights=dist.Normal(0.0, 1.0).expand([parameters]).to_event(1))
    noise = dist.Normal(0.0, 1.0).expand([dimensions]).to_event(1)
    problem = gb.Problem(prior, gb.Simulator(wide, noise=noise), OBSERVATIONS)
    return gb.ScorePosterior(problem, PlainEnergy() if score is None else score, num_simulations=20)


@pytest.mark.parametrize(
    ("make_target", "kind", "because"),
    [
        (exact_target, gb.NUTS, "the target is exact"),
        (black_box_target, gb.PseudoMarginal, "the simulator has no gradients"),
        (lambda: wide_target(2, 16), gb.FrozenNUTS, r"its noise has few dimensions \(16\)"),
        (lambda: wide_target(2, 17), gb.AdSGLD, "noise has many dimensions"),
        (lambda: wide_target(51, 17), gb.PSGLD, r"there are many parameters \(51\)"),
        (key_target, gb.AdSGLD, "or no known distribution"),
        (
            lambda: wide_target(2, 17, gb.SyntheticLikelihood()),
            gb.PseudoMarginal,
            "the gradient of SyntheticLikelihood is biased",
        ),
    ],
)
def test_the_target_decides(make_target, kind, because):
    target = make_target()
    sampler, why = choose_sampler(target)
    assert type(sampler) is kind
    with pytest.raises(AssertionError, match=because):
        raise AssertionError(why)
    sampler.check(target)  # what is chosen fits


def test_the_run_says_what_was_chosen_and_why():
    run = gb.sample(black_box_target(), num_samples=20, num_warmup=20, progress=False)
    assert run.status.remarks[0] == (
        "Sampler chosen: PseudoMarginal, because the simulator has no gradients."
    )
    assert run.status.remarks[0] in str(run.summary())
    assert isinstance(run.sampler, gb.PseudoMarginal)


def test_what_is_no_target_is_refused_before_a_sampler_is_chosen():
    with pytest.raises(TypeError, match="target must be a ScorePosterior, got str"):
        gb.sample("target", num_samples=5)


def test_a_learnt_proposal_needs_a_warmup():
    match = r"learns its proposal in warm-up: num_warmup must be at least 10 \(1000 is usual\)"
    with pytest.raises(ValueError, match=match):
        gb.sample(key_target(), gb.PseudoMarginal(adapt=True), num_samples=5, progress=False)


class SeededNormal(gb.Simulator):
    """The location model, said to be a program that JAX cannot see into."""

    traceable = False
    differentiable = False


def test_a_target_that_cannot_be_compiled_goes_through_the_same_steps():
    """Bit for bit the noise and the decisions of the compiled program; in groups and adapting."""
    runs = []
    for kind in (gb.Simulator, SeededNormal):
        simulator = kind(lambda theta, z: theta["mean"] + z, noise=dist.Normal(0.0, 1.0))
        problem = gb.Problem(gb.Prior(mean=dist.Normal(0.0, 1.0)), simulator, OBSERVATIONS)
        target = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=8)
        runs.append(
            gb.sample(
                target, gb.PseudoMarginal(0.8, groups=4, adapt=True), num_samples=15,
                num_warmup=15, num_chains=2, thinning=2, seed=3, start="zero", progress=False,
            )
        )  # fmt: skip
    compiled, by_python = runs
    np.testing.assert_array_equal(compiled.info["accepted"], by_python.info["accepted"])
    np.testing.assert_allclose(compiled.unconstrained, by_python.unconstrained, rtol=1e-4)
    assert compiled.cost.simulator_calls == by_python.cost.simulator_calls


def test_optimise_does_not_climb_where_there_are_no_gradients():
    with pytest.raises(ValueError, match="Optimise follows gradients, and this simulator has none"):
        gb.tuning.Optimise(steps=5).find_start(jax.random.key(0), black_box_target())
