"""The estimated posterior: values by brute force, gradients, batches, failure, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.special import expit
from tests.support import exact
from tests.support.problems import (
    OBSERVATIONS,
    NormalLogScore,
    PlainEnergy,
    location_problem,
    location_scale_problem,
)

import genbayes as gb
from genbayes.kernels import Gaussian
from genbayes.scores import KernelScore
from genbayes.targets._gradient import gradient_mode

BANDWIDTH = 1.2


# -- the same in NumPy, by double loops over pairs


def numpy_energy(x: np.ndarray, y: np.ndarray) -> float:
    m = len(x)
    cross = sum(np.linalg.norm(a - b) for a in x for b in y)
    within = sum(np.linalg.norm(x[j] - x[k]) for j in range(m) for k in range(m) if j != k)
    return 2 / m * cross - len(y) * within / (m * (m - 1))


def numpy_kernel(x: np.ndarray, y: np.ndarray) -> float:
    def k(a, b):
        return np.exp(-np.sum((a - b) ** 2) / (2 * BANDWIDTH**2))

    m = len(x)
    within = sum(k(x[i], x[j]) for i in range(m) for j in range(m) if i != j)
    cross = sum(k(a, b) for a in x for b in y)
    return len(y) * within / (m * (m - 1)) - 2 / m * cross


def numpy_g_and_k(theta: dict[str, float], z: np.ndarray) -> np.ndarray:
    skew = 1 + 0.8 * (1 - np.exp(-theta["g"] * z)) / (1 + np.exp(-theta["g"] * z))
    return theta["A"] + theta["B"] * skew * (1 + z**2) ** theta["k"] * z


def location_scale_in_numpy(u: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Log prior with its Jacobian, and the draws: the scale is the exponential of u."""
    mean, scale = u[0], np.exp(u[1])
    prior = stats.norm(0, 2).logpdf(mean) + stats.halfnorm(scale=2).logpdf(scale) + u[1]
    return prior, (mean + scale * z)[:, None]


