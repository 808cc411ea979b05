"""One table of all scores: a new rule is tested by one line here."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from genbayes import kernels
from genbayes.scores import (
    AbstractScore,
    DawidSebastiani,
    EnergyScore,
    GaussianCopulaScore,
    KernelScore,
    LogScore,
    RatioEstimation,
    SemiparametricSyntheticLikelihood,
    SyntheticLikelihood,
    VariogramScore,
)


def normal_log_prob(theta, y):
    return -0.5 * jnp.sum((y - theta["mu"]) ** 2)


def reference(shift: float = 0.0) -> np.ndarray:
    return shift + np.random.default_rng(9).normal(scale=2.0, size=(80, 2))


def cosine(x, y):
    return jnp.prod(jnp.cos(x - y))


KERNELS: dict[str, kernels.AbstractKernel] = {
    "gaussian": kernels.Gaussian(1.5),
    "laplace": kernels.Laplace(1.5),
    "inverse multiquadric": kernels.InverseMultiquadric(1.5),
    "steep inverse multiquadric": kernels.InverseMultiquadric(1.5, exponent=1.2),
    "rational quadratic": kernels.RationalQuadratic(1.5, alpha=0.7),
    "matern 3/2": kernels.Matern32(1.5),
    "matern 5/2": kernels.Matern52(1.5),
    "sum": kernels.Gaussian(1.0) + 0.5 * kernels.Laplace(2.0),
    "custom": kernels.Custom(cosine),
    "sum with custom": kernels.Gaussian(1.0) + kernels.Custom(cosine),
}

SCORES: dict[str, Callable[[], AbstractScore]] = {
    "energy": EnergyScore,
    "energy, beta 0.7": lambda: EnergyScore(0.7),
    "gaussian kernel": lambda: KernelScore(KERNELS["gaussian"]),
    "sum of kernels": lambda: KernelScore(KERNELS["sum"]),
    "custom kernel": lambda: KernelScore(cosine),
    "mmd-bayes": lambda: KernelScore.mmd_bayes(kernels.Gaussian(1.0), beta=3.0, n=4),
    "dawid-sebastiani": DawidSebastiani,
    "synthetic likelihood": SyntheticLikelihood,
    "ledoit-wolf": lambda: SyntheticLikelihood(shrinkage="ledoit-wolf"),
    "warton": lambda: SyntheticLikelihood(shrinkage=0.3),
    "unbiased density": lambda: SyntheticLikelihood(unbiased_density=True),
    "semiparametric": SemiparametricSyntheticLikelihood,
    "copula": GaussianCopulaScore,
    "ratio, lasso": lambda: RatioEstimation(reference(), strength=0.01),
    "ratio, ridge": lambda: RatioEstimation(reference(), penalty="ridge", strength=0.01),
    "log": lambda: LogScore(normal_log_prob),
    "variogram": VariogramScore,
    "weighted variogram": lambda: VariogramScore(1.0, weights=jnp.ones((2, 2))),
    "weighted sum": lambda: 2.0 * EnergyScore() + 0.5 * VariogramScore() + DawidSebastiani(),
}

THETA = {"mu": jnp.zeros(())}


def data(m: int = 60, n: int = 4, d: int = 2, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Dependent normal draws and observations, in double precision."""
    rng = np.random.default_rng(seed)
    mix = np.eye(d) + 0.4 * np.tri(d)
    return rng.normal(size=(m, d)) @ mix.T, rng.normal(size=(n, d)) @ mix.T + 0.3
