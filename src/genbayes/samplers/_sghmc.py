"""Stochastic-gradient Hamiltonian Monte Carlo."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_choice, check_nonnegative, check_positive
from .._types import Key, Scalar, Unconstrained
from ..targets import ScorePosterior
from ._sgld import ADVICE, LangevinInfo, taken
from ._stochastic_gradient import (
    AbstractStochasticGradient,
    NoiseKind,
    normal_like,
    refusal_findings,
)
from ._tuner import Tuner, check_step_size


class SGHMCState(NamedTuple):
    """Position, the estimates there, and momentum."""

    u: Unconstrained
    gradient: Unconstrained
    log_density: Scalar
    momentum: Unconstrained


class SGHMC(AbstractStochasticGradient):
    r"""Langevin dynamics with momentum at a fixed friction.

    $$p \leftarrow p - \epsilon \nabla \hat U - \epsilon C p + N(0, 2 \epsilon (C - \hat B)), \quad
        \theta \leftarrow \theta + \epsilon p$$

    **Arguments:** `step_size` $\epsilon$; `friction` $C$; `gradient_noise` $\hat B$, what is known
    of $\epsilon \operatorname{Var}(\nabla \hat U) / 2$ and so need not be added (at most $C$);
    `noise`, `clip` and `allow_biased_gradients` as for `AdSGLD`, whose friction adapts.

    ??? cite "References"
        Chen, Fox and Guestrin (2014), *Stochastic gradient Hamiltonian Monte Carlo*.

    ```python
    >>> import genbayes as gb
    >>> gb.SGHMC(0.05, friction=2.0).gradient_noise
    0.0

    ```
    """

    step_size: float
    friction: float
    gradient_noise: float
    noise: NoiseKind
    clip: float | None
    allow_biased_gradients: bool

    def __init__(
        self,
        step_size: float | Tuner,
        *,
        friction: float,
        gradient_noise: float = 0.0,
        noise: NoiseKind = "auto",
        clip: float | None = None,
        allow_biased_gradients: bool = False,
    ):
        check_step_size(step_size)
        check_positive("friction", friction)
        check_nonnegative("gradient_noise", gradient_noise)
        if gradient_noise > friction:
            raise ValueError(
                f"gradient_noise must be at most the friction ({friction}), got {gradient_noise}."
            )
        check_choice("noise", noise, ("auto", "iid", "sobol"))
        if clip is not None:
            check_positive("clip", clip)
        self.step_size = step_size  # pyright: ignore[reportAttributeAccessIssue]
        self.friction = friction
        self.gradient_noise = gradient_noise
        self.noise = noise
        self.clip = clip
        self.allow_biased_gradients = allow_biased_gradients

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> SGHMCState:
        key_momentum, key_noise = jax.random.split(key)
        at = self.first_estimate(key_noise, target, u)
        return SGHMCState(u, at.gradient, at.log_density, normal_like(key_momentum, u))

    def step(
        self, key: Key, target: ScorePosterior, state: SGHMCState
    ) -> tuple[SGHMCState, LangevinInfo]:
        key_noise, key_push, key_momentum = jax.random.split(key, 3)
        eps = self.step_size
        push = jnp.sqrt(2 * eps * (self.friction - self.gradient_noise))
        p = (1 - eps * self.friction) * state.momentum - eps * state.gradient
        p = p + push * normal_like(key_push, state.u)
        u = state.u + eps * p
        at = self.estimate(key_noise, target, u)
        stayed = state._replace(momentum=normal_like(key_momentum, state.u))
        return taken(at, SGHMCState(u, at.gradient, at.log_density, p), stayed)

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del u
        return refusal_findings(info, ADVICE)
