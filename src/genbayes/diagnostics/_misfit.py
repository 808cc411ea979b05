"""Is the observed data within the simulator's reach? Two-sample tests by permutation."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._checks import check_count
from .._result import AbstractResult
from .._table import Table
from .._types import Array, Theta
from ..problem import AbstractSimulator
from ..runs import Run
from ..targets import ScorePosterior
from ._draws import default_size, keys_of, need_simulator, over_draws, pick
from ._permutation import data_set_test, sample_test, scale_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALARM = 0.01
MOST_OBSERVATIONS = 500  # that the posterior-predictive tests look at
MOST_IN_A_SET = 25  # that the prior-predictive tests look at


class Test(NamedTuple):
    """One test: what was observed, and the same statistic where labels are exchanged."""

    predictive: str
    distance: str
    statistic: float
    null: np.ndarray

    @property
    def p_value(self) -> float:
        """The share of exchanges at least as far apart, the observed labelling among them."""
        return float((1 + np.sum(self.null >= self.statistic)) / (1 + len(self.null)))


@dataclass(frozen=True)
class Misfit(AbstractResult):
    """Whether observations look like draws of the simulator, under the prior and the posterior.

    - `tests`: energy distance and MMD, prior and posterior predictive.
    - `failed`: the share of simulations that were not finite. `simulations`, `seconds`: the cost.
    """

    tests: tuple[Test, ...]
    failed: float
    simulations: int
    seconds: float

    @property
    def p_values(self) -> dict[tuple[str, str], float]:
        """By predictive distribution and distance."""
        return {(t.predictive, t.distance): t.p_value for t in self.tests}

    @property
    def findings(self) -> tuple[str, ...]:
        """What there is to worry about, in words; empty where nothing is."""
        says = {
            "prior": "The observations lie outside what the simulator gives under the prior: check "
            "units, the prior's range and the simulator.",
            "posterior": "The observations do not look like draws of the fitted simulator: it "
            "cannot give such data, or the posterior is far wider than the data allow.",
        }
        found = []
        for which, words in says.items():
            small = [t.p_value for t in self.tests if t.predictive == which]
            if small and min(small) <= ALARM:
                found.append(f"{words} (p = {min(small):.2g})")
        if self.failed > 0:
            found.append(f"{self.failed:.1%} of the simulations were not finite.")
        return tuple(found)

    def table(self) -> Table:
        """One row a test, and the findings."""
        rows = [(t.predictive, t.distance, float(t.statistic), t.p_value) for t in self.tests]
        notes = [f"! {f}" for f in self.findings] or ["Nothing that the tests could see."]
        notes.append(f"{self.simulations:,} simulations, {self.seconds:.1f} s")
        heads = ("predictive", "distance", "statistic", "p")
        return Table(heads, rows, "Is the data within the simulator's reach?", notes)

    def plot(self) -> "Figure":
        """The statistic among its values under exchange of labels, for each test."""
        from .._figure import COLOURS, panels

        names = [
            f"{t.predictive} predictive, {t.distance}: p = {t.p_value:.2g}" for t in self.tests
        ]
        figure, axes = panels(names, columns=2, size=(3.8, 2.2))
        for ax, test in zip(axes, self.tests, strict=True):
            ax.hist(test.null, bins=30, color=COLOURS[0], alpha=0.5)
            ax.axvline(test.statistic, color=COLOURS[1], linewidth=2)
            ax.set_yticks([])
        return figure


def misfit(
    run: Run,
    *,
    num_draws: int | None = None,
    num_data_sets: int | None = None,
    num_permutations: int = 999,
    target: ScorePosterior | None = None,
    seed: int = 0,
) -> Misfit:
    r"""Is the observed data within the simulator's reach? Energy-distance and MMD tests.

    **Posterior predictive.** The $n$ observations against one simulation at each of `num_draws`
    posterior draws; the $p$-value comes from exchanging labels between the two samples.

    **Prior predictive.** All observations share one parameter, so single observations are not
    exchangeable with prior-predictive draws, but whole data sets are: the observed one is ranked
    among `num_data_sets` simulated ones, each at a parameter drawn from the prior, by its distance
    to all the others together.

    Distances are between what the score sees (after `summary`), each coordinate divided by its
    interquartile range; the MMD has a Gaussian kernel with the median distance as its bandwidth.

    **Arguments:**

    - `run`: a `Run`. `target`: the target of a run that was read from disk.
    - `num_draws`, `num_data_sets`: 500 and 200; 100 and 40 where simulations are not compiled.
    - `num_permutations`: of the posterior-predictive tests. `seed`: of everything.

    Data sets of the prior-predictive tests hold at most 25 of the observations, and the
    posterior-predictive ones look at 500 at most, chosen at random.

    The prior test is exact: its $p$-value is uniform where prior and simulator are right. The
    posterior test is conservative, because the posterior was fitted to the same data: a large $p$
    does not prove a good fit, least of all with few observations. Neither sees dependence between
    observations, nor a deviation that is small beside the noise of $n$ observations.

    ```python
    >>> import genbayes as gb
    >>> task = gb.tasks.normal_location()
    >>> target = gb.ScorePosterior(task.problem(), gb.EnergyScore(), num_simulations=50)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=200, progress=False)
    >>> gb.diagnostics.misfit(run).findings
    ()

    ```

    Reference: Székely and Rizzo (2004), Testing for equal distributions in high dimension,
    InterStat 5; Gretton et al. (2012), A kernel two-sample test, JMLR 13; Box (1980), Sampling and
    Bayes' inference in scientific modelling and robustness, JRSS A 143.
    """
    begun = time.perf_counter()
    check_count("num_permutations", num_permutations, 19)
    target = run.need_target(target) if isinstance(run, Run) else target
    picked = pick(run, _or(num_draws, target, 500, 100, "num_draws"), seed)
    assert target is not None
    need_simulator(target, "A test of misfit")
    sets = _or(num_data_sets, target, 200, 40, "num_data_sets")
    rng = np.random.default_rng(seed)
    y = np.asarray(target.problem.features(), float)
    features = _Features(target.problem.simulator)
    x = over_draws(features, target, picked.theta, keys_of(seed, picked.size), 1)[:, 0]
    prior, in_a_set = _prior_sets(features, target, sets, min(len(y), MOST_IN_A_SET), seed)
    fine, fine_sets = np.isfinite(x).all(axis=1), np.isfinite(prior).all(axis=(1, 2))
    if not (fine.any() and fine_sets.sum() > 1):
        raise ValueError("The simulator gave no finite draws: run genbayes.check on the problem.")
    failed = [~np.isfinite(a).all(axis=-1).ravel() for a in (x, prior)]
    posterior_tests = _posterior(y, x[fine], num_permutations, rng)
    prior_tests = _prior(y, prior[fine_sets], rng)
    return Misfit(
        (*prior_tests, *posterior_tests), float(np.concatenate(failed).mean()),
        picked.size + sets * in_a_set, time.perf_counter() - begun,
    )  # fmt: skip


def _or(
    given: int | None, target: ScorePosterior | None, compiled: int, slow: int, name: str
) -> int:
    if given is not None:
        check_count(name, given, 20)
        return given
    return compiled if target is None else default_size(target, compiled, slow)


class _Features(eqx.Module):
    """Simulations as the score sees them."""

    simulator: AbstractSimulator | None

    def __call__(self, theta: Theta, draws: Array | None) -> Array:
        del theta
        assert draws is not None
        assert self.simulator is not None
        return self.simulator.features(draws)


def _prior_sets(
    features: "_Features", target: ScorePosterior, sets: int, size: int, seed: int
) -> tuple[np.ndarray, int]:
    key_theta, key_sets = jax.random.split(jax.random.key(seed + 1))
    theta = {k: np.asarray(v) for k, v in target.problem.prior.sample(key_theta, sets).items()}
    return over_draws(features, target, theta, jax.random.split(key_sets, sets), size), size


def _posterior(
    y: np.ndarray, x: np.ndarray, permutations: int, rng: np.random.Generator
) -> list[Test]:
    y = y if len(y) <= MOST_OBSERVATIONS else rng.choice(y, MOST_OBSERVATIONS, replace=False)
    scale = scale_of(np.concatenate([y, x]))
    found = sample_test(y / scale, x / scale, permutations, rng)
    return [Test("posterior", name, *parts) for name, parts in found.items()]


def _prior(y: np.ndarray, sets: np.ndarray, rng: np.random.Generator) -> list[Test]:
    some = y if len(y) == sets.shape[1] else rng.choice(y, sets.shape[1], replace=False)
    together = np.concatenate([some[None], sets])
    found = data_set_test(together / scale_of(together.reshape(-1, y.shape[1])))
    return [Test("prior", name, *parts) for name, parts in found.items()]
