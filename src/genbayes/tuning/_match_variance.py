"""Weight by a reference posterior: parameters as uncertain as they are there."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from .._checks import check_between, check_count
from .._table import Table
from .._types import Key
from ..problem import Prior, Problem
from ..runs import Run
from ..scores import AbstractScore
from ..targets import ScorePosterior
from ._cloud import LEAST_SHARE, REACH, Cloud, cloud_around
from ._prior_draws import as_key, check_problem, rng_of
from ._risk import Fit, fit
from ._weight import AbstractWeight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS = 200  # of the interval
CENTRED = 2.0  # a root further than this factor from the cloud's weight calls for a cloud there
MOST_CLOUDS = 5
APART = 1.25  # a ratio of sds that is worth words


@dataclass(frozen=True, eq=False)
class VarianceWeight(AbstractWeight):
    """The weight whose posterior is as wide as a reference posterior.

    - `names`, `sd`, `reference_sd`: of each scalar parameter, at the weight and in the reference.
    - `weights`, `ratios`: `(G,)` and `(G, p)`, the ratio of the sds at other weights.
    - `reliability`: effective share of the points at the weight.
    """

    names: tuple[str, ...]
    sd: np.ndarray
    reference_sd: np.ndarray
    weights: np.ndarray
    ratios: np.ndarray
    reliability: float

    @property
    def rule(self) -> str:
        """What the weight matches, in a few words."""
        return "variance of the reference posterior"

    @property
    def interval_of(self) -> str:
        """Which error the interval is for."""
        return (
            "the Monte Carlo error at most (bootstrap over points, which are more even than draws)"
        )

    @property
    def findings(self) -> tuple[str, ...]:
        """What there is to worry about, in words."""
        ratio = self.sd / self.reference_sd
        found = [
            f"{name}: its sd is {r:.2g} times that of the reference: no single weight matches all."
            for name, r in zip(self.names, ratio, strict=True)
            if abs(np.log(r)) > np.log(APART)
        ]
        if self.reliability < LEAST_SHARE:
            found.append(
                f"The effective share of the points is {self.reliability:.1%}: reweighting is not "
                "to be trusted here. Raise num_draws."
            )
        return tuple(found)

    def table(self) -> Table:
        """The weight with its interval, and by parameter both sds."""
        rows: list[tuple[Any, ...]] = [
            (name, float(a), float(b), float(a / b))
            for name, a, b in zip(self.names, self.sd, self.reference_sd, strict=True)
        ]
        low, high = self.interval
        title = f"Weight by {self.rule}: {self.value:.4g} (from {low:.4g} to {high:.4g})"
        return Table(("parameter", "sd", "reference sd", "ratio"), rows, title, self.notes())

    def plot(self) -> "Figure":
        """The ratio of sds against weight, a line for each parameter."""
        from .._figure import COLOURS, INK, axis_labels, legend, panels

        figure, (ax,) = panels(["sd over that of the reference"], 1, (5.0, 3.2))
        for j, (name, ratio) in enumerate(zip(self.names, self.ratios.T, strict=True)):
            ax.plot(self.weights, ratio, color=COLOURS[j % len(COLOURS)], label=name)
        ax.axhline(1.0, color=INK, linestyle="--", linewidth=1)
        ax.axvspan(*self.interval, color=INK, alpha=0.25, linewidth=0)
        ax.axvline(self.value, color=INK)
        ax.set_xscale("log")
        ax.set_yscale("log")
        axis_labels(ax, "weight", "ratio")
        legend(figure, ax)
        return figure


def match_variance(
    problem: Problem,
    score: AbstractScore,
    *,
    reference: ScorePosterior | Run,
    num_draws: int = 1500,
    num_simulations: int = 500,
    level: float = 0.95,
    seed: int | Key = 0,
) -> VarianceWeight:
    r"""The weight whose posterior is as wide as a reference posterior, such as that of Bayes.

    $$\prod_k \mathrm{Var}_w(\theta_k \mid y) = \prod_k \mathrm{Var}_{\rm ref}(\theta_k \mid y)$$

    The product is over scalar parameters, so their units do not matter. Posteriors at all weights
    are importance weights on one cloud of points: none is sampled.

    **Arguments:**

    - `reference`: a `ScorePosterior` with its weight (one with `LogScore` for standard Bayes), or
        a `Run`, with parameters of the same names. Give it clean data: a reference that outliers
        have moved is matched all the same.
    - `num_draws`: points of the cloud. `num_simulations`: held fixed (a Sobol set where the noise
        is known) through all of it.
    - `level`: of the interval. `seed`: a whole number or a key.

    It says how wide the posterior should be only if the reference does. It needs gradients, and few
    parameters (up to about six): the result says what share of the points is effective.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> bayes = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> half = gb.LogScore(lambda theta, y: -0.25 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=40)
    >>> reference = gb.ScorePosterior(problem, bayes)
    >>> round(gb.tuning.match_variance(problem, half, reference=reference).value, 1)
    2.0

    ```

    Reference: Pacchiardi, Khoo and Dutta, Generalized Bayesian Likelihood-Free Inference, on the
    normal location model; Bissiri, Holmes and Walker (2016), JRSS B 78, section 3.
    """
    begun = time.perf_counter()
    check_problem(problem)
    check_between("level", level, 0, 1)
    check_count("num_draws", num_draws, 100)
    key = as_key(seed)
    rng = rng_of(key)
    wanted = reference_variance(key, problem.prior, reference, num_draws, num_simulations, rng)
    found = fit(key, problem, score, num_simulations)
    return variance_of_reference(found, wanted, num_draws, level, rng, begun)


def variance_of_reference(
    fit: Fit, wanted: np.ndarray, num_draws: int, level: float, rng: np.random.Generator,
    begun: float,
) -> VarianceWeight:  # fmt: skip
    """The same from a fit and the variances that are wanted `(p,)`."""
    prior, calls, around = fit.risk.target.problem.prior, fit.calls, fit.guess

    def look() -> tuple[Cloud, np.ndarray, float, bool]:
        cloud = cloud_around(fit, around, num_draws, rng)
        x = scalars(prior, cloud.u)[1]
        return cloud, x, *_root(cloud, x, wanted, np.ones(len(x)))

    cloud, x, value, inside = look()
    calls += cloud.calls
    for _ in range(MOST_CLOUDS - 1):
        if inside and abs(np.log(value / around)) < np.log(CENTRED):
            break
        around = value
        cloud, x, value, inside = look()
        calls += cloud.calls
    if not inside:
        raise ValueError(
            f"No weight up to {value:.3g} gives the variance of the reference: "
            "the prior rules one of the two posteriors."
        )
    size = len(x)
    resampled = rng.multinomial(size, np.full(size, 1 / size), REPEATS)
    roots = [_root(cloud, x, wanted, row)[0] for row in resampled]
    low, high = np.quantile(roots, [(1 - level) / 2, (1 + level) / 2])
    weights = np.geomspace(value / REACH, value * REACH, 25)
    each = np.ones(size)
    ratios = np.stack([_variance(cloud, x, w, each) / wanted for w in weights])
    return VarianceWeight(
        value, (float(low), float(high)), level, calls, time.perf_counter() - begun,
        scalars(prior, fit.u[None])[0], np.sqrt(_variance(cloud, x, value, each)), np.sqrt(wanted),
        weights, np.sqrt(ratios), cloud.shares(value)[1],
    )  # fmt: skip


def scalars(prior: Prior, u: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and values `(N, p)` of all scalar parameters at points `(N, q)`."""
    theta = jax.vmap(prior.constrain)(jnp.asarray(u, float))
    names = [
        name if not shape else f"{name}[{','.join(map(str, index))}]"
        for name, shape in prior.shapes.items()
        for index in np.ndindex(*shape)
    ]
    return tuple(names), np.concatenate(
        [np.asarray(theta[name], float).reshape(len(u), -1) for name in prior.names], axis=1
    )


def _variance(cloud: Cloud, x: np.ndarray, weight: float, counts: np.ndarray) -> np.ndarray:
    share = cloud.shares(weight)[0] * counts
    share = share / share.sum()
    return share @ (x - share @ x) ** 2


def _root(
    cloud: Cloud, x: np.ndarray, wanted: np.ndarray, counts: np.ndarray
) -> tuple[float, bool]:
    """The weight that gives the variance, or the end that is nearest; and whether it is inside."""

    def excess(log_weight: float) -> float:
        return float(np.sum(np.log(_variance(cloud, x, np.exp(log_weight), counts) / wanted)))

    low, high = np.log(cloud.weight) - np.log(REACH), np.log(cloud.weight) + np.log(REACH)
    if excess(low) <= 0:
        return float(np.exp(low)), False
    if excess(high) >= 0:
        return float(np.exp(high)), False
    return float(np.exp(brentq(excess, low, high, xtol=1e-6))), True  # pyright: ignore


def reference_variance(
    key: Key, prior: Prior, reference: Any, num_draws: int, num_simulations: int,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """The variance of each scalar parameter in the reference posterior, `(p,)`."""
    if isinstance(reference, Run):
        if set(reference.draws) != set(prior.names):
            raise ValueError(
                f"The reference must have the parameters {list(prior.names)}, got "
                f"{list(reference.draws)}."
            )
        flat = [np.asarray(reference.draws[name], float) for name in prior.names]
        size = flat[0].shape[0] * flat[0].shape[1]
        x = np.concatenate([f.reshape(size, -1) for f in flat], axis=1)
        weights = reference.weights
        share = np.full(size, 1 / size) if weights is None else np.ravel(weights)
        return share @ (x - share @ x) ** 2
    if not isinstance(reference, ScorePosterior):
        raise TypeError(
            "reference must be a ScorePosterior, such as one with LogScore, or a Run; got "
            f"{type(reference).__name__}."
        )
    if reference.problem.prior.names != prior.names:
        raise ValueError(
            f"The reference must have the parameters {list(prior.names)}, got "
            f"{list(reference.problem.prior.names)}."
        )
    if not float(reference.weight) > 0:
        raise ValueError("The reference has weight 0: it is the prior.")
    found = fit(key, reference.problem, reference.score, num_simulations)
    cloud = cloud_around(found, float(reference.weight), num_draws, rng)
    _, x = scalars(reference.problem.prior, cloud.u)
    return _variance(cloud, x, float(reference.weight), np.ones(len(x)))
