"""What each observation does to the posterior: leaving it out, by reweighting the draws."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._result import AbstractResult
from .._table import Table
from ..runs import Run
from ..targets import ScorePosterior
from ._draws import Scores, default_size, keys_of, over_draws, pick, scored_draws
from ._influence import left_out_note, point_label, scalar_draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 0.1  # effective share of draws below which a reweighting is not to be trusted
SHOWN = 10
MOST_PARAMETERS = 6


@dataclass(frozen=True)
class ObservationInfluence(AbstractResult):
    r"""What leaving out each observation would do to the posterior.

    - `shift`: change of each posterior mean, in posterior sds, `(n, p)`; `names`: of the columns.
    - `divergence`: $\mathrm{KL}(\pi \,\|\, \pi_{-i})$, `(n,)`: of all parameters together.
    - `score`: the posterior mean of $S(P_\theta, y_i)$, `(n,)`: how ill an observation fits.
    - `reliability`: effective share of the draws after reweighting, `(n,)`.
    """

    observations: np.ndarray
    names: tuple[str, ...]
    shift: np.ndarray
    divergence: np.ndarray
    score: np.ndarray
    reliability: np.ndarray
    left_out: int

    @property
    def largest(self) -> np.ndarray:
        """The observations from the most to the least influential."""
        return np.argsort(-np.abs(self.shift).max(axis=1))

    @property
    def findings(self) -> tuple[str, ...]:
        """What there is to worry about, in words."""
        strong = np.flatnonzero(np.abs(self.shift).max(axis=1) > 1)
        if not len(strong):
            return ()
        some = ", ".join(map(str, strong[:6])) + (" and more" if len(strong) > 6 else "")
        return (f"Leaving out a single observation moves a mean by over an sd: rows {some}.",)

    @property
    def most_moved(self) -> np.ndarray:
        """The parameters that move most, at most six, in their order."""
        return np.sort(np.argsort(-np.abs(self.shift).max(axis=0))[:MOST_PARAMETERS])

    def table(self) -> Table:
        """The most influential observations."""
        some = self.most_moved
        rows = [
            (
                int(i), point_label(self.observations[i]), *map(float, self.shift[i, some]),
                float(self.divergence[i]), float(self.score[i]), float(self.reliability[i]),
            )
            for i in self.largest[:SHOWN]
        ]  # fmt: skip
        notes = [
            *(f"! {f}" for f in self.findings),
            "shifts of the posterior means, in posterior sds, if the row is left out",
        ]
        poor = int((self.reliability < FEW).sum())
        if poor:
            notes.append(
                f"! {poor} rows move the posterior so far that reweighting is unreliable "
                f"(effective share under {FEW:.0%}): sample without them to know."
            )
        if len(some) < len(self.names):
            notes.append(f"the {len(some)} of {len(self.names)} parameters that move most")
        notes += left_out_note(self.left_out)
        names = [self.names[j] for j in some]
        heads = ("row", "observation", *names, "KL", "score", "effective share")
        return Table(heads, rows, "Influence of observations", notes)

    def plot(self) -> "Figure":
        """The shift of each posterior mean by observation."""
        from .._figure import COLOURS, INK, panels

        some = self.most_moved
        names = [f"shift of {self.names[j]}, in sds" for j in some]
        figure, axes = panels(names, columns=3, size=(3.4, 2.2))
        for ax, column in zip(axes, self.shift.T[some], strict=True):
            ax.axhline(0.0, color=INK, linewidth=0.8)
            ax.vlines(np.arange(len(column)), 0, column, color=COLOURS[0], linewidth=1.2)
            ax.set_xlabel("observation", color=INK)
        return figure


def observation_influence(
    run: Run,
    *,
    num_draws: int | None = None,
    num_simulations: int | None = None,
    target: ScorePosterior | None = None,
    seed: int = 0,
) -> ObservationInfluence:
    r"""Leave-one-out influence of each observation, without sampling again.

    $$\pi_{-i}(\theta) \propto \pi(\theta \mid y)\, e^{\,w S(P_\theta, y_i)}$$

    so posterior draws with weights $e^{w S_i}$ are draws of the posterior without row $i$.

    **Arguments:**

    - `run`: a `Run`. `target`: the target of a run that was read from disk.
    - `num_draws`, `num_simulations`: 1000 posterior draws with the target's number of simulations,
        at most 200; 100 and at most 50 where simulations are not compiled. `seed`: of these.

    It points at observations that carry the posterior: outliers, slips of the pen, or simply the
    few informative ones. It leaves out one row at a time: outliers in a group may mask one another.
    With `reliability` below 0.1 the reweighted means are rough, though the ranking stands.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location(contamination=0.1).problem(num_observations=10)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> found = gb.diagnostics.observation_influence(run)
    >>> int(found.score.argmax())  # the outlier
    9

    ```

    Reference: Gelfand, Dey and Chang (1992), Model determination using predictive distributions,
    Bayesian Statistics 4; Peruggia (1997), JASA 92, on when such weights fail.
    """
    target = run.need_target(target) if isinstance(run, Run) else target
    size = num_draws if num_draws is not None or target is None else default_size(target, 1000, 100)
    picked = pick(run, size, seed)
    assert target is not None
    num = scored_draws(target, num_simulations, default_size(target, 200, 50))
    function = Scores(target, target.prepared.values)
    keys = keys_of(seed, picked.size)
    scores = over_draws(function, target, picked.theta, keys, num, even=True).astype(float)
    fine = np.isfinite(scores).all(axis=1)
    if fine.sum() < 2:
        raise ValueError("Hardly any draw gave finite scores: look at the run's warnings.")
    names, x = scalar_draws(picked.theta)
    logs = float(target.weight) * scores[fine]
    shift, divergence, share = _left_out(logs, x[fine])
    return ObservationInfluence(
        np.asarray(target.problem.observations), names, shift, divergence,
        scores[fine].mean(axis=0), share, int((~fine).sum()),
    )  # fmt: skip


def _left_out(logs: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shifts, divergences and effective shares from log weights `(S, n)` and draws `(S, p)`."""
    top = logs.max(axis=0)
    weights = np.exp(logs - top)
    total = weights.sum(axis=0)
    means = (weights / total).T @ x
    spread = x.std(axis=0)
    shift = (means - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    divergence = np.log(total / len(x)) + top - logs.mean(axis=0)
    return shift, divergence, total**2 / (weights**2).sum(axis=0) / len(x)
