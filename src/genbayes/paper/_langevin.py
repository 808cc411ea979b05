"""Three answers to one question: the published adSGLD, ours at its defaults, and the reference."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._table import Table
from .._tree import floats_to_arrays
from ..diagnostics import fresh_gradients, stein_discrepancy
from ..runs import Run, resume, sample
from ..samplers import AdSGLD, FrozenNUTS
from ..targets import ScorePosterior
from ..tuning import Bandit, Optimise
from ._chains import digest
from ._experiment import Comparison, Result, Scale

DIFFUSION = 0.01  # the published constant, in the rescaled form of the code
MOST_HALVINGS = 10
ADAM = Optimise(steps=250, learning_rate=0.01)
# Ours takes fewer steps: its draws are less correlated, and nothing published is compared with them
OUR_SHARE, OUR_WARMUP = 0.2, 2000
REFERENCE_CHAINS, REFERENCE_WARMUP, REFERENCE_DRAWS = 4, 300, 500
LEAST_SIMULATIONS = 128  # of the reference, where only a glance is taken

# the published race: 14 arms, 4 go on, 1 is chosen
ARMS = tuple(float(10 ** (-0.5 * j)) for j in range(2, 16))
SURVIVORS, REPEATS = 4, 3
# 2.5 and 8.75 seconds at the 109 steps a second that the authors' notebooks show
FIRST_ROUND, SECOND_ROUND = 270, 950
EVERY = 3  # of a race's draws, those whose gradient is taken

SETTINGS = {
    "published sampler": "adSGLD, Euler. Published step sizes dt are squares: "
    "epsilon = sqrt(dt), diffusion 0.01 / sqrt(dt). A step that fails halves dt and begins again",
    "ours": "AdSGLD with its defaults (symmetric splitting, Sobol noise, diffusion measured in "
    "warm-up), a fifth of the steps",
    "reference": f"frozen-noise NUTS on Sobol sets, {REFERENCE_CHAINS} freezes of "
    f"{REFERENCE_DRAWS} draws",
}


def published_adsgld(dt: float) -> AdSGLD:
    """The published sampler at a published step size.

    ```python
    >>> published_adsgld(0.01).step_size, published_adsgld(0.01).integrator
    (0.1, 'euler')

    ```
    """
    return AdSGLD(dt**0.5, diffusion=DIFFUSION / dt**0.5, integrator="euler")


def published_run(target: ScorePosterior, dt: float, **settings: Any) -> tuple[Run, float]:
    """A run of it, and the step size that it needed: where a step fails, half of it."""
    for _ in range(MOST_HALVINGS):
        run = sample(target, published_adsgld(dt), progress=False, **settings)
        if not np.any(run.info["refused"]) and run.unconstrained.shape[1] == run.plan.num_samples:
            return run, dt
        dt = dt / 2
    raise RuntimeError(f"The published sampler fails at every step size down to {2 * dt:.1e}.")


def published_chain(
    target: ScorePosterior, dt: float, kept: int, warmup: int, start: Any, seed: int = 1
) -> Result:
    """Numbers and draws of a published chain, with the step size that it ended at."""
    run, used = published_run(
        target, dt, num_samples=kept, num_warmup=warmup, start=start, seed=seed
    )
    return {**digest(run), "dt": np.array(used)}


def our_chain(
    target: ScorePosterior, step_size: float | Bandit, kept: int, start: Any, scale: Scale
) -> Result:
    """Our sampler at its defaults."""
    run = sample(
        target, AdSGLD(step_size), num_samples=max(100, round(OUR_SHARE * kept)),
        num_warmup=scale.steps(OUR_WARMUP), start=start, seed=2, progress=False,
    )  # fmt: skip
    assert isinstance(run.sampler, AdSGLD)
    return {**digest(run), "dt": np.array(run.sampler.step_size**2)}


def reference(target: ScorePosterior, num_simulations: int, start: Any, scale: Scale) -> Result:
    """The scoring-rule posterior: NUTS at fixed noise, each chain with a set of its own."""
    m = LEAST_SIMULATIONS if scale.few else num_simulations
    target = eqx.tree_at(lambda t: t.num_simulations, target, m)
    run = sample(
        target, FrozenNUTS(), num_samples=scale.steps(REFERENCE_DRAWS, least=20),
        num_warmup=scale.steps(REFERENCE_WARMUP, least=20), num_chains=REFERENCE_CHAINS,
        chain_method="sequential", start=start, seed=3, progress=False,
    )  # fmt: skip
    u = np.asarray(run.unconstrained).reshape(-1, target.size)
    narrowest = np.linalg.eigvalsh(np.cov(u.T))[0] ** 0.5
    return {**digest(run), "narrowest": np.array(narrowest)}


def race(target: ScorePosterior, scale: Scale) -> Result:
    """The published race for a step size, several times: the chosen dt of each.

    An arm is judged by the kernelised Stein discrepancy of the draws of the round, and is out once
    a step fails. The published budget is in seconds; here it is in the steps that these were.
    """
    first, second = scale.steps(FIRST_ROUND, least=30), scale.steps(SECOND_ROUND, least=60)
    u = ADAM.find_start(jax.random.key(7), floats_to_arrays(target))
    start = target.problem.prior.constrain(u)
    arms, repeats = (ARMS[2:5], 2) if scale.few else (ARMS, REPEATS)
    settings: dict[str, Any] = {"num_chains": repeats, "start": start, "seed": 7, "progress": False}
    settings["chain_method"] = "sequential"  # the program of the long chain serves
    runs = [sample(target, published_adsgld(dt), num_samples=first, **settings) for dt in arms]
    losses = np.array([_losses(target, run, slice(0, None)) for run in runs])  # (arm, repeat)
    kept = np.argsort(losses, axis=0, kind="stable")[:SURVIVORS]
    final = np.full(losses.shape, np.inf)
    for arm in np.unique(kept):
        run = resume(runs[arm], num_samples=first + second, progress=False)
        among = np.any(kept == arm, axis=0)
        final[arm] = np.where(among, _losses(target, run, slice(first, None)), np.inf)
    chosen = np.array(arms)[np.argmin(final, axis=0)]
    return {"dt": chosen, "losses": losses, "final": final}


def _losses(target: ScorePosterior, run: Run, draws: slice) -> np.ndarray:
    """The discrepancy of each chain of an arm; infinite where it failed."""
    u = np.asarray(run.unconstrained)[:, draws][:, ::EVERY]
    failed = np.any(run.info["refused"], axis=1) | ~np.isfinite(u).all(axis=(1, 2))
    if u.shape[1] == 0:  # stopped, since most steps failed
        return np.full(len(u), np.inf)
    gradients = fresh_gradients(
        target, np.where(failed[:, None, None], 0.0, u).reshape(-1, u.shape[-1]),
        num_simulations=target.num_simulations,
    ).reshape(u.shape)  # fmt: skip
    pairs = zip(u, gradients, failed, strict=True)
    fine = [not bad and np.isfinite(s).all() for _, s, bad in pairs]
    return np.array(
        [stein_discrepancy(x, s) if ok else np.inf
         for x, s, ok in zip(u, gradients, fine, strict=True)]
    )  # fmt: skip


def compare_step_size(where: str, published: float, found: Result, note: str) -> Comparison:
    """A published step size beside those of our races, as powers of ten.

    Neighbours on the grid are half a unit apart, so that half of that is left to rounding; where
    all races chose alike, their spread is taken to be a quarter.
    """
    powers = np.log10(found["dt"])
    spread = max(float(np.std(powers, ddof=1)), 0.25)
    return Comparison(
        f"{where}: log10 of the step size", float(np.log10(published)), float(powers.mean()),
        spread * (1 + 1 / len(powers)) ** 0.5, rounding=0.25, exact=True,
        note=note,
    )  # fmt: skip


def answer_rows(where: tuple, found: Mapping[str, Result]) -> list[tuple]:
    """A row for each sampler: mean and sd by parameter, and the sds as ratios to the last one's."""
    last = list(found)[-1]
    rows = []
    for label, result in found.items():
        pairs = zip(result["mean"][0], result["sd"][0], strict=True)
        ratios = result["sd"][0] / found[last]["sd"][0]
        span = "" if label == last else f"{ratios.min():.2f} to {ratios.max():.2f}"
        rows.append((*where, label, *(f"{mean:.3g} ± {sd:.2g}" for mean, sd in pairs), span))
    return rows


def answer_table(rows: list[tuple], where: tuple[str, ...], names: tuple[str, ...]) -> Table:
    """The table of those rows."""
    return Table(
        (*where, "sampler", *names, "sd / reference"), rows,
        "Which is right: mean ± sd of each parameter",
    )  # fmt: skip


def ratio_point(x: float, found: Result, exact: Result) -> tuple[float, float, float, float]:
    """A point of the picture of sd ratios: where, the mean over parameters, least and largest."""
    ratios = found["sd"][0] / exact["sd"][0]
    return x, float(ratios.mean()), float(ratios.min()), float(ratios.max())
