"""Results of diagnostics with all that plots show, made without sampling."""

import numpy as np

from genbayes.diagnostics import (
    KSD,
    Coverage,
    PosteriorInfluence,
    Predictive,
    PredictiveScores,
    over_data_sets,
)
from genbayes.samplers import SGLD
from genbayes.tuning import StepSize
from genbayes.tuning._step_size import Round


def made_ksd(seed: int, bias: float = 0.0) -> KSD:
    sizes = np.arange(100, 3001, 100)
    noise = np.exp(0.05 * np.random.default_rng(seed).normal(size=sizes.size))
    path = (1 / np.sqrt(sizes) + bias) * noise
    settings = {
        "form": "vector", "statistic": "V", "c": 1.0, "beta": -0.5, "gradients": "exact",
        "per_dimension": False, "num_simulations": 500, "scale": None,
    }  # fmt: skip
    return KSD(path[-1], sizes, path, np.ones(2), ("A", "B"), settings, 3000, 0)


def made_influence(seed: int, robust: bool = True) -> PosteriorInfluence:
    rng, z = np.random.default_rng(seed), np.linspace(-10, 10, 41)
    curve = np.tanh(z / 2) if robust else z / 3
    mean = curve[:, None] + 0.2 * np.cumsum(rng.normal(size=(41, 2)), axis=0)
    return PosteriorInfluence(
        z, ("A", "B"), mean, 0.1 * abs(mean), 0 * mean, abs(curve), mean, rng.normal(size=(2, 2)),
        np.ones(2), None, 0,
    )  # fmt: skip


def made_coverage(seed: int, power: float = 1.0) -> Coverage:
    claimed = np.random.default_rng(seed).random((150, 3)) ** power
    levels = np.array([0.5, 0.8, 0.9, 0.95])
    return Coverage(
        claimed, ("A", "B", "all together"), levels, np.zeros(2), np.ones(2), ("a note",)
    )


def made_predictive(seed: int, shift: float = 0.0, event: tuple[int, ...] = (12, 2)) -> Predictive:
    rng = np.random.default_rng(seed)
    level = np.sin(np.arange(np.prod(event, dtype=int)) / 3).reshape(event)
    simulations = level + shift + rng.normal(size=(200, 1, *event))
    return Predictive(simulations, level + rng.normal(size=(3, *event)), 0)


def made_scores(seed: int, shift: float = 0.0) -> PredictiveScores:
    draws = np.linspace(1, 3, 20) + shift + 0.2 * np.random.default_rng(seed).normal(size=(50, 20))
    return PredictiveScores(draws.mean(axis=0), draws, 0, "EnergyScore of forecasts")


def made_over(seed: int):
    several = {
        k: [made_scores(seed + j, s + 0.1 * j) for j in range(5)] for k, s in METHODS.items()
    }
    return over_data_sets(several)


METHODS = {"one": 0.0, "another": 0.6}


def made_step_size(seed: int) -> StepSize:
    arms = np.array([0.1, 0.03, 0.01, 0.003, 0.001])
    noise = np.exp(0.5 * np.random.default_rng(seed).normal(size=5))
    losses = np.array([np.inf, 0.9, 0.3, 0.4, 1.2]) * noise
    rounds = (
        Round(arms, losses, np.array([1.0, 0, 0, 0, 0]), 1000),
        Round(arms[2:4], np.array([0.12, 0.2]) * noise[2:4], np.zeros(2), 4000),
    )
    return StepSize(0.01, SGLD(0.01), rounds, 100, 1.0)
