"""`check` finds what samplers would stumble over, and says what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import torch

import genbayes as gb
from genbayes.problem import remarks_on_noise

NORMAL = dist.Normal(0.0, 1.0)
PRIOR = gb.Prior(mean=NORMAL, scale=dist.HalfNormal(1.0))
Y = [0.1, 1.2, 0.7]


def sound(theta, z):
    return theta["mean"] + theta["scale"] * z


def without_noise(theta, z):
    return theta["mean"] + theta["scale"]


def own_randomness(theta, z):
    return sound(theta, z) + np.random.default_rng().normal()


def negative_logarithm(theta, z):
    return jnp.log(theta["mean"]) + theta["scale"] * z


def root_at_zero(theta, z):
    spread = theta["scale"] * z
    return theta["mean"] + jnp.where(z > 0, spread, jnp.sqrt(jnp.maximum(spread, 0.0)))


def rounded(theta, z):
    return theta["mean"] + z + jnp.round(theta["scale"])


def in_torch(theta, z):
    return theta["mean"] + theta["scale"] * z


def torch_of_its_own(theta, z):
    return theta["mean"] + theta["scale"] * torch.randn(())


def jax_problem(fn):
    return gb.Problem(PRIOR, gb.Simulator(fn, noise=NORMAL), Y)


def torch_problem(fn):
    return gb.Problem(PRIOR, gb.TorchSimulator(fn, NORMAL), Y)


def boxed(fn):
    return gb.Problem(PRIOR, gb.BlackBox(fn), Y)


def by_subject(checked):
    return {f.subject: f for f in checked.findings}


@pytest.mark.parametrize(
    "problem",
    [
        jax_problem(sound),
        torch_problem(in_torch),
        boxed(lambda theta, rng: rng.normal(theta["mean"], theta["scale"])),
    ],
    ids=["JAX", "PyTorch", "black box"],
)
def test_nothing_is_found_where_nothing_is_wrong(problem):
    checked = gb.check(problem)
    assert checked.ok, str(checked)
    assert checked.non_finite == 0
    assert remarks_on_noise(problem) == []


@pytest.mark.parametrize(
    ("problem", "subject", "result", "said"),
    [
        (jax_problem(without_noise), "other noise", "look", "the noise is never used"),
        (jax_problem(own_randomness), "same noise", "fault", "take all randomness from the noise"),
        (torch_problem(torch_of_its_own), "same noise", "fault", "gives different draws"),
        (boxed(lambda t, rng: np.random.default_rng().normal(t["mean"])), "same noise", "fault",
         "the generator"),
        (boxed(lambda t, rng: t["mean"]), "other noise", "look", "second argument"),
        (jax_problem(negative_logarithm), "finite", "look", "tighten the prior"),
        (jax_problem(lambda t, z: sound(t, z) * jnp.nan), "finite", "fault", "100 of 100 draws"),
        (jax_problem(root_at_zero), "gradients", "fault", "by scale they are not finite at"),
        (jax_problem(rounded), "gradients", "look", "by scale they are zero everywhere"),
    ],
    ids=["unused", "impure", "impure torch", "impure box", "unused box", "some NaN", "all NaN",
         "gradient", "no gradient"],
)  # fmt: skip
def test_each_fault_is_found(problem, subject, result, said):
    checked = gb.check(problem)
    finding = by_subject(checked)[subject]
    assert finding.result.value == result
    assert said in finding.text
    assert not checked.ok
    others = [f for f in checked.findings if f.subject != subject and f.subject != "gradients"]
    assert all(f.result.value == "fine" for f in others), str(checked)
    assert (subject in ("same noise", "other noise")) == bool(remarks_on_noise(problem))


def test_the_share_of_draws_that_are_not_finite():
    share = gb.check(jax_problem(negative_logarithm), num_draws=400).non_finite
    assert abs(share - 0.5) < 4 * 0.5 / 400**0.5


def test_failures_of_a_black_box_are_draws_that_are_not_finite():
    def fails(theta, rng):
        if theta["mean"] < 0:
            raise ArithmeticError("cold")
        return rng.normal(theta["mean"], theta["scale"])

    checked = gb.check(boxed(fails))
    assert 0 < checked.non_finite < 1
    assert by_subject(checked)["finite"].result.value == "look"
    assert by_subject(checked)["same noise"].result.value == "fine"


def test_precision_that_a_simulator_fixes():
    with jax.enable_x64(True):
        problem = jax_problem(lambda t, z: sound(t, z).astype(jnp.float32))
        finding = by_subject(gb.check(problem, num_draws=5))["shapes"]
    assert finding.result.value == "look"
    assert "draws are float32 where JAX computes in float64" in finding.text


def test_a_summary_of_the_observations_that_is_not_finite():
    simulator = gb.Simulator(lambda t, z: jnp.exp(sound(t, z)), noise=NORMAL, summary=jnp.log)
    problem = gb.Problem(PRIOR, simulator, [1.0, 0.0])
    assert "the summary of the observations" in by_subject(gb.check(problem))["shapes"].text


def test_a_problem_without_simulator():
    problem = gb.Problem(PRIOR, None, Y)
    assert gb.check(problem).ok
    assert remarks_on_noise(problem) == []


def test_it_prints_as_lines_and_as_a_table():
    checked = gb.check(jax_problem(without_noise), num_draws=5)
    assert len(str(checked).splitlines()) == 6
    assert checked.table().column("result") == ["fine", "fine", "fine", "look", "fine"]
    assert "<td>other noise</td>" in checked._repr_html_()


def test_a_run_notes_what_was_found():
    target = gb.ScorePosterior(
        boxed(lambda t, rng: np.random.default_rng().normal(t["mean"])), gb.EnergyScore(),
        num_simulations=2,
    )  # fmt: skip
    run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=2, progress=False)
    assert any("the same noise gives different draws" in r for r in run.status.remarks)


def test_num_draws_must_count():
    with pytest.raises(ValueError, match="num_draws must be at least 1, got 0"):
        gb.check(jax_problem(sound), num_draws=0)
