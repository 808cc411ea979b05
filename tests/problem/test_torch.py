"""Simulators in PyTorch: the same draws and gradients as in JAX, and the same runs."""

import builtins

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import torch
from tests.support.problems import OBSERVATIONS, PlainEnergy

import genbayes as gb
from genbayes.runs._fingerprint import fingerprint

PRIOR = gb.Prior(mean=dist.Normal(0.0, 2.0), scale=dist.HalfNormal(2.0))
NORMAL = dist.Normal(0.0, 1.0)
THETA = {"mean": 0.5, "scale": 1.5}


def in_jax(theta, z):
    return theta["mean"] + jnp.tanh(theta["scale"] * z)


def in_torch(theta, z):
    return theta["mean"] + torch.tanh(theta["scale"] * z)


def branching(theta, z):
    spread = theta["scale"] * z
    return theta["mean"] + (torch.tanh(spread) if spread > 0 else -torch.tanh(-spread))


def half_detached(theta, z):
    return theta["mean"] + torch.tanh(theta["scale"].detach() * z)


KINDS = {
    "mapped": gb.TorchSimulator(in_torch, NORMAL),
    "vectorized": gb.TorchSimulator(in_torch, NORMAL, vectorized=True),
    "one by one": gb.TorchSimulator(branching, NORMAL),
}


def target(simulator, num_simulations=20, **options) -> gb.ScorePosterior:
    problem = gb.Problem(PRIOR, simulator, OBSERVATIONS)
    return gb.ScorePosterior(problem, PlainEnergy(), num_simulations=num_simulations, **options)


def derivatives(simulator):
    """Draws of three parameter sets, and derivatives of a function of them by all inputs."""

    def weighed(theta, z):
        x = simulator.simulate_from(theta, z)
        return jnp.sum(jnp.sin(x) * jnp.arange(1.0, 5.0)), x

    z = jnp.linspace(-2.0, 2.0, 12).reshape(3, 4)
    theta = {"mean": jnp.array([0.0, 1.0, -1.0]), "scale": jnp.array([0.5, 1.0, 2.0])}
    along = jax.vmap(jax.value_and_grad(weighed, argnums=(0, 1), has_aux=True))
    (_, draws), gradients = jax.jit(along)(theta, z)
    return {"draws": draws, **gradients[0], "noise": gradients[1]}


def assert_same(simulator):
    expected = derivatives(gb.Simulator(in_jax, NORMAL))
    tolerance = 1e-12 if jnp.zeros(()).dtype == jnp.float64 else 1e-5
    simulator.simulate(jax.random.key(0), THETA, 1)  # the shape of a draw is learnt
    found = derivatives(simulator)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(
            found[name], value, rtol=tolerance, atol=tolerance, err_msg="differs from JAX: " + name
        )


class TestAgainstJAX:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.usefixtures("precision")
    def test_draws_and_gradients_are_the_same(self, kind):
        assert_same(KINDS[kind])

    def test_a_gradient_that_is_cut_is_seen(self):
        with pytest.raises(AssertionError, match="differs from JAX: scale"):
            assert_same(gb.TorchSimulator(half_detached, NORMAL))

    def test_rows_are_mapped_where_they_can_be(self):
        for one in KINDS.values():
            one.simulate(jax.random.key(0), THETA, 2)
        assert KINDS["mapped"].bridge.unmapped is None
        assert "vmap" in str(KINDS["one by one"].bridge.unmapped)

    def test_events_and_noise_may_have_any_shape(self):
        def product(theta, z):
            return theta["weights"] @ z + theta["mean"]

        prior = gb.Prior(weights=dist.Normal(0.0, 1.0).expand([3, 2]).to_event(2), mean=NORMAL)
        noise = NORMAL.expand([2, 4]).to_event(2)
        theta, z = prior.sample(jax.random.key(1)), noise.sample(jax.random.key(2), (2, 3, 5))
        one = gb.TorchSimulator(product, noise)
        expected = np.einsum("ij,abcjk->abcik", theta["weights"], z) + np.asarray(theta["mean"])
        np.testing.assert_allclose(one.simulate_from(theta, z[0, 0]), expected[0, 0], rtol=1e-4)
        twice = jax.vmap(jax.vmap(one.simulate_from, in_axes=(None, 0)), in_axes=(None, 0))
        np.testing.assert_allclose(twice(theta, z), expected, rtol=1e-4, atol=1e-6)

    def test_a_generator_for_each_draw(self):
        def drawn(theta, generator):
            return theta["mean"] + theta["scale"] * torch.randn(
                (), generator=generator, dtype=theta["mean"].dtype
            )

        one = gb.TorchSimulator(drawn)
        x = np.asarray(one.simulate(jax.random.key(0), THETA, 400))
        np.testing.assert_array_equal(x, one.simulate(jax.random.key(0), THETA, 400))
        assert len(np.unique(x)) == 400
        assert abs(x.mean() - 0.5) < 4 * 1.5 / 400**0.5
        assert abs(x.std() - 1.5) < 4 * 1.5 / 800**0.5
        y = one.simulate_from(THETA, one.draw_noise(jax.random.key(0), 400))
        scale = jax.grad(
            lambda t: jnp.sum(one.simulate_from(t, one.draw_noise(jax.random.key(0), 400)))
        )({name: jnp.asarray(v) for name, v in THETA.items()})["scale"]
        np.testing.assert_allclose(scale, jnp.sum((y - 0.5) / 1.5), rtol=1e-4)