def univariate_in_numpy(u: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Uniform on [0, 4]: density 1/4 each, Jacobian 4 s (1 - s) of the scaled logistic map."""
    s = expit(u)
    theta = dict(zip("ABgk", 4 * s, strict=True))
    prior = np.sum(np.log(1 / 4) + np.log(4 * s * (1 - s)))
    return prior, numpy_g_and_k(theta, z)[:, None]


def multivariate_in_numpy(u: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
    s = expit(u)
    limit = np.sqrt(3) / 3
    theta = dict(zip("ABgk", 4 * s[:4], strict=True))
    rho = -limit + 2 * limit * s[4]
    covariance = np.eye(5) + rho * (np.eye(5, k=1) + np.eye(5, k=-1))
    prior = np.sum(np.log(s * (1 - s)))  # the widths cancel
    return prior, numpy_g_and_k(theta, z @ np.linalg.cholesky(covariance).T)


VECTORS = 3 + np.random.default_rng(0).normal(size=(4, 5))
MODELS = {
    "location and scale": (location_scale_problem, location_scale_in_numpy),
    "univariate g-and-k": (
        lambda: gb.tasks.g_and_k.univariate().problem(OBSERVATIONS),
        univariate_in_numpy,
    ),
    "multivariate g-and-k": (
        lambda: gb.tasks.g_and_k.multivariate().problem(VECTORS),
        multivariate_in_numpy,
    ),
}
SCORES = {
    "energy": (gb.EnergyScore, numpy_energy),
    "kernel": (lambda: KernelScore(Gaussian(BANDWIDTH)), numpy_kernel),
}

every_model = pytest.mark.parametrize("model", MODELS)
every_score = pytest.mark.parametrize("score", SCORES)


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


def make(model: str, score: str, **options) -> gb.ScorePosterior:
    options = {"num_simulations": 9, "weight": 0.7} | options
    return gb.ScorePosterior(MODELS[model][0](), SCORES[score][0](), **options)


def point(target: gb.ScorePosterior) -> jax.Array:
    return jnp.asarray(np.linspace(-0.4, 0.5, target.size))


@pytest.mark.usefixtures("double")
class TestValuesAndGradients:
    @every_model
    @every_score
    def test_the_log_density_is_that_of_brute_force(self, model, score):
        target = make(model, score)
        noise, u = target.draw_noise(jax.random.key(3)), point(target)
        prior, draws = MODELS[model][1](np.asarray(u), np.asarray(noise.simulator))
        y = np.asarray(target.problem.observations).reshape(-1, draws.shape[1])
        expected = prior - 0.7 * SCORES[score][1](draws, y)
        found = eqx.filter_jit(target.log_density)(u, noise)
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    @every_model
    @every_score
    def test_gradients_are_finite_differences_of_the_held_noise(self, model, score):
        target = make(model, score)
        noise, u = target.draw_noise(jax.random.key(3)), np.asarray(point(target))
        step, value = 1e-6, eqx.filter_jit(target.log_density)
        differences = [
            (value(u + step * e, noise) - value(u - step * e, noise)) / (2 * step)
            for e in np.eye(target.size)
        ]
        found, grad = target.value_and_grad(jnp.asarray(u), noise)
        np.testing.assert_allclose(grad, differences, rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(found, value(u, noise), rtol=1e-12)
        np.testing.assert_array_equal(grad, target.grad(jnp.asarray(u), noise))

    @every_model
    @every_score
    def test_forward_and_reverse_mode_agree(self, model, score):
        forward, reverse = (make(model, score, gradient=mode) for mode in ("forward", "reverse"))
        noise, u = forward.draw_noise(jax.random.key(3)), point(forward)
        for a, b in zip(
            forward.value_and_grad(u, noise), reverse.value_and_grad(u, noise), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-9)


@every_model
@every_score
def test_single_precision_agrees_with_double(model, score):
    def evaluate():
        value_and_grad = eqx.filter_jit(make(model, score).value_and_grad)
        return value_and_grad(
            jnp.asarray(u, float), noise._replace(simulator=jnp.asarray(z, float))
        )

    target = make(model, score)
    u, noise = np.asarray(point(target)), target.draw_noise(jax.random.key(3))
    z = np.asarray(noise.simulator)
    single = evaluate()
    with jax.enable_x64(True):
        double = evaluate()
    assert single[0].dtype == np.float32
    assert double[0].dtype == np.float64
    np.testing.assert_allclose(single[0], double[0], rtol=1e-5)
    largest = np.max(np.abs(double[1]))
    np.testing.assert_allclose(single[1], double[1], rtol=1e-3, atol=1e-3 * largest)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("num_simulations", [8, 37])
def test_gradients_within_one_program_are_finite_differences(num_simulations):
    """Compiled with what makes the draws, a draw must not be compared with another rounding."""
    target = gb.ScorePosterior(
        location_scale_problem(), gb.EnergyScore(), num_simulations=num_simulations
    )
    u, keys = jnp.array([0.3, -0.2]), jax.random.split(jax.random.key(1), 2000)
    whole = jax.jit(jax.vmap(lambda key: target.value_and_grad(u, target.draw_noise(key))))
    gradients = whole(keys)[1]

    @jax.jit
    @jax.vmap
    def values(key):
        noise = target.draw_noise(key)
        at = [u + step * e for e in jnp.eye(2) for step in STEPS]
        return jnp.stack([target.log_density(v, noise) for v in at])

    found = values(keys)
    differences = (found[:, 1::2] - found[:, ::2]) / (STEPS[1] - STEPS[0])
    np.testing.assert_allclose(gradients, differences, rtol=1e-5, atol=1e-5)


STEPS = (-1e-6, 1e-6)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("score", SCORES)
def test_gradients_are_unbiased_for_the_closed_form(score):
    """The mean over noise of the gradient is the gradient of the expected score (z-test)."""
    target = gb.ScorePosterior(
        location_scale_problem(), SCORES[score][0](), weight=0.7, num_simulations=8
    )
    expected = {
        "energy": exact.expected_energy(OBSERVATIONS),
        "kernel": exact.expected_kernel(OBSERVATIONS, BANDWIDTH),
    }[score]
    u = np.array([0.3, -0.2])

    def log_density(u):
        prior, _ = location_scale_in_numpy(u, np.zeros(1))
        return prior - 0.7 * expected(np.asarray(u[0]), np.exp(u[1]))

    exact_gradient = [
        (log_density(u + 1e-5 * e) - log_density(u - 1e-5 * e)) / 2e-5 for e in np.eye(2)
    ]
    keys = jax.random.split(jax.random.key(0), 20_000)
    both = jax.jit(jax.vmap(lambda k: target.value_and_grad(jnp.asarray(u), target.draw_noise(k))))
    values, grads = (np.asarray(x) for x in both(keys))
    for found, known in ((grads, exact_gradient), (values, log_density(u))):
        z = (found.mean(axis=0) - known) / (found.std(axis=0) / np.sqrt(len(keys)))
        assert np.all(np.abs(z) < 4), z


class TestGradientMode:
    def mode(self, fn, size: int) -> str:
        prior = gb.Prior(a=dist.Normal(jnp.zeros(size), 1.0))
        problem = gb.Problem(prior, gb.Simulator(fn, noise=dist.Normal(0, 1)), OBSERVATIONS)
        target = gb.ScorePosterior(problem, PlainEnergy(), num_simulations=4)
        return gradient_mode(target, jnp.zeros(size), target.draw_noise(jax.random.key(0)))

    def straight(self, theta, z):
        return jnp.sum(theta["a"]) + z

    def looping(self, theta, z):
        return jax.lax.scan(lambda x, _: (0.5 * x + theta["a"][0], None), z, None, length=9)[0]

    def test_a_long_simulation_of_few_parameters_goes_forward(self):
        assert self.mode(self.looping, 2) == "forward"

    def test_many_parameters_go_in_reverse(self):
        assert self.mode(self.looping, 20) == "reverse"

    def test_a_simulation_without_a_loop_goes_in_reverse(self):
        assert self.mode(self.straight, 2) == "reverse"

    @pytest.mark.usefixtures("double")
    def test_auto_gives_the_same_gradient_through_a_loop(self):
        prior = gb.Prior(a=dist.Normal(jnp.zeros(2), 1.0))
        simulator = gb.Simulator(self.looping, noise=dist.Normal(0, 1))
        problem = gb.Problem(prior, simulator, OBSERVATIONS)
        targets = [
            gb.ScorePosterior(problem, PlainEnergy(), num_simulations=4, gradient=mode)
            for mode in ("auto", "reverse")
        ]
        noise = targets[0].draw_noise(jax.random.key(0))
        auto, reverse = (eqx.filter_jit(t.grad)(jnp.ones(2), noise) for t in targets)
        np.testing.assert_allclose(auto, reverse, rtol=1e-12)


@pytest.mark.usefixtures("double")
class TestBatches:
    def test_all_batches_of_one_average_to_the_whole(self):
        whole = make("location and scale", "energy")
        single = make("location and scale", "energy", batch_size=1)
        noise, u = whole.draw_noise(jax.random.key(0)), point(whole)
        parts = [
            single.value_and_grad(u, noise._replace(rows=jnp.array([i])))
            for i in range(len(OBSERVATIONS))
        ]
        value, grad = whole.value_and_grad(u, noise)
        np.testing.assert_allclose(np.mean([v for v, _ in parts]), value, rtol=1e-10)
        np.testing.assert_allclose(np.mean([g for _, g in parts], axis=0), grad, rtol=1e-8)

    def test_rows_are_drawn_alike_and_never_twice(self):
        target = make("location and scale", "energy", batch_size=3)
        keys = jax.random.split(jax.random.key(0), 3000)
        rows = np.asarray(jax.jit(jax.vmap(lambda key: target.draw_noise(key).rows))(keys))
        assert rows.shape == (3000, 3)
        assert all(len(set(row)) == 3 for row in rows.tolist())
        counts = np.bincount(rows.ravel(), minlength=10)
        assert stats.chisquare(counts).pvalue > 1e-4

    def test_a_batch_of_all_is_the_whole(self):
        whole = make("location and scale", "energy")
        batch = make("location and scale", "energy", batch_size=10)
        noise, u = batch.draw_noise(jax.random.key(0)), point(whole)
        np.testing.assert_allclose(
            batch.log_density(u, noise), whole.log_density(u, noise._replace(rows=None))
        )

    def test_a_refreshed_group_comes_with_fresh_rows(self):
        """Rows that stayed would make a correlated chain see one batch for ever."""
        target = make("location and scale", "energy", batch_size=3)
        noise = target.draw_noise(jax.random.key(0))
        keys = jax.random.split(jax.random.key(1), 2000)
        rows = jax.jit(jax.vmap(lambda key: target.refresh_group(key, noise, 3).rows))(keys)
        assert len({tuple(row) for row in np.sort(rows, axis=1).tolist()}) > 30


class TestFailure:
    """A draw that is not finite makes the estimate minus infinity, never NaN."""

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize(
        "score",
        [PlainEnergy(), gb.EnergyScore(), KernelScore(Gaussian(1.0))],
        ids=["plain", "energy", "kernel"],
    )
    @pytest.mark.parametrize("all_draws", [False, True], ids=["one draw", "all draws"])
    def test_draws_that_are_not_finite(self, bad, score, all_draws):
        def simulate(theta, z):
            spoilt = True if all_draws else z > 1.0
            return jnp.where(spoilt, bad, theta["mean"] + z)

        prior = gb.Prior(mean=dist.Normal(0.0, 1.0))
        problem = gb.Problem(prior, gb.Simulator(simulate, noise=dist.Normal(0, 1)), OBSERVATIONS)
        target = gb.ScorePosterior(problem, score, num_simulations=6)
        noise = target.draw_noise(jax.random.key(0))
        z = jnp.array([0.1, -0.3, 1.7, 0.2, 0.0, -1.0])
        assert target.log_density(jnp.zeros(1), noise._replace(simulator=z)) == -jnp.inf
        fine = noise._replace(simulator=jnp.minimum(z, 0.5))
        assert bool(jnp.isfinite(target.log_density(jnp.zeros(1), fine))) == (not all_draws)

    def test_weight_zero_does_not_hide_it(self):
        prior = gb.Prior(mean=dist.Normal(0.0, 1.0))
        simulator = gb.Simulator(lambda t, z: t["mean"] + z * jnp.inf, noise=dist.Normal(0, 1))
        target = gb.ScorePosterior(
            gb.Problem(prior, simulator, OBSERVATIONS), PlainEnergy(), weight=0.0
        )
        noise = target.draw_noise(jax.random.key(0))
        assert target.log_density(jnp.zeros(1), noise) == -jnp.inf

    @pytest.mark.parametrize("far", [jnp.inf, -jnp.inf, jnp.nan])
    def test_a_point_at_infinity(self, far):
        target = make("location and scale", "energy")
        noise = target.draw_noise(jax.random.key(0))
        # compiled, as samplers do: NumPyro warns of such values when it can see them
        assert eqx.filter_jit(target.log_density)(jnp.full(2, far), noise) == -jnp.inf


def test_weight_zero_is_the_prior():
    target = make("location and scale", "energy", weight=0.0)
    noise, u = target.draw_noise(jax.random.key(0)), point(target)
    prior = target.problem.prior.log_prob_unconstrained(u)
    np.testing.assert_allclose(target.log_density(u, noise), prior, rtol=1e-6)


def test_the_weight_multiplies_the_sum():
    light, heavy = (make("location and scale", "energy", weight=w) for w in (1.0, 2.5))
    noise, u = light.draw_noise(jax.random.key(0)), point(light)
    prior = light.problem.prior.log_prob_unconstrained(u)
    ratio = (heavy.log_density(u, noise) - prior) / (light.log_density(u, noise) - prior)
    np.testing.assert_allclose(ratio, 2.5, rtol=1e-4)


class TestFrozen:
    """A log density of u alone, which other packages compile and differentiate as they like."""

    def test_it_is_the_target_at_one_noise(self):
        target = make("location and scale", "energy")
        noise, u = target.draw_noise(jax.random.key(0)), point(target)
        frozen = target.freeze(noise)
        np.testing.assert_allclose(frozen(u), target.log_density(u, noise), rtol=1e-6)
        value, grad = jax.jit(jax.value_and_grad(frozen))(u)
        known, known_grad = target.value_and_grad(u, noise)
        np.testing.assert_allclose(value, known, rtol=1e-5)
        np.testing.assert_allclose(grad, known_grad, rtol=1e-4, atol=1e-4)
        other = target.freeze(target.draw_noise(jax.random.key(1)))
        assert other(u) != frozen(u)


class TestExactScores:
    def test_they_need_no_simulations(self):
        problem = gb.Problem(location_scale_problem().prior, None, OBSERVATIONS)
        target = gb.ScorePosterior(problem, NormalLogScore(), weight=0.5)
        assert target.is_exact
        assert target.simulations_per_estimate == 0
        u = np.array([0.3, -0.2])
        prior, _ = location_scale_in_numpy(u, np.zeros(1))
        expected = prior + 0.5 * stats.norm(u[0], np.exp(u[1])).logpdf(OBSERVATIONS).sum()
        noise = target.draw_noise(jax.random.key(0))
        np.testing.assert_allclose(target.log_density(jnp.asarray(u), noise), expected, rtol=1e-5)


PROBLEM = location_problem()


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"weight": -1.0}, ValueError, "weight must be a finite number, 0 or above, got -1.0"),
        ({"weight": float("nan")}, ValueError, "weight must be a finite number, 0 or above"),
        ({"weight": float("inf")}, ValueError, "weight must be a finite number, 0 or above"),
        ({"weight": "1"}, TypeError, r"weight must be a number, got '1' \(str\)"),
        ({"weight": None}, TypeError, "weight must be a number, got None"),
        ({"weight": np.ones(3)}, TypeError, r"weight must be a single number, .* shape \(3,\)"),
        ({"num_simulations": 1}, ValueError, "num_simulations must be at least 2, got 1"),
        ({"num_simulations": 0}, ValueError, "PlainEnergy is estimated from that many draws"),
        ({"num_simulations": 50.0}, TypeError, "num_simulations must be a whole number, got 50.0"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        ({"batch_size": 11}, ValueError, r"at most the number of observations \(10\), got 11"),
        ({"batch_size": 2.0}, TypeError, "batch_size must be a whole number"),
        ({"gradient": "sideways"}, ValueError, "gradient must be one of 'auto', 'forward'"),
        ({"problem": "problem"}, TypeError, "problem must be a genbayes.Problem, got str"),
        (
            {"score": PlainEnergy},
            TypeError,
            r"got the class PlainEnergy itself: write PlainEnergy\(",
        ),
        ({"score": "energy"}, TypeError, "must be a scoring rule such as EnergyScore.*got str"),
        (
            {"problem": gb.Problem(PROBLEM.prior, None, OBSERVATIONS)},
            ValueError,
            "PlainEnergy is estimated from draws, and the problem has no simulator",
        ),
    ],
    ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else "",
)
def test_bad_input_is_refused(options, error, match):
    settings = {"problem": PROBLEM, "score": PlainEnergy()} | options
    with pytest.raises(error, match=match):
        gb.ScorePosterior(settings.pop("problem"), settings.pop("score"), **settings)
