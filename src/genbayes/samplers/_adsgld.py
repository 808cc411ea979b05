"""Adaptive stochastic-gradient Langevin dynamics: the Nosé-Hoover thermostat."""

from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_choice, check_nonnegative, check_positive
from .._types import Array, Bool, Key, Scalar, Unconstrained
from ..targets import ScorePosterior
from ._base import AbstractSampler, check_differentiable, check_unbiased_gradient
from ._stochastic_gradient import estimate, normal_like, refusal_findings

# Momenta are standard normal in equilibrium: a mean square beyond this is no transient
EXPLODED = 1e8


class AdSGLDState(NamedTuple):
    r"""Position, momentum, thermostat $\xi$, and the gradient estimate at the position."""

    u: Unconstrained
    momentum: Unconstrained
    thermostat: Scalar
    gradient: Unconstrained
    log_density: Scalar


class AdSGLDInfo(NamedTuple):
    """What the step met; `kinetic` is the mean square momentum, 1 in equilibrium."""

    log_density: Scalar
    gradient_norm: Scalar
    kinetic: Scalar
    thermostat: Scalar
    refused: Bool[Array, ""]
    clipped: Bool[Array, ""]
    exploded: Bool[Array, ""]


class AdSGLD(AbstractSampler):
    r"""Langevin dynamics whose friction $\xi$ adapts to the noise of the gradient.

    $$d\theta = p\,dt, \quad dp = -\nabla U dt - \xi p\,dt + \sqrt{2A}\,dB, \quad
        d\xi = (|p|^2/d - 1)\,dt .$$

    **Arguments:**

    - `step_size`: $\epsilon$.
    - `diffusion`: $A$, the noise that is added on purpose. The thermostat absorbs only that part
        of the gradient noise which does not depend on the parameter, so $A$ should exceed
        $\epsilon \operatorname{Var}(\nabla \hat U) / 2$ well.
    - `integrator`: `"badodab"`, the symmetric splitting (half kick, half drift, half thermostat,
        exact Ornstein-Uhlenbeck, and back), whose bias is of second order in $\epsilon$; or
        `"euler"`, the published algorithm to the letter.
    - `clip`: longest gradient taken as it is; absent, none is shortened.
    - `allow_biased_gradients`: take scores whose gradient estimate is biased.

    A step whose estimate is not finite is not taken: the chain stays and its momentum is drawn anew.

    ??? cite "References"
        Ding et al. (2014), *Bayesian sampling using stochastic gradient thermostats*; Leimkuhler
        and Shang (2016), *Adaptive thermostats for noisy gradient systems*.

    ```python
    >>> import genbayes as gb
    >>> gb.AdSGLD(step_size=0.1, diffusion=3.0).integrator
    'badodab'

    ```
    """

    step_size: float
    diffusion: float
    integrator: Literal["badodab", "euler"]
    clip: float | None
    allow_biased_gradients: bool
    needs_gradient: ClassVar[bool] = True

    def __init__(
        self,
        step_size: float,
        *,
        diffusion: float,
        integrator: Literal["badodab", "euler"] = "badodab",
        clip: float | None = None,
        allow_biased_gradients: bool = False,
    ):
        check_positive("step_size", step_size)
        check_nonnegative("diffusion", diffusion)
        check_choice("integrator", integrator, ("badodab", "euler"))
        if clip is not None:
            check_positive("clip", clip)
        self.step_size = step_size
        self.diffusion = diffusion
        self.integrator = integrator
        self.clip = clip
        self.allow_biased_gradients = allow_biased_gradients

    def check(self, target: ScorePosterior) -> None:
        check_differentiable(self, target)
        check_unbiased_gradient(self, target, self.allow_biased_gradients)

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> AdSGLDState:
        key_momentum, key_noise = jax.random.split(key)
        at = estimate(key_noise, target, u, self.clip)
        thermostat = jnp.asarray(self.diffusion, u.dtype)
        return AdSGLDState(u, normal_like(key_momentum, u), thermostat, at.gradient, at.log_density)

    def step(
        self, key: Key, target: ScorePosterior, state: AdSGLDState
    ) -> tuple[AdSGLDState, AdSGLDInfo]:
        key_noise, key_diffusion, key_momentum = jax.random.split(key, 3)
        push = normal_like(key_diffusion, state.u)
        move = self._badodab if self.integrator == "badodab" else self._euler
        u, momentum, thermostat = move(state, push)
        at = estimate(key_noise, target, u, self.clip)
        if self.integrator == "badodab":  # the closing half kick
            momentum = momentum - 0.5 * self.step_size * at.gradient
        kinetic = jnp.mean(momentum**2)
        exploded = ~jnp.isfinite(kinetic + thermostat) & at.finite | (kinetic > EXPLODED)
        fine = at.finite & ~exploded
        moved = AdSGLDState(u, momentum, thermostat, at.gradient, at.log_density)
        # equilibrium momentum is standard normal, so drawing it anew leaves the target alone
        stayed = state._replace(
            momentum=normal_like(key_momentum, state.u),
            thermostat=jnp.where(exploded, self.diffusion, state.thermostat),
        )
        state = jax.tree.map(lambda new, old: jnp.where(fine, new, old), moved, stayed)
        return state, AdSGLDInfo(
            state.log_density, at.norm, jnp.mean(state.momentum**2), state.thermostat,
            ~fine, at.clipped, exploded,
        )  # fmt: skip

    def _euler(self, state: AdSGLDState, push: Unconstrained) -> tuple[Array, Array, Array]:
        eps, p, xi = self.step_size, state.momentum, state.thermostat
        p = p - eps * xi * p - eps * state.gradient + jnp.sqrt(2 * self.diffusion * eps) * push
        return state.u + eps * p, p, xi + eps * (jnp.mean(p**2) - 1)

    def _badodab(self, state: AdSGLDState, push: Unconstrained) -> tuple[Array, Array, Array]:
        eps, xi = self.step_size, state.thermostat
        p = state.momentum - 0.5 * eps * state.gradient
        u = state.u + 0.5 * eps * p
        xi = xi + 0.5 * eps * (jnp.mean(p**2) - 1)
        p = jnp.exp(-eps * xi) * p + jnp.sqrt(self.diffusion * _ou_variance(xi, eps)) * push
        xi = xi + 0.5 * eps * (jnp.mean(p**2) - 1)
        return u + 0.5 * eps * p, p, xi

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del u
        found = refusal_findings(
            info,
            "Try a smaller step size, a tighter prior, or a finer integrator in the simulator.",
        )
        explosions = int(np.sum(info["exploded"]))
        if explosions:
            found.insert(
                0,
                f"The thermostat exploded {explosions} times: the momentum grew without bound though "
                "every gradient was finite. The chain went on from where it stood, and its draws "
                'are not to be trusted. Try a smaller step size, or integrator="badodab".',
            )
        return found


def _ou_variance(friction: Scalar, time: float) -> Scalar:
    r"""$(1 - e^{-2 \xi t}) / \xi$, and its limit $2t$ at no friction."""
    still = jnp.abs(friction * time) < 1e-5
    safe = jnp.where(still, 1.0, friction)
    return jnp.where(still, 2 * time, -jnp.expm1(-2 * safe * time) / safe)
