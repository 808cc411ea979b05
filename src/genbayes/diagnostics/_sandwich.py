"""The posterior's width against that of repeated experiments, and draws of the right width."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_choice, check_count
from .._result import AbstractResult
from .._table import Table
from .._types import Key
from ..problem import Prior
from ..runs import Run
from ..targets import ScorePosterior
from ._curvature import Information, information
from ._draws import check_run, need_simulator, weighted_moments
from ._gradients import check_gradients
from ._predictive import MOST_ROWS, more_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEP = 0.5  # posterior sds, of the differences
OFF = 0.1  # relative error of an sd that is worth words
NOMINAL = 0.95
DRAWS = 1000  # of the simulator, where the variance of the gradient is the model's


@dataclass(frozen=True, eq=False)
class Sandwich(AbstractResult):
    r"""Three covariances `(p, p)` of the unconstrained parameters.

    - `posterior`: of the draws. `asymptotic`: $H^{-1}$, which that tends to.
    - `sandwich`: $H^{-1} J H^{-1}$, that of the posterior mean over repeated data sets.
    - `curvature`, `curvature_error`, `variance`: $H$, its Monte Carlo error, and $J$.
    - `mean`: of the draws, `(p,)`; `names`: of the coordinates.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    posterior: np.ndarray
    curvature: np.ndarray
    curvature_error: np.ndarray
    variance: np.ndarray
    settings: dict[str, Any]
    prior: Prior

    @property
    def asymptotic(self) -> np.ndarray:
        r"""$H^{-1}$."""
        return np.linalg.inv(self.curvature)

    @property
    def sandwich(self) -> np.ndarray:
        r"""$H^{-1} J H^{-1}$."""
        return self.asymptotic @ self.variance @ self.asymptotic

    @property
    def map(self) -> np.ndarray:
        r"""$\Omega = (H^{-1} J)^{1/2}$, `(p, p)`, which turns one covariance into the other.

        $\Omega H^{-1} \Omega^\top = H^{-1} J H^{-1}$, and $\Omega$ is the identity where $J = H$.
        Of all such maps it is the one that does not depend on the choice of coordinates.
        """
        lower = np.linalg.cholesky(self.curvature)
        inverse = np.linalg.inv(lower)
        values, vectors = np.linalg.eigh(inverse @ self.variance @ inverse.T)
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        return inverse.T @ root @ lower.T

    @property
    def coverage(self) -> np.ndarray:
        r"""What the central 95 % intervals of the draws cover, if all is normal, `(p,)`."""
        from scipy.special import ndtr, ndtri

        ratio = np.sqrt(np.diag(self.posterior) / np.diag(self.sandwich))
        return 2 * ndtr(ndtri((1 + NOMINAL) / 2) * ratio) - 1

    @property
    def findings(self) -> tuple[str, ...]:
        """Coordinates whose posterior sd is off by more than a tenth, in words."""
        ratio = np.sqrt(np.diag(self.posterior) / np.diag(self.sandwich))
        off = [j for j in range(len(ratio)) if abs(np.log(ratio[j])) > np.log1p(OFF)]
        return tuple(
            f"{self.names[j]}: the posterior sd is {ratio[j]:.2g} times that of repeated "
            f"experiments; intervals of 95 % cover {self.coverage[j]:.0%}."
            for j in off
        )

    def table(self) -> Table:
        """By coordinate: the three sds, and what intervals of 95 % cover."""
        sds = [np.sqrt(np.diag(c)) for c in (self.posterior, self.asymptotic, self.sandwich)]
        rows = [
            (name, *map(float, row))
            for name, *row in zip(self.names, *sds, self.coverage, strict=True)
        ]
        share = np.abs(self.curvature_error).max() / np.abs(self.curvature).max()
        notes = [
            *(f"! {f}" for f in self.findings),
            "H from "
            + (
                "differences of gradients"
                if self.settings["curvature"] == "gradients"
                else "the draws"
            )
            + f" (Monte Carlo error {share:.1%}), J over {self.settings['rows']:,} "
            + ("observations" if self.settings["variance"] == "observations" else "simulations"),
            *more_rows(len(rows)),
        ]
        heads = ("coordinate", "posterior sd", "sd by H^-1", "sandwich sd", "95% covers")
        title = "Posterior and sandwich covariance (unconstrained)"
        return Table(heads, rows[:MOST_ROWS], title, notes)

    def plot(self) -> "Figure":
        """Posterior sds and those by $H^{-1}$, as multiples of the sandwich's."""
        from .._figure import COLOURS, INK, axis_labels, legend, panels, plain

        shown = len(self.names[:MOST_ROWS])
        figure, (ax,) = panels(
            ["sd over that of repeated experiments"], 1, (5.0, 1.4 + 0.28 * shown)
        )
        right, rows = np.sqrt(np.diag(self.sandwich)), np.arange(shown)
        ax.axvline(1.0, color=INK, linestyle="--", linewidth=1)
        parts = (("posterior", self.posterior, "o"), ("by curvature", self.asymptotic, "x"))
        for j, (label, covariance, marker) in enumerate(parts):
            ratio = (np.sqrt(np.diag(covariance)) / right)[:shown]
            ax.plot(ratio, rows, marker, color=COLOURS[j], markersize=6, label=label)
        ax.set_yticks(rows, [plain(name) for name in self.names[:shown]])
        ax.set_ylim(shown - 0.5, -0.5)
        ax.set_xscale("log")
        axis_labels(ax, "below 1: too narrow; above: too wide", "")
        legend(figure, ax)
        return figure

    def correct(self, run: Run) -> Run:
        r"""The run with each draw moved to $\bar u + \Omega (u - \bar u)$: see `corrected`."""
        u = np.asarray(run.unconstrained, float)
        if u.shape[2] != len(self.names):
            raise ValueError(
                f"Expected draws of {len(self.names)} unconstrained coordinates, got {u.shape[2]}."
            )
        moved = jnp.asarray(self.mean + (u - self.mean) @ self.map.T, float)
        theta = jax.vmap(jax.vmap(self.prior.constrain))(moved)
        # what the sampler met belongs to the draws as they were
        info = {k: x for k, x in run.info.items() if k not in ("log_density", "gradient")}
        provenance = dict(run.provenance) | {"corrected": {**self.settings, "by": "sandwich"}}
        return dataclasses.replace(
            run, draws={name: np.asarray(x) for name, x in theta.items()},
            unconstrained=np.asarray(moved), info=info, provenance=provenance, path=None, walk=None,
        )  # fmt: skip


