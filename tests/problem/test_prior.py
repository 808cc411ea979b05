"""The prior: the map to unconstrained space, its Jacobian, names, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.support.problems import every_kind_of_prior

import genbayes as gb

# a distribution for each kind of support, and the number of its unconstrained coordinates
DISTRIBUTIONS = {
    "unbounded": (lambda: dist.Normal(1.0, 2.0), 1),
    "heavy tails": (lambda: dist.StudentT(3.0, 0.0, 1.0), 1),
    "half-bounded": (lambda: dist.Gamma(3.0, 2.0), 1),
    "half-normal": (lambda: dist.HalfNormal(2.0), 1),
    "shifted half-bounded": (lambda: dist.Pareto(1.5, 3.0), 1),
    "unit interval": (lambda: dist.Beta(2.0, 3.0), 1),
    "bounded": (lambda: dist.Uniform(-2.0, 5.0), 1),
    "truncated": (lambda: dist.TruncatedNormal(0.0, 1.0, low=-1.0, high=2.0), 1),
    "independent vector": (lambda: dist.Uniform(jnp.zeros(3), jnp.array([1.0, 2.0, 3.0])), 3),
    "correlated vector": (
        lambda: dist.MultivariateNormal(jnp.zeros(2), jnp.array([[1.0, 0.5], [0.5, 2.0]])),
        2,
    ),
    "simplex": (lambda: dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])), 2),
    "matrix of weights": (lambda: dist.Normal(0.0, 3.0).expand((2, 3)).to_event(2), 6),
    "correlation factor": (lambda: dist.LKJCholesky(3, 2.0), 3),
}

every_distribution = pytest.mark.parametrize("kind", DISTRIBUTIONS)


@pytest.fixture
def prior(kind) -> gb.Prior:
    return gb.Prior(x=DISTRIBUTIONS[kind][0]())


@every_distribution
def test_draws_go_to_unconstrained_space_and_back(kind, prior, precision):
    tolerance = 1e-8 if precision == 64 else 2e-3
    prior = gb.Prior(x=DISTRIBUTIONS[kind][0]())  # in this precision
    for seed in range(5):
        theta = prior.sample(jax.random.key(seed))
        u = prior.unconstrain(theta)
        assert u.shape == (prior.size,)
        assert u.dtype == jnp.zeros(()).dtype
        back = prior.constrain(u)
        np.testing.assert_allclose(back["x"], theta["x"], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(prior.unconstrain(back), u, rtol=tolerance, atol=tolerance)
    assert prior.size == DISTRIBUTIONS[kind][1]


def free_coordinates(kind: str, x: jax.Array) -> jax.Array:
    """As many coordinates as the support has dimensions: a density is meant in these."""
    if kind == "simplex":
        return x[:-1]
    if kind == "correlation factor":
        return jnp.stack([x[1, 0], x[2, 0], x[2, 1]])
    return jnp.ravel(x)


@every_distribution
def test_the_log_jacobian_is_that_of_autodiff(kind):
    with jax.enable_x64(True):
        prior = gb.Prior(x=DISTRIBUTIONS[kind][0]())
        for seed in range(3):
            u = jax.random.normal(jax.random.key(seed), (prior.size,))
            jacobian = jax.jacobian(lambda v: free_coordinates(kind, prior.constrain(v)["x"]))(u)
            expected = prior.log_prob(prior.constrain(u)) + jnp.linalg.slogdet(jacobian)[1]
            np.testing.assert_allclose(prior.log_prob_unconstrained(u), expected, rtol=1e-8)


@pytest.mark.parametrize("kind", [k for k, (_, size) in DISTRIBUTIONS.items() if size == 1])
def test_the_unconstrained_density_integrates_to_one(kind):
    with jax.enable_x64(True):
        prior = gb.Prior(x=DISTRIBUTIONS[kind][0]())
        u = jnp.linspace(-60, 60, 24_001)
        density = jnp.exp(jax.vmap(lambda v: prior.log_prob_unconstrained(v[None]))(u))
        at_most = 0.003 if kind == "heavy tails" else 1e-6
        assert abs(float(jnp.sum(density) * (u[1] - u[0])) - 1) < at_most


@settings(max_examples=40, deadline=None)
@given(
    low=st.floats(-1e3, 1e3), width=st.floats(1e-3, 1e3), share=st.floats(0.01, 0.99)
)  # fmt: skip
def test_any_interval_maps_back_and_forth(low, width, share):
    with jax.enable_x64(True):
        prior = gb.Prior(x=dist.Uniform(low, low + width))
        x = low + share * width
        u = prior.unconstrain({"x": x})
        np.testing.assert_allclose(prior.constrain(u)["x"], x, rtol=1e-9, atol=1e-9 * width)
        s = stats.logistic.cdf(np.asarray(u))
        np.testing.assert_allclose(s, share, rtol=1e-6)
        np.testing.assert_allclose(
            prior.log_prob_unconstrained(u), np.log(s * (1 - s))[0], rtol=1e-6, atol=1e-9
        )


class TestNames:
    def test_parameters_keep_their_order_and_shapes(self):
        prior = every_kind_of_prior()
        assert prior.names == ("free", "positive", "bounded", "shares", "vector")
        assert prior.shapes["shares"] == (3,)
        assert prior.size == 1 + 1 + 1 + 2 + 2
        with jax.numpy_rank_promotion("allow"):  # NumPyro's own normal vector needs it
            theta = prior.sample(jax.random.key(0), 7)
        assert {n: x.shape for n, x in theta.items()} == {
            n: (7, *shape) for n, shape in prior.shapes.items()
        }

    def test_coordinates_are_labelled(self):
        assert every_kind_of_prior().coordinate_names == (
            "free", "positive", "bounded", "shares[0]", "shares[1]", "vector[0]", "vector[1]",
        )  # fmt: skip
        matrix = gb.Prior(w=dist.Normal(0, 1).expand((2, 2)).to_event(2), s=dist.Normal(0, 1))
        assert matrix.coordinate_names == ("w[0,0]", "w[0,1]", "w[1,0]", "w[1,1]", "s")

    def test_a_vector_of_one_keeps_its_index(self):
        assert gb.Prior(a=dist.Normal(jnp.zeros(1), 1.0)).coordinate_names == ("a[0]",)

    def test_mappings_keywords_and_single_distributions_are_alike(self):
        a, b = dist.Normal(0, 1), dist.HalfNormal(1.0)
        assert gb.Prior({"a": a, "b": b}).names == gb.Prior(a=a, b=b).names == ("a", "b")
        assert gb.Prior({"a": a}, b=b).names == ("a", "b")
        assert gb.Prior(dist.Normal(jnp.zeros(4), 1.0)).shapes == {"theta": (4,)}

    def test_it_describes_itself(self):
        described = every_kind_of_prior().describe()
        assert described["free"] == "Normal(loc=1.0, scale=2.0)"
        assert described["bounded"] == "Uniform(low=-1.0, high=3.0)"
        assert described["shares"].startswith("Dirichlet(concentration=[2.0, 3.0, 4.0])")


def test_the_log_density_sums_over_independent_parameters():
    prior = every_kind_of_prior()
    theta = prior.sample(jax.random.key(0))
    parts = [d.log_prob(theta[n]) for n, d in zip(prior.names, prior.distributions, strict=True)]
    np.testing.assert_allclose(prior.log_prob(theta), sum(float(p) for p in parts), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: gb.Prior(), ValueError, "needs at least one parameter"),
        (lambda: gb.Prior(A=3.0), TypeError, "prior of 'A' must be a NumPyro.*got float"),
        (lambda: gb.Prior(A=stats.norm()), TypeError, "must be a NumPyro distribution"),
        (lambda: gb.Prior(k=dist.Poisson(3.0)), ValueError, r"'k' is discrete \(Poisson\)"),
        (lambda: gb.Prior(k=dist.Bernoulli(0.3)), ValueError, "Parameters must be continuous"),
        (lambda: gb.Prior(A=dist.Uniform(4.0, 0.0)), ValueError, "low = 4.0, high = 0.0"),
        (lambda: gb.Prior(A=dist.Uniform(1.0, 1.0)), ValueError, "reversed or equal bounds"),
        (
            lambda: gb.Prior(A=dist.Uniform(jnp.zeros(2), jnp.array([1.0, -1.0]))),
            ValueError,
            "'A' has reversed or equal bounds",
        ),
        (
            lambda: gb.Prior(A=dist.TruncatedNormal(0.0, 1.0, low=2.0, high=-2.0)),
            ValueError,
            "'A' has reversed or equal bounds",
        ),
        (
            lambda: gb.Prior(A=dist.Uniform(jnp.array([1.0]), jnp.array([0.0])).to_event(1)),
            ValueError,
            "'A' has reversed or equal bounds",
        ),
        (lambda: gb.Prior(A=dist.Normal(0.0, -1.0)), ValueError, "scale"),
    ],
)
def test_bad_priors_are_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()
