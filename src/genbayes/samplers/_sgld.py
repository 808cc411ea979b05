"""Overdamped stochastic-gradient samplers: SGLD, and pSGLD with a diagonal preconditioner."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_between, check_choice, check_nonnegative, check_positive
from .._types import Array, Bool, Int, Key, Scalar, Unconstrained
from ..targets import ScorePosterior
from ._base import State
from ._stochastic_gradient import (
    AbstractStochasticGradient,
    Estimate,
    NoiseKind,
    normal_like,
    refusal_findings,
)
from ._tuner import Tuner, check_step_size

ADVICE = "Try a smaller step size, a tighter prior, or a finer integrator in the simulator."


class SGLDState(NamedTuple):
    """Position, the estimates there, and the number of steps, which a decreasing one goes by."""

    u: Unconstrained
    gradient: Unconstrained
    log_density: Scalar
    count: Int[Array, ""]  # pyright: ignore[reportIncompatibleMethodOverride]


class LangevinInfo(NamedTuple):
    """What the step met; the density is the estimate where the chain stands after it."""

    log_density: Scalar
    gradient_norm: Scalar
    refused: Bool[Array, ""]
    clipped: Bool[Array, ""]


Walks = TypeVar("Walks", bound=State)


def taken(at: Estimate, moved: Walks, stayed: Walks) -> tuple[Walks, LangevinInfo]:
    """Where the step leads: to `moved` if the estimate there is finite."""
    fine = at.finite & jnp.all(jnp.isfinite(moved.u))
    state = jax.tree.map(lambda new, old: jnp.where(fine, new, old), moved, stayed)
    return state, LangevinInfo(state.log_density, at.norm, ~fine, at.clipped)


class SGLD(AbstractStochasticGradient):
    r"""Stochastic-gradient Langevin dynamics.

    $$\theta \leftarrow \theta - \tfrac{\epsilon_t}{2} \nabla \hat U(\theta) + N(0, \epsilon_t),
        \qquad \epsilon_t = \epsilon\,(1 + t / \tau)^{-\gamma}$$

    **Arguments:**

    - `step_size`: $\epsilon$, the variance of the noise that a step adds.
    - `decay`: $\gamma$; 0 keeps the step constant, 1/3 is the usual rate of decrease.
    - `offset`: $\tau$, the number of steps before the decrease shows.
    - `noise`, `clip`, `allow_biased_gradients`: as for `AdSGLD`.

    At a constant step the draws are too wide by about the gradient noise that a step adds, of
    relative size $\epsilon \operatorname{Var}(\nabla \hat U) / 4$.

    ??? cite "References"
        Welling and Teh (2011), *Bayesian learning via stochastic gradient Langevin dynamics*.

    ```python
    >>> import genbayes as gb
    >>> gb.SGLD(1e-3, decay=1 / 3).offset
    1000.0

    ```
    """

    step_size: float
    decay: float
    offset: float
    noise: NoiseKind
    clip: float | None
    allow_biased_gradients: bool

    def __init__(
        self,
        step_size: float | Tuner,
        *,
        decay: float = 0.0,
        offset: float = 1000.0,
        noise: NoiseKind = "auto",
        clip: float | None = None,
        allow_biased_gradients: bool = False,
    ):
        check_step_size(step_size)
        check_nonnegative("decay", decay)
        check_positive("offset", offset)
        check_choice("noise", noise, ("auto", "iid", "sobol"))
        if clip is not None:
            check_positive("clip", clip)
        self.step_size = step_size  # pyright: ignore[reportAttributeAccessIssue]
        self.decay = decay
        self.offset = offset
        self.noise = noise
        self.clip = clip
        self.allow_biased_gradients = allow_biased_gradients

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> SGLDState:
        at = self.first_estimate(key, target, u)
        return SGLDState(u, at.gradient, at.log_density, jnp.zeros((), jnp.int32))

    def step(
        self, key: Key, target: ScorePosterior, state: SGLDState
    ) -> tuple[SGLDState, LangevinInfo]:
        key_noise, key_push = jax.random.split(key)
        eps = self.step_size * (1 + state.count / self.offset) ** -self.decay
        push = jnp.sqrt(eps) * normal_like(key_push, state.u)
        u = state.u - 0.5 * eps * state.gradient + push
        at = self.estimate(key_noise, target, u)
        moved = SGLDState(u, at.gradient, at.log_density, state.count)
        state, info = taken(at, moved, state)
        return state._replace(count=state.count + 1), info

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del u
        return refusal_findings(info, ADVICE)


class PSGLDState(NamedTuple):
    """Position, the estimates there, and the running mean square of the gradient."""

    u: Unconstrained
    gradient: Unconstrained
    log_density: Scalar
    mean_square: Unconstrained


class PSGLD(AbstractStochasticGradient):
    r"""Langevin dynamics scaled by the running size of each coordinate's gradient.

    $$V \leftarrow \alpha V + (1 - \alpha) \nabla \hat U^2, \quad
        G = \operatorname{diag} \frac{1}{\lambda + \sqrt V}, \quad
        \theta \leftarrow \theta - \tfrac{\epsilon}{2} G \nabla \hat U + N(0, \epsilon G)$$

    **Arguments:** `step_size` $\epsilon$, `decay` $\alpha$, `damping` $\lambda$; `noise`, `clip`
    and `allow_biased_gradients` as for `AdSGLD`. The term with the derivative of $G$ is left out,
    so the draws are approximate at every step size; it suits many parameters of very
    different scales, such as the weights of a network.

    ??? cite "References"
        Li, Chen, Carlson and Carin (2016), *Preconditioned stochastic gradient Langevin dynamics
        for deep neural networks*.

    ```python
    >>> import genbayes as gb
    >>> gb.PSGLD(1e-4).decay
    0.99

    ```
    """

    step_size: float
    decay: float
    damping: float
    noise: NoiseKind
    clip: float | None
    allow_biased_gradients: bool

    def __init__(
        self,
        step_size: float | Tuner,
        *,
        decay: float = 0.99,
        damping: float = 1e-5,
        noise: NoiseKind = "auto",
        clip: float | None = None,
        allow_biased_gradients: bool = False,
    ):
        check_step_size(step_size)
        check_between("decay", decay, 0, 1)
        check_positive("damping", damping)
        check_choice("noise", noise, ("auto", "iid", "sobol"))
        if clip is not None:
            check_positive("clip", clip)
        self.step_size = step_size  # pyright: ignore[reportAttributeAccessIssue]
        self.decay = decay
        self.damping = damping
        self.noise = noise
        self.clip = clip
        self.allow_biased_gradients = allow_biased_gradients

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> PSGLDState:
        at = self.first_estimate(key, target, u)
        return PSGLDState(u, at.gradient, at.log_density, jnp.zeros_like(u))

    def step(
        self, key: Key, target: ScorePosterior, state: PSGLDState
    ) -> tuple[PSGLDState, LangevinInfo]:
        key_noise, key_push = jax.random.split(key)
        mean_square = self.decay * state.mean_square + (1 - self.decay) * state.gradient**2
        scale = 1 / (self.damping + jnp.sqrt(mean_square))
        push = jnp.sqrt(self.step_size * scale) * normal_like(key_push, state.u)
        u = state.u - 0.5 * self.step_size * scale * state.gradient + push
        at = self.estimate(key_noise, target, u)
        return taken(at, PSGLDState(u, at.gradient, at.log_density, mean_square), state)

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del u
        return refusal_findings(info, ADVICE)