def sandwich(
    run: Run,
    *,
    curvature: Literal["gradients", "draws"] = "gradients",
    variance: Literal["observations", "model"] = "observations",
    num_repeats: int = 64,
    target: ScorePosterior | None = None,
    seed: int | Key = 0,
) -> Sandwich:
    r"""The posterior's covariance against that of its mean over repeated data sets.

    $$\sqrt n(\theta - \theta^*) \mid y \to N(0, H_*^{-1}), \qquad
      \sqrt n(\hat\theta_n - \theta^*) \to N(0, H_*^{-1} J_* H_*^{-1})$$

    with $H_* = w E\,\nabla^2 S(P_{\theta^*}, Y)$ and
    $J_* = w^2\,\mathrm{Cov}\,\nabla S(P_{\theta^*}, Y)$; here both are sums over the $n$
    observations, in unconstrained coordinates, at the posterior mean. Only where the two agree
    (the log score of a right model with $w = 1$) do credible sets cover as they claim.

    **Arguments:**

    - `run`: a `Run`. `target`: the target of a run that was read from disk.
    - `curvature`: `"gradients"`, differences of estimated gradients half a posterior sd to both
        sides; or `"draws"`, the inverse of the covariance of the draws.
    - `variance`: `"observations"`, over those at hand, right for misspecified models too, if they
        are independent and clearly more than the parameters; or `"model"`, over 1000 draws of the
        simulator at the posterior mean, for few observations and a simulator that is trusted.
    - `num_repeats`: noises, of the target's number of simulations each, that are averaged over.
    - `seed`: of the noise.

    **What it can detect:** a posterior that is too narrow or too wide for what the data can tell,
    and by how much, from one data set. **What it cannot:** a posterior in the wrong place; the case
    of few or dependent observations, or of a posterior far from normal, where the asymptotics do
    not hold (`coverage` tries it out). The prior is taken as weak.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, score, weight=4.0)
    >>> run = gb.sample(target, gb.SGLD(0.01), num_samples=200, progress=False)
    >>> round(float(gb.diagnostics.sandwich(run).asymptotic[0, 0]) * 20 * 4, 2)
    1.0

    ```

    Reference: Chernozhukov and Hong (2003), An MCMC approach to classical estimation, Journal of
    Econometrics 115; Pacchiardi, Khoo and Dutta, on the asymptotic normality of scoring-rule
    posteriors.
    """
    check_run(run)
    check_choice("curvature", curvature, ("gradients", "draws"))
    check_choice("variance", variance, ("observations", "model"))
    check_count("num_repeats", num_repeats, 2)
    target = run.need_target(target)
    check_gradients(target)
    mean, covariance = weighted_moments(run)
    sds = np.sqrt(np.diag(covariance))
    if not (np.isfinite(sds).all() and sds.all()):
        raise ValueError("The chains did not move: there is no posterior sd to go by.")
    rows = _rows(target, variance, len(mean))
    key = jax.random.key(seed) if isinstance(seed, (int, np.integer)) else seed
    found = information(
        key, target, mean, STEP * sds, num_repeats=num_repeats,
        num_draws=None if variance == "observations" else rows,
    )  # fmt: skip
    settings = {"curvature": curvature, "variance": variance, "rows": rows}
    h, error = found.curvature, found.error
    if curvature == "draws":
        h, error = np.linalg.inv(covariance), np.zeros_like(covariance)
    _check_found(found, h)
    prior = target.problem.prior
    return Sandwich(
        prior.coordinate_names, mean, covariance, h, error, found.variance, settings, prior
    )


