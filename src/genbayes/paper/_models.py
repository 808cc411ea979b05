"""The g-and-k models and the scores with the weights that the pseudo-marginal studies used."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..kernels import Gaussian
from ..problem import Problem
from ..scores import (
    AbstractScore,
    EnergyScore,
    KernelScore,
    SemiparametricSyntheticLikelihood,
    SyntheticLikelihood,
)
from ..targets import ScorePosterior
from ..tasks import Task, g_and_k


@dataclass(frozen=True)
class Method:
    """A score with its weight."""

    score: AbstractScore
    weight: float = 1.0
    seconds: tuple[float, float] = (6.0, 1.0)  # see `chain_seconds`


UNIVARIATE = {
    "BSL": Method(SyntheticLikelihood()),
    "kernel": Method(KernelScore(Gaussian(5.50)), 18.30, (5.0, 12.0)),
    "energy": Method(EnergyScore(), 0.35, (5.0, 3.0)),
}
MULTIVARIATE = {
    # the published code shrinks the covariance in five dimensions; the text does not say so
    "BSL": Method(SyntheticLikelihood(shrinkage="ledoit-wolf")),
    "semiBSL": Method(SemiparametricSyntheticLikelihood(), seconds=(10.0, 60.0)),
    "kernel": Method(KernelScore(Gaussian(52.37)), 52.29, (10.0, 25.0)),
    "energy": Method(EnergyScore(), 0.16, (10.0, 27.0)),
}
WEIGHTS = (
    "univariate 0.35 (energy), 18.30 (kernel, bandwidth 5.50); multivariate 0.16 (energy), 52.29 "
    "(kernel, bandwidth 52.37); 1 for BSL and semiBSL"
)


@dataclass(frozen=True)
class Model:
    """A model with the key of its observations."""

    title: str
    task: Task
    data: str
    methods: Mapping[str, Method]

    @property
    def simulator(self) -> str:
        """What models share that differ by their observations alone."""
        return f"{self.task.prior.size} parameters"

    def chain_seconds(self, method: str, num_simulations: int) -> float:
        """Processor seconds of 110 000 steps, roughly: some, and more with the pairs of draws."""
        fixed, pairs = self.methods[method].seconds
        return fixed + pairs * (num_simulations / 1000) ** 2

    def target(self, method: str, observations: np.ndarray, num_simulations: int) -> ScorePosterior:
        """The posterior of a method, from observations `(n, d)`."""
        found = self.methods[method]
        return ScorePosterior(
            problem(self.task, observations), found.score, weight=found.weight,
            num_simulations=num_simulations,
        )  # fmt: skip


def problem(task: Task, observations: np.ndarray) -> Problem:
    """A task with observations `(n, d)`, scalar where the simulator's draws are."""
    scalar = observations.shape[1] == 1
    return Problem(task.prior, task.simulator, observations[:, 0] if scalar else observations)


MODELS = {
    "uni_gk": Model("univariate g-and-k", g_and_k.univariate(), "pm_uni_gk", UNIVARIATE),
    "uni_cauchy": Model(
        "univariate g-and-k, Cauchy data", g_and_k.univariate(cauchy=True), "pm_uni_cauchy",
        UNIVARIATE,
    ),
    "multi_gk": Model("multivariate g-and-k", g_and_k.multivariate(), "pm_mv_gk", MULTIVARIATE),
    "multi_cauchy": Model(
        "multivariate g-and-k, Cauchy data", g_and_k.multivariate(cauchy=True), "pm_mv_cauchy",
        MULTIVARIATE,
    ),
}  # fmt: skip
