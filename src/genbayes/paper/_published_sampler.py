"""Correlated pseudo-marginal Metropolis as the published numbers were made."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from .._checks import check_count, check_positive
from .._types import Array, Bool, Key, Scalar, Unconstrained
from ..samplers import AbstractSampler
from ..targets import ScorePosterior, TargetNoise


class DriftingState(NamedTuple):
    """Position, its accepted estimate, and noise that has drifted on since."""

    u: Unconstrained
    log_density: Scalar
    noise: TargetNoise


class DriftingInfo(NamedTuple):
    """Whether the proposal was accepted, and the estimate that stands."""

    accepted: Bool[Array, ""]
    log_density: Scalar


class DriftingPseudoMarginal(AbstractSampler):
    r"""Pseudo-marginal Metropolis that refreshes a group of noise at each step, come what may.

    The published code never takes the refresh back when a proposal is rejected, so the noise
    behind the standing estimate is no longer the noise that the next proposal starts from. It has
    no exact target; it is here so that published acceptance rates are compared like with like.
    `PseudoMarginal(groups=...)` is the sampler of the text.

    **Arguments:** `proposal_scale`, a standard deviation in unconstrained space; `groups`.

    ```python
    >>> import genbayes as gb
    >>> from genbayes.paper import DriftingPseudoMarginal
    >>> problem = gb.tasks.normal_location().problem()
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=100)
    >>> sampler = DriftingPseudoMarginal(1.4, groups=50)
    >>> gb.sample(target, sampler, num_samples=10, progress=False).draws["mean"].shape
    (1, 10)

    ```
    """

    proposal_scale: float
    groups: int
    needs_gradient: ClassVar[bool] = False

    def __init__(self, proposal_scale: float, *, groups: int):
        check_positive("proposal_scale", proposal_scale)
        check_count("groups", groups)
        self.proposal_scale = proposal_scale
        self.groups = groups

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> DriftingState:
        noise = target.draw_noise(key)
        return DriftingState(u, target.log_density(u, noise), noise)

    def step(
        self, key: Key, target: ScorePosterior, state: DriftingState
    ) -> tuple[DriftingState, DriftingInfo]:
        key_proposal, key_noise, key_accept = jax.random.split(key, 3)
        jump = jax.random.normal(key_proposal, state.u.shape, state.u.dtype)
        proposal = state.u + self.proposal_scale * jump
        noise = target.refresh_group(key_noise, state.noise, self.groups)
        log_density = target.log_density(proposal, noise)
        threshold = jnp.log(jax.random.uniform(key_accept, dtype=state.u.dtype))
        accepted = threshold < log_density - state.log_density
        u = jnp.where(accepted, proposal, state.u)
        standing = jnp.where(accepted, log_density, state.log_density)
        return DriftingState(u, standing, noise), DriftingInfo(accepted, standing)
