"""Synthetic likelihoods on twenty observations of the multivariate g-and-k: chains that stick.

Ten starts with m = 500, and one chain for each m up to 30 000, by the published sampler.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from .._table import Table
from ..runs import sample
from ..samplers import longest_stay
from ._data import Data
from ._experiment import Cell, Comparison, Experiment, Findings, Picture, Result, Scale
from ._figures import chains
from ._models import MODELS, Model
from ._published_sampler import DriftingPseudoMarginal
from ._statistics import jackknife

NUM_OBSERVATIONS, STEPS, STARTS = 20, 10_000, 10
GROUPS = 500
PROPOSAL_VARIANCE = 0.4
M = (500, 1000, 1500, 2000, 2500, 3000, 30_000)
METHODS = ("BSL", "semiBSL")
MOST_SHOWN = 1000  # points of a trace

# acceptance rates by m, and half a unit of their last digit
PUBLISHED = {
    "BSL": (0.006, 0.011, 0.033, 0.0099, 0.018, 0.0075, 0.051),
    "semiBSL": (0.007, 0.0034, 0.0037, 0.0028, 0.0042, 0.0036, 0.0092),
}
ROUNDING = {
    "BSL": (5e-4, 5e-4, 5e-4, 5e-5, 5e-4, 5e-5, 5e-4),
    "semiBSL": (5e-4, 5e-5, 5e-5, 5e-5, 5e-5, 5e-5, 5e-5),
}


def _model() -> Model:
    return MODELS["multi_gk"]


def cells(scale: Scale, data: Data) -> list[Cell]:
    """Ten starts together for each method, and a chain for each method and m."""
    observations, found = data.get(_model().data, NUM_OBSERVATIONS), []
    for method in METHODS:
        work = partial(published_chains, method, observations, M[0], scale.steps(STEPS), STARTS, 0)
        seconds = _model().chain_seconds(method, M[0])
        programs = "sticky {}, m = {}".format
        found.append(Cell(f"{method}-starts", work, seconds, programs(method, M[0])))
        for m in M[:1] if scale.few else M:
            work = partial(published_chains, method, observations, m, scale.steps(STEPS), 1, 1)
            load = seconds / STARTS * m / M[0]
            found.append(Cell(f"{method}-{m}", work, load, programs(method, m)))
    return found


def published_chains(
    method: str, observations: np.ndarray, num_simulations: int, steps: int, starts: int, seed: int
) -> Result:
    """Chains of the published sampler from prior draws, nothing burnt in."""
    target = _model().target(method, observations, num_simulations)
    sampler = DriftingPseudoMarginal(PROPOSAL_VARIANCE**0.5, groups=GROUPS)
    run = sample(
        target, sampler, num_samples=steps, num_chains=starts, seed=seed,
        chain_method="sequential", progress=False,
    )  # fmt: skip
    accepted = np.asarray(run.info["accepted"]) > 0
    every = max(1, steps // MOST_SHOWN)
    theta = np.stack([np.asarray(x) for x in run.draws.values()], axis=-1)
    return {
        "traces": theta[:, ::every].astype(np.float32),
        "acceptance": np.array([jackknife(np.mean, chain) for chain in accepted]),
        "stays": np.array([longest_stay(chain) for chain in accepted]),
        "simulations": np.array(run.cost.simulator_calls),
    }


def findings(results: Mapping[str, Result], scale: Scale, data: Data) -> Findings:
    """The acceptance table, and the traces."""
    del data
    comparisons, rows, pictures = [], [], []
    names = _model().task.prior.coordinate_names
    for method in METHODS:
        starts = results[f"{method}-starts"]
        caption = (
            f"{method}, m = {M[0]}: {STARTS} chains from prior draws. The longest stay of any is "
            f"{int(np.max(starts['stays'])):,} of {scale.steps(STEPS):,} steps."
        )
        pictures.append(Picture(chains(starts["traces"], names), caption))
        for at, m in enumerate(M[:1] if scale.few else M):
            found = results[f"{method}-{m}"]
            rate, error = (float(x) for x in found["acceptance"][0])
            comparisons.append(
                Comparison(
                    f"{method}, m = {m}: acceptance",
                    PUBLISHED[method][at],
                    rate,
                    error,
                    ROUNDING[method][at],
                )
            )
            rows.append((method, m, rate, int(found["stays"][0])))
    columns = ("score", "m", "acceptance", "longest stay")
    return Findings(comparisons, pictures, [Table(columns, rows, "One chain for each m")], [REMARK])


REMARK = (
    "A chain that sticks has an acceptance rate that depends on where it stuck: its error from "
    "blocks of one chain is too small, and single published chains differ by chance. The text says "
    "that semiBSL was not run at m = 30 000, its table has a value."
)

EXPERIMENT = Experiment(
    name="bsl_sticky",
    title="Synthetic likelihoods: chains that stick",
    section="Appendix: increasing the number of simulations for BSL and semiBSL",
    observations=(MODELS["multi_gk"].data,),
    settings={
        "observations": f"{NUM_OBSERVATIONS}, multivariate g-and-k",
        "sampler": "correlated pseudo-marginal Metropolis as published, "
        f"{GROUPS} groups, proposals of variance {PROPOSAL_VARIANCE}",
        "steps": f"{STEPS:,}, none burnt in",
        "covariance of BSL": "Ledoit-Wolf shrinkage, as in the published code",
    },
    cells=cells,
    findings=findings,
)