class TestRuns:
    def test_stochastic_gradient_draws_are_those_of_jax(self):
        with jax.enable_x64(True):
            drawn = [
                gb.sample(
                    target(simulator), gb.AdSGLD(0.02, diffusion=1.0), num_samples=30,
                    num_chains=2, progress=False,
                ).unconstrained
                for simulator in (gb.Simulator(in_jax, NORMAL), KINDS["mapped"])
            ]  # fmt: skip
        np.testing.assert_allclose(drawn[1], drawn[0], rtol=1e-9)

    @pytest.mark.slow
    def test_frozen_noise_draws_are_those_of_jax(self):
        with jax.enable_x64(True):
            sampler = gb.FrozenNUTS(step_size=0.4, inverse_mass=jnp.ones(2), max_doublings=4)
            drawn = [
                gb.sample(
                    target(simulator), sampler, num_samples=10, num_chains=2, progress=False
                ).unconstrained
                for simulator in (gb.Simulator(in_jax, NORMAL), KINDS["vectorized"])
            ]
        np.testing.assert_allclose(drawn[1], drawn[0], rtol=1e-7)

    def test_the_choice_is_that_of_a_differentiable_simulator(self):
        from genbayes.samplers import choose_sampler

        assert isinstance(choose_sampler(target(KINDS["mapped"]))[0], gb.FrozenNUTS)

    @pytest.mark.slow
    def test_noise_and_parameters_move_together(self):
        with jax.enable_x64(True):
            sampler = gb.PseudoMarginalNUTS(max_doublings=3)
            drawn = [
                gb.sample(
                    target(simulator, 5), sampler, num_samples=5, num_warmup=20, progress=False
                ).unconstrained
                for simulator in (gb.Simulator(in_jax, NORMAL), KINDS["mapped"])
            ]
        np.testing.assert_allclose(drawn[1], drawn[0], rtol=1e-6)


def test_weights_of_a_network_are_part_of_what_a_run_knows_of_its_simulator():
    def network(seed):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(1, 1)
        fixed = torch.arange(3.0 + seed)
        return gb.TorchSimulator(lambda t, z: layer(t["mean"][None])[0] + z + fixed[-1], NORMAL)

    assert fingerprint(network(0)) == fingerprint(network(0))
    assert fingerprint(network(0)) != fingerprint(network(1))


