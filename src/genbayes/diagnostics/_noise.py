"""How noisy the estimated log density is at a point, and how many simulations would do."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_count, check_positive
from .._result import AbstractResult
from .._table import Table
from .._types import Array
from ..runs import Run
from ..targets import ScorePosterior, sobol_noise, why_no_sobol, with_all_pairs
from ._draws import weighted_moments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PSEUDO_MARGINAL = 1.5  # a variance that suits pseudo-marginal chains: sds of 1.0 to 1.7 do well


@dataclass(frozen=True)
class Noise(AbstractResult):
    r"""The variance of the estimated log density, as a function of the number of simulations.

    - `variance`, `error`: at the target's own $m$, and its standard error.
    - `first`, `second`: independent noise gives $a / m + b / m^2$; Sobol noise $a\,m^{-b}$.
    - `failures`: the share of estimates that were not finite.
    """

    num_simulations: int
    variance: float
    error: float
    first: float
    second: float
    sobol: bool
    batched: bool
    failures: float
    measured: dict[int, float]

    def at(self, num_simulations: float | np.ndarray) -> Any:
        """The predicted variance with another number of simulations."""
        m = np.asarray(num_simulations, float)
        found = self.first * m**-self.second if self.sobol else self.first / m + self.second / m**2
        return found if found.ndim else float(found)

    def simulations_for(self, variance: float) -> int:
        """How many simulations bring the variance down to the one wanted."""
        check_positive("variance", variance)
        if self.batched:
            raise ValueError(
                "The target estimates the score from a subset of the observations (batch_size), "
                "and that part of the variance does not fall with the simulations: measure a "
                "target without batch_size."
            )
        a, b = self.first, self.second
        if self.sobol:
            m = (a / variance) ** (1 / b)
        else:
            m = (a + math.sqrt(a * a + 4 * b * variance)) / (2 * variance)
        return max(2, math.ceil(m * (1 - 1e-9)))

    def table(self) -> Table:
        """Variance and sd by number of simulations: measured, and for a few wanted variances."""
        rows: list[tuple] = [
            (m, v, math.sqrt(v), "measured") for m, v in sorted(self.measured.items())
        ]
        wanted = () if self.batched else (3.0, PSEUDO_MARGINAL, 0.5, 0.1, 0.01)
        for v in wanted if self.variance > 0 else ():
            rows.append((self.simulations_for(v), v, math.sqrt(v), "predicted"))
        notes = [
            f"standard error of the variance at m = {self.num_simulations:,}: {self.error:.2g}",
            "Pseudo-marginal chains do well at variances of 1 to 3 (correlated ones bear more), "
            "and their target is near the scoring-rule posterior only well below 1.",
        ]
        if self.failures:
            notes.append(f"! {self.failures:.1%} of the estimates were not finite.")
        heads = ("simulations", "variance", "sd", "")
        return Table(heads, rows, "Noise of the estimated log density", notes)

    def plot(self) -> "Figure":
        """Variance against the number of simulations, on two logarithmic axes."""
        from .._figure import COLOURS, INK, panels

        figure, (ax,) = panels(["variance of the log density"], columns=1, size=(4.2, 3.0))
        m = np.geomspace(min(self.measured) / 2, max(self.measured) * 20, 60)
        ax.loglog(m, self.at(m), color=COLOURS[0])
        ax.loglog(list(self.measured), list(self.measured.values()), "o", color=COLOURS[1])
        ax.axhspan(1, 3, color=INK, alpha=0.12, linewidth=0)
        ax.set_xlabel("simulations", color=INK)
        return figure


def noise(
    target: ScorePosterior | Run,
    u: Any = None,
    *,
    num_repeats: int = 256,
    sobol: bool = False,
    seed: int = 0,
) -> Noise:
    r"""The variance of the estimated log density at a point, and what $m$ gives which variance.

    Scores are means over draws and over pairs of draws, so that the variance is

    $$\mathrm{Var}\,\widehat{\log\pi}(u) = a / m + b / m^2.$$

    It is measured at the target's $m$ and at a quarter of it, over repeated noise, and $a$ and $b$
    follow. Near parameters that fit, $a$ grows like $w^2 n$ and $b$ like $w^2 n^2$.

    **Arguments:**

    - `target`: a `ScorePosterior`, or a `Run`, whose posterior mean is then the point.
    - `u`: the point: unconstrained `(p,)`, or a mapping from parameter name to value.
    - `num_repeats`: estimates at each $m$; the variance is known to a share of about
        $\sqrt{2 / \texttt{num\_repeats}}$. `seed`: of the noise.
    - `sobol`: measure even noise, as `FrozenNUTS` takes it; the law is then $a\,m^{-b}$.

    It tells whether pseudo-marginal chains will stick and how far their target is from the
    scoring-rule posterior, at one point only: in the tails the noise may be larger. It does not see
    a bias of the estimate.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=40)
    >>> found = gb.diagnostics.noise(target, {"mean": 1.0})
    >>> found.simulations_for(found.at(400))
    400

    ```

    Reference: Doucet, Pitt, Deligiannidis and Kohn (2015), Efficient implementation of Markov chain
    Monte Carlo when using an unbiased likelihood estimator, Biometrika 102; Sherlock et al. (2015),
    Annals of Statistics 43.
    """
    check_count("num_repeats", num_repeats, 8)
    target, point = _at(target, u)
    if target.is_exact:
        raise ValueError(
            f"{type(target.score).__name__} takes no simulations: its log density has no noise."
        )
    if sobol and (reason := why_no_sobol(target)) is not None:
        raise ValueError(f"Sobol noise does not apply: {reason}.")
    m = target.num_simulations
    few = max(2, target.score.min_simulations, m // 4)
    keys = jax.random.split(jax.random.key(seed), (2, num_repeats))
    values = {
        size: _estimates(target, point, key, size, sobol)
        for size, key in zip((m, few), keys, strict=True)
    }
    failed = np.mean([~np.isfinite(v) for v in values.values()])
    kept = {size: v[np.isfinite(v)] for size, v in values.items()}
    if min(len(v) for v in kept.values()) < 2:
        raise ValueError("Hardly any estimate was finite at that point: choose another one.")
    variances = {size: float(v.var(ddof=1)) for size, v in kept.items()}
    first, second = _law(m, variances[m], few, variances[few], sobol)
    return Noise(
        m, variances[m], variances[m] * math.sqrt(2 / (len(kept[m]) - 1)), first, second, sobol,
        target.batch_size is not None, float(failed), variances,
    )  # fmt: skip


def _law(m: int, at_m: float, few: int, at_few: float, sobol: bool) -> tuple[float, float]:
    """The two constants of the law; both not negative, whatever the Monte Carlo error."""
    if few == m:
        return (at_m * m, 1.0) if sobol else (at_m * m, 0.0)
    if sobol:
        slope = math.log(at_few / at_m) / math.log(m / few) if at_m > 0 < at_few else 1.0
        slope = min(max(slope, 0.5), 4.0)
        return at_m * m**slope, slope
    b = (at_few * few - at_m * m) / (1 / few - 1 / m)
    b = min(max(b, 0.0), at_m * m**2)
    return at_m * m - b / m, b


def _at(target: Any, u: Any) -> tuple[ScorePosterior, Array]:
    run = target if isinstance(target, Run) else None
    target = run.need_target() if run is not None else target
    if not isinstance(target, ScorePosterior):
        raise TypeError(f"target must be a ScorePosterior or a Run, got {type(target).__name__}.")
    if u is None:
        if run is None:
            raise ValueError(
                "Give the point: u of shape (p,), or a mapping from parameter name to value. "
                "For a Run it is the posterior mean."
            )
        u = weighted_moments(run)[0]
    if isinstance(u, Mapping):
        target.problem.prior.check_inside(u)
        return target, target.problem.prior.unconstrain(u)
    point = jnp.asarray(u, float)
    if point.shape != (target.size,):
        raise ValueError(
            f"u must have shape ({target.size},), one number for each unconstrained coordinate, "
            f"got {point.shape}."
        )
    return target, point


def _estimates(target: ScorePosterior, u: Array, keys: Array, num: int, sobol: bool) -> np.ndarray:
    target = eqx.tree_at(lambda t: t.num_simulations, target, num)
    if not target.traceable:
        draw = [float(target.log_density(u, target.draw_noise(key))) for key in keys]
        return np.asarray(draw)
    target = with_all_pairs(target) if sobol else target
    return np.asarray(_compiled(target, u, keys, sobol), float)


@eqx.filter_jit
def _compiled(target: ScorePosterior, u: Array, keys: Array, sobol: bool) -> Array:
    def one(key: Array) -> Array:
        noise = sobol_noise(key, target) if sobol else target.draw_noise(key)
        return target.log_density(u, noise)

    return jax.lax.map(one, keys)
