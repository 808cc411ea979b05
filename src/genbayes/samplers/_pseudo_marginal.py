"""Pseudo-marginal Metropolis, plain and correlated."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_count, is_concrete
from .._types import Array, Bool, Float, Key, Scalar, Unconstrained
from ..targets import ScorePosterior, TargetNoise
from ._base import AbstractSampler, AbstractWarmup, longest_stay, share

SHORTEST_WARMUP = 10  # steps, to learn a proposal


class PseudoMarginalState(NamedTuple):
    """Position, its accepted estimate (never refreshed), and the noise behind it if kept."""

    u: Unconstrained
    log_density: Scalar
    noise: TargetNoise | None


class PseudoMarginalInfo(NamedTuple):
    """Whether the proposal was accepted, and the estimate that stands."""

    accepted: Bool[Array, ""]
    log_density: Scalar


class PseudoMarginal(AbstractSampler):
    r"""Metropolis on an estimated target: the accepted estimate is kept until the next move.

    Its exact target is $\pi(\theta)\, E[\exp\{-w \sum_i \hat S(x_{1..m}, y_i)\}]$, which widens at
    small $m$ and tends to the scoring-rule posterior as $m$ grows: every result belongs to its $m$.

    **Arguments:**

    - `proposal_scale`: standard deviation of the normal proposal in unconstrained space, one
        number or one per coordinate, or a `(p, p)` Cholesky factor of its covariance.
    - `groups`: with `G` groups, each step proposes fresh noise for one group of simulations,
        chosen at random, together with the new parameter, and both are accepted or rejected
        together; the estimates on both sides of a move are then correlated, and chains stick less.
        Absent, all noise is fresh at each step.
    - `adapt`: learn the covariance of the proposal during warm-up, then hold it fixed.

    ??? cite "References"
        Andrieu and Roberts (2009), *The pseudo-marginal approach*; Deligiannidis, Doucet and Pitt
        (2018), *The correlated pseudo-marginal method*; Haario, Saksman and Tamminen (2001).

    ```python
    >>> import genbayes as gb
    >>> gb.PseudoMarginal(0.5, groups=50)
    PseudoMarginal(proposal_scale=0.5, groups=50)

    ```
    """

    proposal_scale: float | Array = 1.0
    groups: int | None = None
    adapt: bool = False
    needs_gradient: ClassVar[bool] = False

    def __init__(
        self,
        proposal_scale: float | Array = 1.0,
        *,
        groups: int | None = None,
        adapt: bool = False,
    ):
        if is_concrete(proposal_scale):
            _check_scale(proposal_scale)
        if groups is not None:
            check_count("groups", groups)
        if not isinstance(proposal_scale, (int, float)):
            proposal_scale = jnp.asarray(proposal_scale, float)
        self.proposal_scale = proposal_scale
        self.groups = groups
        self.adapt = adapt

    def check(self, target: ScorePosterior) -> None:
        if self.groups is not None and target.is_exact:
            raise ValueError("groups has no meaning for an exact score: it takes no simulations.")
        if self.groups is not None and self.groups > target.num_simulations:
            raise ValueError(
                f"groups must be at most the number of simulations ({target.num_simulations}), "
                f"got {self.groups}."
            )
        shape = np.shape(self.proposal_scale)
        if shape not in ((), (target.size,), (target.size, target.size)):
            raise ValueError(
                f"proposal_scale must be one number, {target.size} of them, or a "
                f"({target.size}, {target.size}) Cholesky factor; got shape {shape}."
            )

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> PseudoMarginalState:
        noise = target.draw_noise(key)
        kept = None if self.groups is None else noise
        return PseudoMarginalState(u, target.log_density(u, noise), kept)

    def step(
        self, key: Key, target: ScorePosterior, state: PseudoMarginalState
    ) -> tuple[PseudoMarginalState, PseudoMarginalInfo]:
        proposal, noise, threshold = _propose(self, key, target, state)
        return _decide(state, proposal, noise, target.log_density(proposal, noise), threshold)

    def warmup(self, num_warmup: int) -> "ProposalWarmup | None":
        if not self.adapt:
            return None
        if num_warmup < SHORTEST_WARMUP:
            raise ValueError(
                "PseudoMarginal(adapt=True) learns its proposal in warm-up: num_warmup must be at "
                f"least {SHORTEST_WARMUP} (1000 is usual), got {num_warmup}."
            )
        return ProposalWarmup(self, num_warmup)

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del u
        accepted = np.atleast_2d(info["accepted"])
        rate, stay = share(info, "accepted"), longest_stay(accepted)
        length = accepted.shape[1]
        if length < 100 or (rate >= 0.01 and stay <= 0.05 * length):
            return []
        correlated = "" if self.groups else "correlated noise (groups=num_simulations), "
        return [
            f"The chain is sticky: {rate:.2%} of the proposals were accepted, and the longest stay "
            f"was {stay} of {length} draws. More simulations per estimate (num_simulations), "
            f"{correlated}a smaller proposal_scale or, for a simulator with gradients, "
            "FrozenNUTS() or AdSGLD(...) help."
        ]


# Compiled by themselves, so that a simulator which cannot be costs no more than its own time


@eqx.filter_jit
def _propose(
    sampler: PseudoMarginal, key: Key, target: ScorePosterior, state: PseudoMarginalState
) -> tuple[Unconstrained, TargetNoise, Scalar]:
    """A new position, its noise, and the log of the uniform number that decides."""
    key_proposal, key_noise, key_accept = jax.random.split(key, 3)
    jump = jax.random.normal(key_proposal, state.u.shape, state.u.dtype)
    if sampler.groups is None:
        noise = target.draw_noise(key_noise)
    else:
        assert state.noise is not None
        noise = target.refresh_group(key_noise, state.noise, sampler.groups)
    threshold = jnp.log(jax.random.uniform(key_accept, dtype=state.u.dtype))
    return state.u + scaled(sampler.proposal_scale, jump), noise, threshold


@eqx.filter_jit
def _decide(
    state: PseudoMarginalState,
    proposal: Unconstrained,
    noise: TargetNoise,
    log_density: Scalar,
    threshold: Scalar,
) -> tuple[PseudoMarginalState, PseudoMarginalInfo]:
    """Metropolis: the accepted estimate is kept, never refreshed."""
    accepted = threshold < log_density - state.log_density
    moved = PseudoMarginalState(proposal, log_density, None if state.noise is None else noise)
    state = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), moved, state)
    return state, PseudoMarginalInfo(accepted, state.log_density)


def scaled(scale: float | Array, jump: Array) -> Array:
    """A standard normal vector, scaled by a number, a vector or a Cholesky factor."""
    return scale @ jump if jnp.ndim(scale) == 2 else scale * jump  # pyright: ignore


class ProposalWarmupState(NamedTuple):
    """The chain, and the running moments of where it has been."""

    chain: PseudoMarginalState
    count: Scalar  # pyright: ignore[reportIncompatibleMethodOverride]
    mean: Float[Array, " p"]
    scatter: Float[Array, "p p"]

    @property
    def u(self) -> Unconstrained:
        """The position of the chain."""
        return self.chain.u


class ProposalWarmup(AbstractWarmup):
    r"""Adaptive Metropolis: proposals with $2.38^2/p$ times the covariance seen so far."""

    sampler: PseudoMarginal
    num_warmup: int

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> ProposalWarmupState:
        p = u.shape[0]
        scale = jnp.asarray(self.sampler.proposal_scale, u.dtype)
        factor = scaled(scale, jnp.eye(p, dtype=u.dtype)) if scale.ndim < 2 else scale
        prior_guess = factor @ factor.T * p / 2.38**2
        # the starting scale counts as if it had been seen ten times
        return ProposalWarmupState(
            self.sampler.init(key, target, u), jnp.asarray(10.0, u.dtype), u, 10.0 * prior_guess
        )

    def _factor(self, state: ProposalWarmupState) -> Float[Array, "p p"]:
        p = state.mean.shape[0]
        covariance = state.scatter / state.count
        jitter = 1e-6 * jnp.trace(covariance) / p * jnp.eye(p, dtype=covariance.dtype)
        return 2.38 / jnp.sqrt(float(p)) * jnp.linalg.cholesky(covariance + jitter)

    def step(
        self, key: Key, target: ScorePosterior, state: ProposalWarmupState
    ) -> tuple[ProposalWarmupState, PseudoMarginalInfo]:
        sampler = PseudoMarginal(self._factor(state), groups=self.sampler.groups)
        chain, info = sampler.step(key, target, state.chain)
        # forget slowly: what was seen while the chain was still on its way counts for less
        keep = jnp.where(state.count > 0.5 * self.num_warmup, 1 - 2.0 / self.num_warmup, 1.0)
        count = keep * state.count + 1
        shift = chain.u - state.mean
        mean = state.mean + shift / count
        scatter = keep * state.scatter + jnp.outer(shift, chain.u - mean)
        return ProposalWarmupState(chain, count, mean, scatter), info

    def finish(self, state: ProposalWarmupState) -> tuple[PseudoMarginal, PseudoMarginalState]:
        factor = self._factor(state)
        return PseudoMarginal(factor, groups=self.sampler.groups), state.chain


def _check_scale(scale: Any) -> None:
    if isinstance(scale, str) or not np.all(np.isfinite(np.asarray(scale, float))):
        raise ValueError(f"proposal_scale must be finite, got {scale!r}.")
    values = np.asarray(scale, float)
    if values.ndim < 2 and not np.all(values > 0):
        raise ValueError(f"proposal_scale must be above 0, got {scale!r}.")
    if values.ndim > 2:
        raise ValueError(f"proposal_scale must be a number, vector or matrix, got {values.shape}.")
