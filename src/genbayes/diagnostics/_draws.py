"""What diagnostics share: a few draws of a run, and simulations at each of them."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_count
from .._types import Array, Theta
from ..runs import Run
from ..scores import AbstractScore
from ..targets import ScorePosterior, suits_sobol, with_all_pairs
from ..targets import over_draws as over_draws


class Picked(NamedTuple):
    """Draws of equal weight: parameters by name `(S, *shape)`, and unconstrained `(S, p)`."""

    theta: dict[str, np.ndarray]
    u: np.ndarray

    @property
    def size(self) -> int:
        """How many."""
        return self.u.shape[0]


def check_run(run: Any) -> None:
    """Refuse what is no run, and a run without draws."""
    if not isinstance(run, Run):
        raise TypeError(
            f"Expected a Run, got {type(run).__name__}. Draw one with genbayes.sample, or read a "
            "stored one with genbayes.load(path)."
        )
    if run.unconstrained.shape[0] * run.unconstrained.shape[1] == 0:
        raise ValueError("The run has no draws: go on with it (genbayes.resume), or draw again.")


def pick(run: Run, num: int | None, seed: int = 0) -> Picked:
    """At most `num` draws, spread evenly over all chains; all of them where `num` is `None`.

    A weighted run is resampled systematically, so that plain averages over what is picked are
    right for both kinds.
    """
    check_run(run)
    total = run.unconstrained.shape[0] * run.unconstrained.shape[1]
    if num is not None:
        check_count("num_draws", num)
    size = total if num is None else min(num, total)
    if run.weights is None:
        index = (np.arange(size) * total) // size
    else:
        steps = (np.arange(size) + np.random.default_rng(seed).random()) / size
        heights = np.cumsum(np.ravel(run.weights))
        index = np.searchsorted(heights, steps * heights[-1]).clip(max=total - 1)
    flat = {name: np.asarray(x) for name, x in run.draws.items()}
    theta = {name: x.reshape(total, *x.shape[2:])[index] for name, x in flat.items()}
    u = np.asarray(run.unconstrained)
    return Picked(theta, u.reshape(total, u.shape[2])[index])


def weighted_moments(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Mean `(p,)` and covariance `(p, p)` of the unconstrained draws, with their weights."""
    check_run(run)
    u = np.asarray(run.unconstrained, float)
    u = u.reshape(-1, u.shape[2])
    weights = run.weights
    share = np.full(len(u), 1 / len(u)) if weights is None else np.ravel(weights)
    mean = share @ u
    return mean, ((u - mean) * share[:, None]).T @ (u - mean)


def keys_of(seed: int, num: int) -> Array:
    """One key for each of some draws."""
    return jax.random.split(jax.random.key(seed), num)


class Scores(eqx.Module):
    r"""$\hat S(P_\theta, y_i)$ for each of some points `(n, d)`, as the score sees them."""

    target: ScorePosterior
    points: Array

    def __call__(self, theta: Theta, draws: Array | None) -> Array:
        score, simulator = scoring(self.target), self.target.problem.simulator
        features = None
        if score.needs_simulations:
            assert simulator is not None
            assert draws is not None
            features = simulator.features(draws)
        return score(features, self.points, theta)  # pyright: ignore[reportArgumentType]


def scoring(target: ScorePosterior) -> AbstractScore:
    """The score as the noise of `even` draws wants it."""
    return with_all_pairs(target).score if suits_sobol(target) else target.score


def need_simulator(target: ScorePosterior, what: str) -> None:
    """Refuse a target that cannot simulate."""
    if target.problem.simulator is None:
        raise ValueError(
            f"{what} needs draws of the simulator, and the problem has none: give the problem a "
            "Simulator (it may go with LogScore)."
        )


def scored_draws(target: ScorePosterior, num: int | None, most: int) -> int:
    """How many simulations a score is estimated from: as asked, or the target's, but not too many.

    Noise averages out over posterior draws as it does over simulations, and pairs of simulations
    cost more than draws.
    """
    if target.is_exact:
        return 0
    least = max(2, target.score.min_simulations)
    if num is None:
        return max(least, min(target.num_simulations, most))
    check_count("num_simulations", num, least)
    return num


def default_size(target: ScorePosterior, traceable: int, other: int) -> int:
    """How many of something, by whether simulations are compiled or run one by one."""
    return traceable if target.traceable else other


def as_points(target: ScorePosterior, points: Any, what: str) -> tuple[np.ndarray, Array]:
    """Points `(Z, *event)` as given, and as the score sees them `(Z, d)`."""
    array = np.asarray(points, float)
    event = target.problem.observations.shape[1:]
    if array.ndim == 0 or array.shape[1:] != event or array.shape[0] == 0:
        raise ValueError(
            f"{what} must have shape (number of points, *event) with the event shape {event} of an "
            f"observation, got shape {array.shape}."
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{what} must be finite numbers.")
    simulator = target.problem.simulator
    flat = jnp.asarray(array, float)
    seen = flat.reshape(len(array), -1) if simulator is None else simulator.features(flat)
    return array, seen