class TestFailures:
    def test_parameters_that_are_not_finite_give_draws_that_are_not(self):
        def strict(theta, z):
            return torch.distributions.Normal(theta["mean"], theta["scale"]).icdf(z)

        one = gb.TorchSimulator(strict, dist.Uniform(0.0, 1.0))
        assert np.isfinite(one.simulate(jax.random.key(0), THETA, 3)).all()
        assert np.isnan(one.simulate(jax.random.key(0), {**THETA, "mean": np.nan}, 3)).all()

    def test_a_decomposition_that_fails_gives_nan_as_in_jax(self):
        def decomposed(theta, z):
            matrix = torch.diag(torch.stack([theta["mean"], theta["scale"]]))
            return torch.linalg.cholesky(matrix) @ z

        one = gb.TorchSimulator(decomposed, NORMAL.expand([2]).to_event(1))
        assert np.isfinite(one.simulate(jax.random.key(0), THETA, 3)).all()
        assert np.isnan(one.simulate(jax.random.key(0), {**THETA, "mean": -1.0}, 3)).all()
        slope = jax.grad(lambda t: jnp.sum(one.simulate(jax.random.key(0), t, 3)))
        assert np.isnan(slope({"mean": -1.0, "scale": 1.0})["scale"])

    def test_an_error_of_the_function_is_told(self, caplog):
        def choosy(theta, z):
            if theta["mean"].detach() > 1:
                raise ArithmeticError("too hot")
            return theta["mean"] + z

        one = gb.TorchSimulator(choosy, NORMAL)
        one.simulate(jax.random.key(0), {"mean": 0.0}, 2)
        with pytest.raises((RuntimeError, ValueError), match="ArithmeticError: too hot"):
            one.simulate(jax.random.key(0), {"mean": 2.0}, 2)
        assert "pure_callback failed" in caplog.text

    def test_gradients_of_an_unused_parameter_are_zero(self):
        one = gb.TorchSimulator(lambda theta, z: theta["mean"] + z, NORMAL)
        one.simulate(jax.random.key(0), THETA, 1)
        found = jax.grad(lambda t: jnp.sum(one.simulate(jax.random.key(0), t, 3)))(THETA)
        assert (float(found["mean"]), float(found["scale"])) == (3.0, 0.0)


@pytest.mark.parametrize(
    ("fn", "options", "match"),
    [
        (lambda t, z: t["mean"].tolist(), {}, "must return one tensor, got float: torch.stack"),
        (lambda t, z: (t["mean"] > z).long(), {}, r"returns torch.int64 values.*gb.BlackBox"),
        (lambda t, z: t["mean"].detach() + z, {}, r"cannot differentiate.*\['mean', 'scale'\]"),
        (lambda t, z: z, {}, "does not depend on them. A simulator without derivatives"),
        (
            lambda t, z: t["mean"] * torch.ones(3),
            {"vectorized": True},
            r"two rows it gave a tensor of shape \(3,\), whose first axis should have length 2",
        ),
        (lambda t, z: t["mu"] + z, {}, r"KeyError: 'mu'.*names \['mean', 'scale'\]"),
        (lambda t, z: t["mean"] + z * torch.ones(2), {}, r"has shape \(2,\), an observation has"),
    ],
    ids=["a number", "integers", "detached", "noise alone", "not vectorized", "name", "shape"],
)
def test_functions_that_do_not_fit_are_refused(fn, options, match):
    with pytest.raises(ValueError, match=match):
        target(gb.TorchSimulator(fn, NORMAL, **options))


class TestRefusals:
    def test_what_is_no_simulator(self):
        with pytest.raises(TypeError, match=r"needs a function fn\(theta, noise\), got int"):
            gb.TorchSimulator(3)
        with pytest.raises(
            TypeError, match=r"fn\(theta, generator\) gets a torch.Generator\); got"
        ):
            gb.TorchSimulator(in_torch, 1.0)

    def test_vectorized_without_noise(self):
        with pytest.raises(ValueError, match="vectorized=True needs the noise as a distribution"):
            gb.TorchSimulator(in_torch, vectorized=True)

    def test_noise_in_several_arrays(self):
        one = gb.TorchSimulator(in_torch, lambda key: {"z": jax.random.normal(key)})
        with pytest.raises(TypeError, match="must be one array per draw, got dict"):
            one.simulate(jax.random.key(0), THETA, 2)

    def test_a_compiled_program_before_any_draw(self):
        one = gb.TorchSimulator(in_torch, NORMAL)
        with pytest.raises(ValueError, match="not known yet: make a Problem of it, or call"):
            eqx.filter_jit(one.simulate)(jax.random.key(0), THETA, 2)

    def test_forward_mode(self):
        with pytest.raises(
            ValueError, match="TorchSimulator has derivatives in reverse mode alone"
        ):
            target(KINDS["mapped"], gradient="forward")

    def test_several_devices(self, monkeypatch):
        monkeypatch.setattr(jax, "device_count", lambda: 2)
        with pytest.raises(ValueError, match=r'can hang where several devices.*Use "vectorized"'):
            gb.sample(
                target(KINDS["mapped"]), gb.PseudoMarginal(0.5), num_samples=5, num_chains=2,
                chain_method="parallel",
            )  # fmt: skip

    def test_no_pytorch(self, monkeypatch):
        real = builtins.__import__

        def without(name, *args, **kwargs):
            if name == "torch":
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(ImportError, match=r"pip install 'genbayes\[torch\]'"):
            gb.TorchSimulator(in_torch, NORMAL)
