"""NUTS on targets made deterministic: exact ones, and estimated ones with their noise frozen."""

from collections.abc import Mapping
from typing import Literal

import jax.numpy as jnp
import numpy as np

from .._checks import check_choice
from .._types import Array, Key
from ..targets import ScorePosterior, TargetNoise, sobol_noise, why_no_sobol, with_all_pairs
from ._base import check_differentiable
from ._nuts import AbstractNUTS, Density, Metric, check_settings

LARGEST_FREEZING_ERROR = 0.1  # of a mean, in posterior standard deviations


class FrozenNUTS(AbstractNUTS):
    r"""NUTS with the simulator's noise held fixed, a fresh freeze for each chain.

    With $z_{1..m}$ fixed the estimated target is a smooth, deterministic density of $u$ alone, and
    it targets the scoring-rule posterior itself: no step-size bias, no widening at small $m$, no
    stickiness. What is left is the error of the frozen noise, which the spread between chains
    shows: run several chains, and the run says how far their means lie apart.

    **Arguments:**

    - `noise`: `"sobol"`, a scrambled Sobol set pushed through the noise's quantile function, or
        `"iid"`, ordinary draws, which any simulator has and which take many more simulations for
        the same error.
    - `metric`: `"dense"`, `"diagonal"`, or `"auto"`: dense up to 32 coordinates.
    - `target_acceptance`, `max_doublings`: as for NUTS everywhere. Warm-up ends above the target
        (at 0.8 to 0.87 for 0.7 on g-and-k models, without divergences), and steps as short as 0.8
        asks for took up to 1.7 times as long for the same effective draws.
    - `step_size`, `inverse_mass`: learnt in warm-up; give both to skip it.

    ??? cite "References"
        Hoffman and Gelman (2014), *The No-U-Turn sampler*; Owen (1998), *Scrambling Sobol' points*.

    ```python
    >>> import genbayes as gb
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=128)
    >>> run = gb.sample(target, gb.FrozenNUTS(), num_samples=50, num_warmup=50, progress=False)
    >>> run.draws["mean"].shape
    (1, 50)

    ```
    """

    noise: Literal["sobol", "iid"] = "sobol"
    metric: Metric = "auto"
    target_acceptance: float = 0.7
    max_doublings: int = 10
    step_size: float | Array | None = None
    inverse_mass: Array | None = None

    def __init__(
        self,
        *,
        noise: Literal["sobol", "iid"] = "sobol",
        metric: Metric = "auto",
        target_acceptance: float = 0.7,
        max_doublings: int = 10,
        step_size: float | Array | None = None,
        inverse_mass: Array | None = None,
    ):
        check_choice("noise", noise, ("sobol", "iid"))
        self.noise = noise
        self.metric = metric
        self.target_acceptance = target_acceptance
        self.max_doublings = max_doublings
        self.step_size = step_size
        self.inverse_mass = inverse_mass
        check_settings(self)

    def check(self, target: ScorePosterior) -> None:
        check_differentiable(self, target)
        if target.is_exact:
            raise ValueError("The target is exact and has no noise to freeze: use NUTS().")
        reason = why_no_sobol(target) if self.noise == "sobol" else None
        if reason is not None:
            raise ValueError(
                f"Sobol noise does not apply: {reason}. Use FrozenNUTS(noise='iid') with many "
                "simulations, or give the simulator its noise as a distribution."
            )

    def _begin(self, key: Key, target: ScorePosterior) -> tuple[Array, TargetNoise]:
        noise = sobol_noise(key, target) if self.noise == "sobol" else target.draw_noise(key)
        return jnp.zeros(0), noise

    def _density(self, target: ScorePosterior, noise: TargetNoise | None) -> Density:
        assert noise is not None
        if self.noise == "sobol":  # points that avoid each other
            target = with_all_pairs(target)
        return target.freeze(noise)

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        found = super().findings(info, u)
        error = freezing_error(u)
        if error is not None and not np.all(error <= LARGEST_FREEZING_ERROR):
            found.append(
                f"The chains' means lie up to {np.max(error):.2f} posterior sds apart, more than "
                "Monte Carlo error explains: their frozen noise differs too much. Take more "
                'simulations per estimate (num_simulations), or noise="sobol", or another sampler.'
            )
        return found

    def remarks(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del info
        error = freezing_error(u)
        if error is None:
            return ["One chain cannot show the error of its frozen noise: num_chains=4 would."]
        return [
            "Between-freeze error of the means, beyond Monte Carlo error: at most "
            f"{np.max(error):.3f} posterior sds."
        ]


def freezing_error(u: np.ndarray) -> np.ndarray | None:
    """How far the means of chains lie apart beyond Monte Carlo error, in posterior sds, `(p,)`.

    It needs two chains at least, and is `None` for fewer; `u` is `(chain, draw, p)`.

    ```python
    >>> from genbayes.samplers import freezing_error
    >>> rng = np.random.default_rng(0)
    >>> alike, apart = rng.normal(size=(2, 1000, 1)), np.array([0.0, 1.0])[:, None, None]
    >>> bool(freezing_error(alike) < 0.1), bool(freezing_error(alike + apart) > 0.5)
    (True, True)

    ```
    """
    from .._convergence import ess_mean

    chains, draws, size = u.shape
    if chains < 2 or draws < 4:
        return None
    within = u.var(axis=1, ddof=1)  # (chain, p)
    ess = np.array([[ess_mean(u[c : c + 1, :, j]) for j in range(size)] for c in range(chains)])
    between = u.mean(axis=1).var(axis=0, ddof=1) - (within / ess).mean(axis=0)
    return np.sqrt(np.maximum(between, 0.0) / within.mean(axis=0))


class NUTS(AbstractNUTS):
    """The No-U-Turn sampler, for targets that are exact (`LogScore`): the reference.

    Arguments as for `FrozenNUTS`, without the noise; the target of the acceptance is the usual 0.8.

    ```python
    >>> import genbayes as gb
    >>> gb.NUTS(target_acceptance=0.9).metric
    'auto'

    ```
    """

    metric: Metric = "auto"
    target_acceptance: float = 0.8
    max_doublings: int = 10
    step_size: float | Array | None = None
    inverse_mass: Array | None = None

    def __init__(
        self,
        *,
        metric: Metric = "auto",
        target_acceptance: float = 0.8,
        max_doublings: int = 10,
        step_size: float | Array | None = None,
        inverse_mass: Array | None = None,
    ):
        self.metric = metric
        self.target_acceptance = target_acceptance
        self.max_doublings = max_doublings
        self.step_size = step_size
        self.inverse_mass = inverse_mass
        check_settings(self)

    def check(self, target: ScorePosterior) -> None:
        if not target.is_exact:
            raise ValueError(
                "NUTS needs a density without noise, and this target is estimated from draws. Use "
                "FrozenNUTS(), which holds the noise fixed."
            )

    def _begin(self, key: Key, target: ScorePosterior) -> tuple[Array, TargetNoise]:
        return jnp.zeros(0), target.draw_noise(key)

    def _density(self, target: ScorePosterior, noise: TargetNoise | None) -> Density:
        assert noise is not None
        return target.freeze(noise)
