"""What theory promises: bounds of the posterior influence, and of the posterior's divergence."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_between, check_nonnegative, check_positive
from .._result import AbstractResult
from .._table import Table
from ..kernels import AbstractKernel, Sum, radial_of
from ..problem import Prior
from ..runs import Run
from ..scores import AbstractScore, EnergyScore, KernelScore, WeightedSum
from ..targets import ScorePosterior

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class RobustnessBound(AbstractResult):
    r"""The constant of global bias-robustness, $\sup_{\theta, z} |\mathrm{PIF}| \le C$.

    - `log_constant`: $\log C$ ($C$ itself soon overflows).
    - `relative`: the bound $8 w n \kappa$ of $|\mathrm{PIF} / \pi(\theta \mid y)|$, which needs no
      prior density.
    - `size`: $\kappa$ of the kernel, or $B^\beta$ of the energy score.
    """

    log_constant: float
    relative: float
    size: float
    weight: float
    num_observations: int
    log_sup_prior: float

    @property
    def constant(self) -> float:
        """$C$, infinite where it overflows."""
        return math.exp(self.log_constant) if self.log_constant < 700 else math.inf

    def table(self) -> Table:
        """The constant and what it is made of."""
        rows = [
            ("log C", self.log_constant), ("C", self.constant),
            ("bound of |PIF / posterior|", self.relative), ("kappa or B^beta", self.size),
            ("w", float(self.weight)), ("n", self.num_observations),
            ("log sup prior", self.log_sup_prior),
        ]  # fmt: skip
        return Table(("", "value"), rows, "Global bias-robustness", ["C grows like exp(w n)."])

    def plot(self) -> "Figure":
        """The bound of the relative influence against the number of observations."""
        from .._figure import COLOURS, INK, panels

        figure, (ax,) = panels(["bound of |PIF / posterior|"], columns=1, size=(4.0, 2.8))
        n = np.linspace(1, 2 * self.num_observations, 50)
        ax.plot(n, 8 * self.weight * self.size * n, color=COLOURS[0])
        ax.plot([self.num_observations], [self.relative], "o", color=COLOURS[1])
        ax.set_xlabel("observations", color=INK)
        return figure


def robustness_bound(
    target: ScorePosterior | Run,
    *,
    size: float | None = None,
    log_sup_prior: float | None = None,
) -> RobustnessBound:
    r"""The bound $C$ of the posterior influence function, for kernel and energy scores.

    $$\text{kernel:}\quad C \le 8 w n \kappa\, e^{6 w n \kappa} \sup_\theta \pi(\theta), \qquad
      \text{energy:}\quad C \le 8 w n B^\beta\, e^{2 w n B^\beta} \sup_\theta \pi(\theta)$$

    **Arguments:**

    - `target`: a `ScorePosterior`, or a `Run`.
    - `size`: $\kappa = \sup_x k(x, x)$, known for the kernels of `genbayes.kernels`; or, for the
        energy score, the diameter $B$ of the space of observations, which must be bounded.
    - `log_sup_prior`: the logarithm of the prior's largest density in $\theta$; by default it is
        searched for, and what is found is a lower bound of it.

    The bound grows exponentially with $wn$: it proves that no outlier has unlimited influence, and
    is far above what outliers do. For that see `posterior_influence`. It is about an infinitesimal
    share of contamination.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> score = gb.KernelScore(gb.kernels.Gaussian(1.0))
    >>> gb.diagnostics.robustness_bound(gb.ScorePosterior(problem, score)).relative
    160.0

    ```

    Reference: Matsubara, Knoblauch, Briol and Oates (2022), Robust generalised Bayesian inference
    for intractable likelihoods, JRSS B 84; the constants are those of Pacchiardi, Khoo and Dutta.
    """
    target = as_target(target)
    weight, score = weighted_score(target)
    n = target.problem.num_observations
    extent = score_size(score, size)
    exponent = 6 if isinstance(score, KernelScore) else 2
    sup = log_sup_density(target.problem.prior) if log_sup_prior is None else log_sup_prior
    relative = 8 * weight * n * extent
    log_constant = (math.log(relative) if relative else -math.inf) + sup
    log_constant += exponent * weight * n * extent
    return RobustnessBound(log_constant, relative, extent, weight, n, float(sup))


def relative_bound(target: ScorePosterior) -> float | None:
    """The bound of |PIF / posterior| where the score is one of a bounded kernel."""
    try:
        weight, score = weighted_score(target)
        if not isinstance(score, KernelScore):
            return None
        return 8 * weight * target.problem.num_observations * score_size(score, None)
    except ValueError:
        return None


@dataclass(frozen=True)
class GeneralisationBound(AbstractResult):
    r"""How far the posterior expectation of the divergence may be from the least divergence.

    - `size`: $\kappa$ or $B^\beta$; `weight`: $w$; `num_observations`: $n$.
    - `alpha1`, `alpha2`: the constants of the prior-mass condition.
    - `offset`: what the form `"uniform"` adds, in the units of $\alpha_1$.
    """

    size: float
    weight: float
    num_observations: int
    alpha1: float
    alpha2: float
    form: str
    offset: float

    def probability(self, epsilon: float, num_observations: int | None = None) -> float:
        """A bound of the probability that the deviation is `epsilon` or more."""
        n = self.num_observations if num_observations is None else num_observations
        reach = math.sqrt(n) * epsilon - self._constant
        if reach <= 0:
            return 1.0
        front = 1.0 if self.form == "uniform" else 2.0
        return min(1.0, front * math.exp(-0.5 * (reach / (8 * self.size)) ** 2))

    def deviation(self, probability: float, num_observations: int | None = None) -> float:
        """The deviation that is exceeded with at most that probability."""
        check_between("probability", probability, 0, 1)
        n = self.num_observations if num_observations is None else num_observations
        front = 1.0 if self.form == "uniform" else 2.0
        tail = 8 * self.size * math.sqrt(2 * math.log(front / probability))
        return (self._constant + tail) / math.sqrt(n)

    def observations_for(self, epsilon: float, probability: float) -> int:
        """How many observations keep the deviation below `epsilon` but for that probability."""
        check_positive("epsilon", epsilon)
        return math.ceil((self.deviation(probability, 1) / epsilon) ** 2 * (1 - 1e-12))

    @property
    def _constant(self) -> float:
        return self.alpha1 + self.alpha2 / self.weight + self.offset

    def table(self) -> Table:
        """Deviations by number of observations and probability."""
        sizes = [self.num_observations * k for k in (1, 10, 100, 1000)]
        levels = (0.5, 0.1, 0.05, 0.01)
        rows = [(n, *(self.deviation(p, n) for p in levels)) for n in sizes]
        notes = [
            f"{self.form} form; kappa = {self.size:.4g}, w = {self.weight:.4g}, "
            f"alpha1 = {self.alpha1:.4g}, alpha2 = {self.alpha2:.4g}"
        ]
        heads = ("observations", *(f"exceeded w.p. {p:g}" for p in levels))
        return Table(heads, rows, "Deviation from the least divergence, at most", notes)

    def plot(self) -> "Figure":
        """The deviation exceeded with probability 5 %, against the number of observations."""
        from .._figure import COLOURS, INK, panels

        figure, (ax,) = panels(["deviation, exceeded w.p. 5 %"], columns=1, size=(4.0, 2.8))
        n = np.geomspace(1, 1000 * self.num_observations, 60)
        ax.loglog(n, self.deviation(0.05, 1) / np.sqrt(n), color=COLOURS[0])
        ax.set_xlabel("observations", color=INK)
        return figure


def generalisation_bound(
    target: ScorePosterior | Run,
    *,
    alpha1: float,
    alpha2: float,
    size: float | None = None,
    form: Literal["published", "uniform"] = "published",
) -> GeneralisationBound:
    r"""The finite-sample bound on the posterior expectation of the divergence from the truth.

    $$P_0\Bigl( \Bigl| \int D(P_\theta, P_0)\,\pi(\theta \mid Y)\,d\theta - \min_\theta D \Bigr|
      \ge \epsilon \Bigr) \le 2 \exp\Bigl\{ -\tfrac 12 \Bigl(
      \frac{\sqrt n\,\epsilon - \alpha_1 - \alpha_2 / w}{8 \kappa} \Bigr)^2 \Bigr\}$$

    for $\sqrt n\,\epsilon > \alpha_1 + \alpha_2 / w$ (below that the bound is 1, which the square
    hides), with $D$ the squared MMD; for the energy score $\kappa$ is $B^\beta$, with $B$ the
    diameter of the space of observations, and $D$ the squared energy distance.

    The published proof applies a concentration inequality at each fixed $\theta$ to an average over
    $\theta$ that depends on the data. `form="uniform"` is a bound without that step: the supremum
    over $\theta$ concentrates as each of its terms does, about a mean of at most
    $4\kappa/\sqrt n$ (twice that for the energy score), and the bound becomes
    $\exp\{-\frac 12(\cdot)^2\}$ with $8\kappa$ ($16 B^\beta$) more subtracted from
    $\sqrt n\,\epsilon$.

    **Arguments:**

    - `target`: a `ScorePosterior`, or a `Run`: it gives $w$, $n$ and the kernel.
    - `alpha1`, `alpha2`: the prior gives mass of at least $e^{-\alpha_2\sqrt n}$ to the parameters
        whose divergence is within $\alpha_1/\sqrt n$ of the least. `prior_mass` estimates
        $\alpha_2$ for an $\alpha_1$.
    - `size`: $\kappa$ for a kernel that is not of `genbayes.kernels`; $B$ for the energy score.
    - `form`: `"published"` or `"uniform"`.

    It holds for misspecified models too. It is a worst case over all data-generating distributions:
    often above 1 for the $n$ at hand, and then it says nothing about this posterior.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.KernelScore(gb.kernels.Gaussian(1.0)))
    >>> bound = gb.diagnostics.generalisation_bound(target, alpha1=1.0, alpha2=1.0)
    >>> round(bound.probability(0.1, num_observations=50_000), 2)
    0.08

    ```

    Reference: the finite-sample theorem of Pacchiardi, Khoo and Dutta; McDiarmid (1989), On the
    method of bounded differences.
    """
    if form not in ("published", "uniform"):
        raise ValueError(f"form must be 'published' or 'uniform', got {form!r}.")
    check_positive("alpha1", alpha1)
    check_nonnegative("alpha2", alpha2)
    target = as_target(target)
    weight, score = weighted_score(target)
    check_positive("weight", weight)
    extent = score_size(score, size)
    more = 8 * extent * (1 if isinstance(score, KernelScore) else 2)
    offset = more if form == "uniform" else 0.0
    n = target.problem.num_observations
    return GeneralisationBound(extent, weight, n, float(alpha1), float(alpha2), form, offset)


def as_target(target: Any) -> ScorePosterior:
    """The target itself, or that of a run."""
    found = target.need_target() if isinstance(target, Run) else target
    if not isinstance(found, ScorePosterior):
        raise TypeError(f"target must be a ScorePosterior or a Run, got {type(target).__name__}.")
    return found


def weighted_score(target: ScorePosterior) -> tuple[float, KernelScore | EnergyScore]:
    """Weight and score, a factor of the score counted to the weight."""
    weight, score = float(target.weight), target.score
    while isinstance(score, WeightedSum) and len(score.scores) == 1:
        weight, score = weight * float(score.weights[0]), score.scores[0]
    if not isinstance(score, (KernelScore, EnergyScore)):
        raise ValueError(
            f"The theorem is about the kernel and the energy score, got {type(score).__name__}."
        )
    return weight, score


def score_size(score: AbstractScore, size: float | None) -> float:
    r"""$\kappa$ of a kernel score, or $B^\beta$ of the energy score."""
    if size is not None:
        check_positive("size", size)
    if isinstance(score, EnergyScore):
        if size is None:
            raise ValueError(
                "The theorem bounds the energy score only where observations lie in a bounded "
                "space: give its diameter, size=... There is no bound on an unbounded space."
            )
        return float(size) ** score.beta
    assert isinstance(score, KernelScore)
    return float(size) if size is not None else _largest_value(score.kernel)


def _largest_value(kernel: AbstractKernel) -> float:
    if radial_of(kernel) is not None:
        return float(kernel(jnp.zeros(1), jnp.zeros(1)))
    if isinstance(kernel, Sum):
        pairs = zip(kernel.weights, kernel.kernels, strict=True)
        return sum(float(c) * _largest_value(k) for c, k in pairs)
    raise ValueError(
        f"The largest value of k(x, x) is not known for {type(kernel).__name__}: give it, size=..."
    )


def log_sup_density(prior: Prior) -> float:
    """The largest log density of a prior, searched for from a thousand of its draws."""
    from scipy.optimize import minimize

    draws = prior.sample(jax.random.key(0), 1000)
    densities = np.asarray(jax.vmap(prior.log_prob)(draws), float)
    best = int(np.nanargmax(densities))
    start = np.asarray(prior.unconstrain({k: v[best] for k, v in draws.items()}), float)

    def cost(u: np.ndarray) -> float:
        value = float(prior.log_prob(prior.constrain(jnp.asarray(u, float))))
        return -value if math.isfinite(value) else 1e10

    # a coordinate at a time: the parameters are independent, or nearly so
    steps = 200 * min(len(start), 10)
    found = minimize(cost, start, method="Powell", options={"maxfev": steps, "xtol": 1e-3})
    return float(max(densities[best], -found.fun))
