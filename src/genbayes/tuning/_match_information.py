"""Weight by information: the loss-likelihood bootstrap."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_between, check_count
from .._table import Table
from .._types import Key
from ..problem import Problem
from ..scores import AbstractScore
from ._prior_draws import as_key, check_problem, rng_of
from ._risk import BOOTSTRAP_NEWTON, Fit, fit, minimisers, variance_of
from ._weight import AbstractWeight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAILED = 0.05  # share of bootstrap minimisers that may fail before it is worth words
APART = 3.0  # ratio of the weights of two directions beyond which one weight suits neither
RESAMPLES = 500


@dataclass(frozen=True, eq=False)
class CalibratedWeight(AbstractWeight):
    """What weights from the spread of bootstrap minimisers have in common.

    - `minimisers`: `(B, p)`, unconstrained, of those found; `failed`: share of those that were not.
    - `centre`: of all observations, `(p,)`; `names`: of the coordinates.
    - `asymptotic`: the weight that gradient and curvature at the centre alone would give.
    - `directions`: the weight that each direction of the parameter space asks for: eigenvalues of
        $J^{-1} H$. They do not depend on the choice of coordinates.
    - `curvature`: of the sum of the scores at the centre, `(p, p)`.
    """

    minimisers: np.ndarray
    failed: float
    centre: np.ndarray
    names: tuple[str, ...]
    asymptotic: float
    directions: np.ndarray
    curvature: np.ndarray

    @property
    def interval_of(self) -> str:
        """Which error the interval is for."""
        return "what the observations leave open (bootstrap over them)"

    @property
    def findings(self) -> tuple[str, ...]:
        """What there is to worry about, in words."""
        found = []
        if self.failed > FAILED:
            found.append(f"{self.failed:.0%} of the bootstrap minimisers were not found.")
        low, high = self.directions[0], self.directions[-1]
        if high > APART * low:
            found.append(
                f"Directions ask for weights from {low:.3g} to {high:.3g}: no single weight is "
                "right for all; see diagnostics.corrected."
            )
        return tuple(found)

    def table(self) -> Table:
        """The weight with its interval, and what single directions ask for."""
        row: tuple[Any, ...] = (
            self.value, *self.interval, self.asymptotic, float(self.directions[0]),
            float(self.directions[-1]),
        )  # fmt: skip
        heads = ("weight", "from", "to", "asymptotic", "least direction", "largest")
        return Table(heads, [row], f"Weight by {self.rule}", self.notes())

    def plot(self) -> "Figure":
        """Bootstrap minimisers of each coordinate beside the normal that the weight stands for."""
        from .._figure import COLOURS, axis_labels, legend, panels

        figure, axes = panels(self.names, columns=3, size=(3.2, 2.4))
        sds = np.sqrt(np.diag(np.linalg.inv(self.value * self.curvature)))
        for ax, x, at, sd in zip(axes, self.minimisers.T, self.centre, sds, strict=False):
            ax.hist(x, 30, density=True, color=COLOURS[0], alpha=0.5, label="bootstrap minimisers")  # pyright: ignore
            grid = np.linspace(at - 4 * sd, at + 4 * sd, 121)
            normal = np.exp(-0.5 * ((grid - at) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
            ax.plot(grid, normal, color=COLOURS[1], label=f"posterior at w = {self.value:.3g}")
            ax.set_yticks([])
            axis_labels(ax, "unconstrained", "")
        legend(figure, axes[0])
        return figure


@dataclass(frozen=True, eq=False)
class InformationWeight(CalibratedWeight):
    """The weight whose posterior has the information of the loss-likelihood bootstrap."""

    @property
    def rule(self) -> str:
        """What the weight matches, in a few words."""
        return "information of the loss-likelihood bootstrap"


def match_information(
    problem: Problem,
    score: AbstractScore,
    *,
    num_bootstrap: int = 200,
    num_simulations: int = 500,
    level: float = 0.95,
    seed: int | Key = 0,
) -> InformationWeight:
    r"""The weight whose posterior is as informative as the loss-likelihood bootstrap.

    $$u_b = \arg\min_u \sum_i \omega_{bi} S(P_u, y_i), \quad \omega_b \sim n\,\mathrm{Dirichlet}(1,
      \dots, 1), \qquad w = \frac{\operatorname{tr}\,\mathrm{Cov}(u_b)^{-1}}{\operatorname{tr} H}
      \to \frac{\operatorname{tr}(H J^{-1} H)}{\operatorname{tr} H}$$

    with $H = \sum_i \nabla^2 S(P_u, y_i)$, and $J$ the variance of $\sum_i \nabla S(P_u, y_i)$, in
    unconstrained coordinates. Under the log score of a right model it tends to 1.

    **Arguments:**

    - `num_bootstrap`: minimisers $u_b$. The same weights $\omega_b$ with one Newton step serve as a
        control: only the ratio of the two is left to chance, so that few do.
    - `num_simulations`: held fixed (a Sobol set where the noise is known) through all of it.
    - `level`: of the interval, by resampling the observations.
    - `seed`: a whole number or a key.

    It matches the total information, a trace: it depends on the choice of coordinates where there
    are several, and is ruled by those that are known best. It needs gradients, more observations
    than parameters, independent of each other, and a minimum of the score without the prior.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=40)
    >>> found = gb.tuning.match_information(problem, score, num_bootstrap=50)
    >>> variance = float(problem.observations.var(ddof=1))  # the model says 1
    >>> round(found.value * variance, 2)
    1.0

    ```

    Reference: Lyddon, Holmes and Walker (2019), General Bayesian updating and the loss-likelihood
    bootstrap, Biometrika 106.
    """
    begun = time.perf_counter()
    check_problem(problem)
    check_bootstrap(num_bootstrap, level)
    key = as_key(seed)
    found = fit(key, problem, score, num_simulations)
    return information_of(found, num_bootstrap, level, rng_of(key), begun)


def check_bootstrap(num_bootstrap: int, level: float) -> None:
    """Refuse too few bootstrap samples, and what is no level."""
    check_count("num_bootstrap", num_bootstrap, 20)
    check_between("level", level, 0, 1)


def information_of(
    fit: Fit, num_bootstrap: int, level: float, rng: np.random.Generator, begun: float
) -> InformationWeight:
    """The same from a fit."""
    rows = rng.dirichlet(np.ones(fit.size), num_bootstrap) * fit.size
    u, good = minimisers(fit, rows)
    need_minimisers(good)
    one_step = -(rows[good] @ fit.gradients) @ np.linalg.inv(fit.curvature)
    ratio = _information(u[good]) / _information(one_step)
    asymptotic = _asymptotic(fit.curvature, fit.variance)
    spread = over_observations(fit, _asymptotic, level, rng)
    return InformationWeight(
        asymptotic * ratio, (spread[0] * ratio, spread[1] * ratio), level,
        calls_of(fit, num_bootstrap), time.perf_counter() - begun, u[good],
        float(np.mean(~good)), fit.u, names_of(fit), asymptotic, fit.directions, fit.curvature,
    )  # fmt: skip


def need_minimisers(good: np.ndarray) -> None:
    """Refuse to go on where most bootstrap minimisers were not found."""
    if good.sum() < max(10, 0.5 * len(good)):
        raise ValueError(
            f"Only {int(good.sum())} of {len(good)} bootstrap minimisers were found: the "
            "observations hardly determine the parameters. Give more observations, or use "
            "match_weight."
        )


def _information(u: np.ndarray) -> float:
    """The trace of the inverse covariance of draws `(B, p)`."""
    return float(np.trace(np.linalg.inv(np.atleast_2d(np.cov(u.T)))))


def _asymptotic(h: np.ndarray, j: np.ndarray) -> float:
    return float(np.trace(h @ np.linalg.solve(j, h)) / np.trace(h))


def over_observations(
    fit: Fit, weight: Any, level: float, rng: np.random.Generator
) -> tuple[float, float]:
    """The interval of a weight made of curvature and variance, when observations are resampled."""
    found = []
    for counts in rng.multinomial(fit.size, np.full(fit.size, 1 / fit.size), RESAMPLES):
        h = np.einsum("i,ijk->jk", counts, fit.curvatures)
        j = variance_of(fit.gradients, counts)
        if np.linalg.matrix_rank(j) == len(j):
            found.append(weight(h, j))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def names_of(fit: Fit) -> tuple[str, ...]:
    """Of the unconstrained coordinates."""
    return fit.risk.target.problem.prior.coordinate_names


def calls_of(fit: Fit, num_bootstrap: int) -> int:
    """Simulator calls of a fit and its bootstrap minimisers."""
    each = fit.risk.target.simulations_per_estimate
    return fit.calls + num_bootstrap * BOOTSTRAP_NEWTON * each