def corrected(
    run: Run,
    *,
    curvature: Literal["gradients", "draws"] = "gradients",
    variance: Literal["observations", "model"] = "observations",
    num_repeats: int = 64,
    target: ScorePosterior | None = None,
    seed: int | Key = 0,
) -> Run:
    r"""Posterior draws turned into draws whose credible sets have the right frequentist coverage.

    $$u \mapsto \bar u + \Omega (u - \bar u), \qquad \Omega = (H^{-1} J)^{1/2}$$

    which gives draws of covariance $H^{-1}$ the covariance $H^{-1} J H^{-1}$. With the defaults it
    is the open-faced sandwich (Shaby); with `curvature="draws"` the adjustment of Frazier and
    others, who take the covariance of the draws for $H^{-1}$.

    **Arguments:** as for `sandwich`.

    **Returns:** a `Run` with the moved draws, whose provenance says so.

    It mends the width, not the place: a posterior that is centred off the truth stays there. It
    leans on posterior and estimator being near normal in unconstrained space; `coverage` with
    `correct=gb.diagnostics.corrected` shows what it is worth.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, score, weight=4.0)  # four times too sure
    >>> run = gb.sample(target, gb.SGLD(0.01), num_samples=200, progress=False)
    >>> mended = gb.diagnostics.corrected(run, variance="model")
    >>> bool(1.8 < mended.draws["mean"].std() / run.draws["mean"].std() < 2.2)
    True

    ```

    Reference: Shaby (2014), The open-faced sandwich adjustment for MCMC using estimating functions,
    JCGS 23; Frazier, Nott, Drovandi and Kohn (2023), Bayesian inference using synthetic likelihood:
    asymptotics and adjustments, JASA 118.
    """
    found = sandwich(
        run, curvature=curvature, variance=variance, num_repeats=num_repeats, target=target,
        seed=seed,
    )  # fmt: skip
    return found.correct(run)


def _rows(target: ScorePosterior, variance: str, size: int) -> int:
    if variance == "model":
        need_simulator(target, "The variance under the model")
        return max(DRAWS, 20 * size)
    num = target.problem.num_observations
    if num < size + 2:
        raise ValueError(
            f"The variance of the gradient of {size} parameters cannot be had from {num} "
            'observations: use variance="model", which simulates them.'
        )
    return num


def _check_found(found: Information, curvature: np.ndarray) -> None:
    if not (np.isfinite(curvature).all() and np.isfinite(found.variance).all()):
        raise ValueError(
            "Gradients at the posterior mean were not finite: look at the simulator's draws there."
        )
    if np.linalg.eigvalsh(curvature).min() <= 0:
        raise ValueError(
            "The expected score has no minimum near the posterior mean (its curvature is not "
            "positive): the posterior is not near normal, or the noise is too large. Take more "
            'repeats, or curvature="draws".'
        )
