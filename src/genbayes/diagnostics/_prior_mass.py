"""The prior-mass condition of the generalisation bound, by simulation."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_count, check_positive
from .._result import AbstractResult
from .._table import Table
from .._types import Array, Theta
from ..runs import Run
from ..scores import KernelScore, energy_distance, mmd
from ..targets import ScorePosterior
from ._bounds import as_target, weighted_score
from ._draws import keys_of, need_simulator, over_draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PriorMass(float, AbstractResult):
    r"""$\alpha_2$: a number, with the prior masses that it comes from.

    - `alpha1`; `sizes`: $n$; `masses`: of the ball of radius $\alpha_1 / \sqrt n$, for each.
    """

    alpha1: float
    sizes: np.ndarray
    masses: np.ndarray

    def __new__(cls, alpha1: float, sizes: np.ndarray, masses: np.ndarray) -> "PriorMass":
        self = super().__new__(cls, np.max(-np.log(masses) / np.sqrt(sizes)))
        self.alpha1, self.sizes, self.masses = alpha1, sizes, masses
        return self

    def table(self) -> Table:
        """By number of observations: radius, mass, and the constant that it asks for."""
        shown = np.unique(np.linspace(0, len(self.sizes) - 1, 12).astype(int))
        rows = [
            (int(n), self.alpha1 / math.sqrt(n), float(mass), -math.log(mass) / math.sqrt(n))
            for n, mass in zip(self.sizes[shown], self.masses[shown], strict=True)
        ]
        notes = [
            f"alpha2 = {float(self):.4g}, the largest over all n, for alpha1 = {self.alpha1:g}"
        ]
        return Table(("observations", "radius", "mass", "alpha2"), rows, "Prior mass", notes)

    def plot(self) -> "Figure":
        """The constant that each number of observations asks for, and the largest."""
        from .._figure import COLOURS, INK, axis_labels, panels

        figure, (ax,) = panels(["constant of the prior mass"], columns=1, size=(4.2, 2.8))
        ax.semilogx(self.sizes, -np.log(self.masses) / np.sqrt(self.sizes), color=COLOURS[0])
        ax.axhline(float(self), color=INK, linestyle="--", linewidth=1)
        axis_labels(ax, "observations", "alpha2")
        return figure


def prior_mass(
    target: ScorePosterior | Run,
    at: Mapping[str, Any],
    *,
    alpha1: float,
    largest: int = 10_000,
    num_draws: int = 1000,
    num_simulations: int = 500,
    seed: int = 0,
) -> PriorMass:
    r"""The constant $\alpha_2$ that the prior-mass condition needs for an $\alpha_1$.

    $$\alpha_2 = \max_{n \le N} \; -\frac{1}{\sqrt n}
      \log \Pi\bigl\{ \theta : D(P_\theta, P_{\theta_0}) \le \alpha_1 / \sqrt n \bigr\}$$

    for a well-specified model with the truth at $\theta_0$, where the least divergence is 0.

    **Arguments:**

    - `target`: a `ScorePosterior` with the kernel or the energy score, or a `Run`.
    - `at`: $\theta_0$, a mapping from parameter name to value. `alpha1`: $\alpha_1 > 0$.
    - `largest`: $N$. The condition is about every $n$; beyond $N$ the mass falls as a power of $n$
        for a prior with a positive density, and $\alpha_2$ with it.
    - `num_draws`: of the prior. `num_simulations`: at each. `seed`: of everything.

    What comes back is a number, ready for `generalisation_bound`, with a table and a picture.

    Small masses cannot be told from none: where no draw is close enough, half a draw is assumed.
    The divergence is estimated, and its noise blurs balls smaller than its error.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.KernelScore(gb.kernels.Gaussian(1.0)))
    >>> 0 < gb.diagnostics.prior_mass(target, {"mean": 0.0}, alpha1=0.5, num_simulations=50) < 1
    True

    ```
    """
    target = as_target(target)
    check_positive("alpha1", alpha1)
    check_count("largest", largest)
    check_count("num_draws", num_draws, 100)
    need_simulator(target, "The prior-mass condition")
    _, score = weighted_score(target)
    prior, simulator = target.problem.prior, target.problem.simulator
    prior.check_inside(at)
    assert simulator is not None
    key_truth, key_theta = jax.random.split(jax.random.key(seed))
    truth = simulator.features(simulator.simulate(key_truth, at, num_simulations))
    theta = {name: np.asarray(x) for name, x in prior.sample(key_theta, num_draws).items()}
    function = _Divergence(target, score, truth)
    keys = keys_of(seed + 1, num_draws)
    found = np.sort(over_draws(function, target, theta, keys, num_simulations).astype(float))
    sizes = np.unique(np.geomspace(1, largest, 200).astype(int))
    within = np.searchsorted(found[np.isfinite(found)], alpha1 / np.sqrt(sizes), side="right")
    return PriorMass(float(alpha1), sizes, np.maximum(within, 0.5) / num_draws)


class _Divergence(eqx.Module):
    """The divergence of the simulations at a parameter from those at the truth."""

    target: ScorePosterior
    score: Any
    truth: Array

    def __call__(self, theta: Theta, draws: Array | None) -> Array:
        del theta
        assert draws is not None
        assert self.target.problem.simulator is not None
        x = self.target.problem.simulator.features(draws)
        if isinstance(self.score, KernelScore):
            found = mmd(x, self.truth, self.score.kernel)
        else:
            found = energy_distance(x, self.truth, beta=self.score.beta)
        return jnp.where(jnp.all(jnp.isfinite(x)), found, jnp.inf)
