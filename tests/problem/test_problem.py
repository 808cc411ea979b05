"""Problems and simulators: explicit noise, and misfits found before anything is compiled."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import genbayes as gb

PRIOR = gb.Prior(mean=dist.Normal(0.0, 1.0), scale=dist.HalfNormal(1.0))
Y = np.array([0.1, 1.2, 0.7])


def scalar(theta, z):
    return theta["mean"] + theta["scale"] * z


def simulator(fn=scalar, **options) -> gb.Simulator:
    return gb.Simulator(fn, **{"noise": dist.Normal(0.0, 1.0)} | options)


class TestNoise:
    THETA = {"mean": 2.0, "scale": 0.5}  # noqa: RUF012

    def test_a_distribution_a_function_and_a_key_are_all_noise(self):
        def from_key(theta, key):
            return theta["mean"] + theta["scale"] * jax.random.normal(key)

        kinds = [
            simulator(),
            simulator(noise=jax.random.normal),
            gb.Simulator(from_key),
        ]
        for one in kinds:
            draws = one.simulate(jax.random.key(0), self.THETA, 2000)
            assert draws.shape == (2000,)
            assert abs(float(jnp.mean(draws)) - 2.0) < 5 * 0.5 / 2000**0.5
            assert abs(float(jnp.std(draws)) - 0.5) < 5 * 0.5 / 4000**0.5

    def test_the_same_noise_gives_the_same_draws(self):
        one = simulator()
        noise = one.draw_noise(jax.random.key(0), 5)
        assert noise.shape == (5,)
        np.testing.assert_allclose(one.simulate_from(self.THETA, noise), 2.0 + 0.5 * noise)
        np.testing.assert_array_equal(
            one.simulate(jax.random.key(3), self.THETA, 5),
            one.simulate(jax.random.key(3), self.THETA, 5),
        )

    def test_rows_are_independent(self):
        z = np.asarray(simulator().draw_noise(jax.random.key(0), 1000))
        assert len(np.unique(z)) == 1000
        assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 4 / 1000**0.5

    def test_the_shape_of_the_noise_changes_no_number(self):
        """Noise of one law is drawn along one axis; other noise is left as it is."""
        key = jax.random.key(1)
        for noise in (dist.Normal(1.0, 2.0).expand((2, 3)).to_event(2),
                      dist.Uniform(0.0, 1.0).expand((4,)),
                      dist.Normal(jnp.arange(3.0), 1.0).to_event(1)):  # fmt: skip
            with jax.numpy_rank_promotion("allow"):  # NumPyro's own
                found, plain = simulator(noise=noise).draw_noise(key, 5), noise.sample(key, (5,))
            np.testing.assert_array_equal(found, plain)

    def test_a_model_that_makes_all_draws_at_once_is_asked_for_them(self):
        class Model:
            def __call__(self, theta, z):
                return theta["mean"] + z

            def many(self, theta, noise):
                return theta["mean"] + noise + 100.0

        found = simulator(Model()).simulate(jax.random.key(0), {"mean": 0.0}, 4)
        assert np.all(np.asarray(found) > 50.0)

    def test_features_are_summaries_flattened(self):
        def two(theta, z):
            return jnp.full((2, 3), theta["mean"]) * z

        draws = simulator(two).simulate(jax.random.key(0), {"mean": 1.0}, 4)
        assert draws.shape == (4, 2, 3)
        assert simulator(two).features(draws).shape == (4, 6)
        summed = simulator(two, summary=lambda x: jnp.sum(x, axis=1))
        np.testing.assert_allclose(summed.features(draws), jnp.sum(draws, axis=2), rtol=1e-6)

    def test_num_must_count(self):
        with pytest.raises(ValueError, match="num must be at least 1, got 0"):
            simulator().simulate(jax.random.key(0), self.THETA, 0)

    @pytest.mark.parametrize(
        ("fn", "noise", "match"),
        [
            (3, None, r"needs a function fn\(theta, noise\), got int"),
            (scalar, 1.0, "noise must be a NumPyro distribution, a function of a key.*got float"),
        ],
    )
    def test_what_is_no_simulator_is_refused(self, fn, noise, match):
        with pytest.raises(TypeError, match=match):
            gb.Simulator(fn, noise=noise)


class TestFits:
    def test_observations_may_be_lists_and_integers(self):
        problem = gb.Problem(PRIOR, simulator(), [0, 1, 2])
        assert problem.num_observations == 3
        assert problem.observations.dtype == jnp.zeros(()).dtype
        assert problem.features().shape == (3, 1)

    def test_summaries_apply_to_the_observations_too(self):
        def vector(theta, z):
            return theta["mean"] + theta["scale"] * z * jnp.arange(4.0)

        one = simulator(vector, summary=lambda x: x[:2])
        assert gb.Problem(PRIOR, one, np.zeros((5, 4))).features().shape == (5, 2)

    def test_nothing_is_run_or_compiled(self):
        ran = []

        def noisy(theta, z):
            jax.debug.callback(lambda: ran.append(1))
            return scalar(theta, z)

        gb.Problem(PRIOR, simulator(noisy), Y)
        jax.effects_barrier()
        assert ran == []

    @pytest.mark.parametrize(
        "fn",
        [
            lambda theta, z: theta.get("mean") + theta["scale"] * z,
            lambda theta, z: sum(theta.values()) * z,
            lambda theta, z: (lambda mean, scale: mean + scale * z)(**theta),
            lambda theta, z: sum(jax.tree.leaves(theta)) * z,
            lambda theta, z: jax.jit(scalar)(theta, z),
            lambda theta, z: sum(theta[name] for name in theta) * z,
        ],
        ids=["get", "values", "unpacked", "tree", "jit", "iterated"],
    )
    def test_every_way_to_read_the_parameters_counts(self, fn):
        assert gb.Problem(PRIOR, simulator(fn), Y).num_observations == 3

    def test_a_problem_passes_through_jax(self):
        problem = gb.Problem(PRIOR, simulator(), Y)
        arrays, rest = eqx.partition(problem, eqx.is_array)
        np.testing.assert_array_equal(eqx.combine(arrays, rest).observations, problem.observations)


@pytest.mark.parametrize(
    ("observations", "error", "match"),
    [
        (np.array([0.1, np.nan, 2.0, np.nan]), ValueError, "2 values that are not finite.*row 1"),
        (np.array([np.inf]), ValueError, r"1 values that are not finite \(NaN or infinity\)"),
        (np.zeros(0), ValueError, r"no rows: shape \(0,\)"),
        (np.zeros((0, 3)), ValueError, r"no rows: shape \(0, 3\)"),
        (1.5, ValueError, r"got a single number. For one scalar observation give \[1.5\]"),
        ("data", TypeError, "must be an array of numbers"),
        ([[1.0], [2.0, 3.0]], TypeError, "must be an array of numbers"),
        (np.zeros((3, 2)), ValueError, r"has shape \(\), an observation has shape \(2,\)"),
        (np.zeros((3, 1)), ValueError, r"Drop the last axis: observations\[..., 0\]"),
    ],
)
def test_bad_observations_are_refused(observations, error, match):
    with pytest.raises(error, match=match):
        gb.Problem(PRIOR, simulator(), observations)


def vector_of(n: int):
    return lambda theta, z: theta["mean"] + theta["scale"] * z * jnp.ones(n)


@pytest.mark.parametrize(
    ("fn", "error", "match"),
    [
        (vector_of(3), ValueError, r"observations\[None\]; if each row is one"),
        (vector_of(1), ValueError, r"Let the simulator return x\[..., 0\]"),
        (vector_of(2), ValueError, "Give observations with one row per draw of the simulator"),
        (
            lambda theta, z: (scalar(theta, z) > 0).astype(int),
            TypeError,
            "returns int32 values; scores need floating-point numbers",
        ),
        (lambda theta, z: scalar(theta, z) > 0, TypeError, "returns bool values"),
        (
            lambda theta, z: (scalar(theta, z), z),
            TypeError,
            "must return one array per draw, got tuple",
        ),
        (lambda theta, z: {"x": scalar(theta, z)}, TypeError, "one array per draw, got dict"),
        (
            lambda theta, z: theta["mu"] + z,
            ValueError,
            r"KeyError: 'mu'.*names \['mean', 'scale'\]",
        ),
        (lambda theta, z: theta[0] + z, ValueError, "KeyError: 0.*theta a mapping"),
        (
            lambda theta, z: theta["mean"] + theta["scale"] * np.sort(z),
            ValueError,
            "TracerArrayConversionError, as JAX compiles it.*jax.numpy for numpy.*to BlackBox",
        ),
        (
            lambda theta, z: theta["mean"] if theta["scale"] > 1 else z,
            ValueError,
            "TracerBoolConversionError.*jnp.where for if",
        ),
        (lambda theta: theta["mean"], ValueError, r"TypeError.*called as fn\(theta, noise\)"),
        (lambda theta, z: theta["mean"] + z, ValueError, r"never reads the parameters \['scale'\]"),
        (lambda theta, z: z, ValueError, r"never reads the parameters \['mean', 'scale'\]"),
    ],
    ids=[
        "a data set a draw", "extra axis", "other length", "integers", "booleans", "tuple", "dict",
        "unknown name", "index", "numpy", "branch", "one argument", "one name unread",
        "no name read",
    ],
)  # fmt: skip
def test_simulators_that_do_not_fit_are_refused(fn, error, match):
    with pytest.raises(error, match=match):
        gb.Problem(PRIOR, simulator(fn), Y)


@pytest.mark.parametrize(
    ("prior", "one", "match"),
    [
        ({"mean": dist.Normal(0, 1)}, simulator(), "prior must be a genbayes.Prior, got dict"),
        (PRIOR, scalar, r"got function: wrap a function as Simulator\(fn, noise=...\)"),
    ],
)
def test_what_is_no_prior_or_simulator_is_refused(prior, one, match):
    with pytest.raises(TypeError, match=match):
        gb.Problem(prior, one, Y)
