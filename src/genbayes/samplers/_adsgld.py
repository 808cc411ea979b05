"""Adaptive stochastic-gradient Langevin dynamics: the Nosé-Hoover thermostat."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_choice, check_nonnegative, check_positive
from .._types import Array, Bool, Int, Key, Scalar, Unconstrained
from ..targets import ScorePosterior
from ._base import AbstractWarmup
from ._stochastic_gradient import (
    AbstractStochasticGradient,
    NoiseKind,
    normal_like,
    refusal_findings,
)
from ._tuner import Tuner, check_step_size

# Momenta are standard normal in equilibrium: a mean square beyond this is no transient
EXPLODED = 1e8
# The friction exceeds the diffusion by a few in equilibrium. It falls by at most 1 a unit of time,
# so that one far above freezes the chain for as long, with every number finite.
FROZEN = 100.0
SHORTEST_WARMUP = 10  # steps, to measure the noise of the gradient
# The automatic diffusion: so many times the friction that gradient noise calls for, at least 1
ABOVE_NOISE = 50.0
LEAST_DIFFUSION = 1.0


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


class AdSGLD(AbstractStochasticGradient):
    r"""Langevin dynamics whose friction $\xi$ adapts to the noise of the gradient.

    $$d\theta = p\,dt, \quad dp = -\nabla U dt - \xi p\,dt + \sqrt{2A}\,dB, \quad
        d\xi = (|p|^2/d - 1)\,dt .$$

    **Arguments:**

    - `step_size`: $\epsilon$.
    - `diffusion`: $A$, the noise that is added on purpose. The thermostat absorbs only that part
        of the gradient noise which does not depend on the parameter, so $A$ should exceed
        $\epsilon \operatorname{Var}(\nabla \hat U) / 2$ well. `"auto"` measures that noise at the
        chain's own points during warm-up and sets $A$ well above it.
    - `integrator`: `"badodab"`, the symmetric splitting (half kick, half drift, half thermostat,
        exact Ornstein-Uhlenbeck, and back), whose bias is of second order in $\epsilon$; or
        `"euler"`, the published algorithm to the letter.
    - `noise`: how each step draws the simulator's noise. `"iid"` is ordinary draws; `"sobol"` is a
        Sobol set with a fresh scrambling, whose gradients vary far less (70 to 1000 times less on
        the univariate g-and-k); `"auto"` takes the latter where the noise is known and has at most
        16 dimensions, except in the published algorithm (`integrator="euler"`).
    - `clip`: longest gradient taken as it is; absent, none is shortened.
    - `allow_biased_gradients`: take scores whose gradient estimate is biased.

    A step whose estimate is not finite is not taken: the chain stays, with a fresh momentum. Where
    the thermostat explodes (a momentum without bound, or a friction that would freeze the chain)
    both begin anew, and it is counted.

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
    diffusion: float | Array | Literal["auto"]
    integrator: Literal["badodab", "euler"]
    noise: NoiseKind
    clip: float | None
    allow_biased_gradients: bool

    def __init__(
        self,
        step_size: float | Tuner,
        *,
        diffusion: float | Array | Literal["auto"] = "auto",
        integrator: Literal["badodab", "euler"] = "badodab",
        noise: NoiseKind = "auto",
        clip: float | None = None,
        allow_biased_gradients: bool = False,
    ):
        check_step_size(step_size)
        if not isinstance(diffusion, str) or diffusion != "auto":
            check_nonnegative("diffusion", diffusion, 'Or "auto", to measure it in warm-up.')
        check_choice("integrator", integrator, ("badodab", "euler"))
        check_choice("noise", noise, ("auto", "iid", "sobol"))
        if clip is not None:
            check_positive("clip", clip)
        self.step_size = step_size  # pyright: ignore[reportAttributeAccessIssue]
        self.diffusion = diffusion
        self.integrator = integrator
        self.noise = "iid" if noise == "auto" and integrator == "euler" else noise
        self.clip = clip
        self.allow_biased_gradients = allow_biased_gradients

    def warmup(self, num_warmup: int) -> "DiffusionWarmup | None":
        if not isinstance(self.diffusion, str):
            return None
        if num_warmup < SHORTEST_WARMUP:
            raise ValueError(
                'AdSGLD measures the noise of its gradients in warm-up (diffusion="auto"): '
                f"num_warmup must be at least {SHORTEST_WARMUP}, got {num_warmup}. Or give a "
                "number as diffusion."
            )
        return DiffusionWarmup(self, num_warmup)

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> AdSGLDState:
        key_momentum, key_noise = jax.random.split(key)
        at = self.first_estimate(key_noise, target, u)
        thermostat = jnp.asarray(self.diffusion, u.dtype)
        return AdSGLDState(u, normal_like(key_momentum, u), thermostat, at.gradient, at.log_density)

    def step(
        self, key: Key, target: ScorePosterior, state: AdSGLDState
    ) -> tuple[AdSGLDState, AdSGLDInfo]:
        key_noise, key_diffusion, key_momentum = jax.random.split(key, 3)
        push = normal_like(key_diffusion, state.u)
        move = self._badodab if self.integrator == "badodab" else self._euler
        u, momentum, thermostat = move(state, push)
        at = self.estimate(key_noise, target, u)
        if self.integrator == "badodab":  # the closing half kick
            momentum = momentum - 0.5 * self.step_size * at.gradient
        kinetic, diffusion = jnp.mean(momentum**2), jnp.asarray(self.diffusion, u.dtype)
        unbounded = ~jnp.isfinite(kinetic + thermostat) & at.finite | (kinetic > EXPLODED)
        fine = at.finite & ~unbounded
        exploded = unbounded | (fine & (thermostat > 2 * diffusion + FROZEN))
        # equilibrium momentum is standard normal, so drawing it anew leaves the target alone
        fresh = normal_like(key_momentum, state.u)
        moved = AdSGLDState(u, momentum, thermostat, at.gradient, at.log_density)
        state = jax.tree.map(lambda new, old: jnp.where(fine, new, old), moved, state)
        state = state._replace(
            momentum=jnp.where(fine & ~exploded, state.momentum, fresh),
            thermostat=jnp.where(exploded, diffusion, state.thermostat),
        )
        return state, AdSGLDInfo(
            state.log_density, at.norm, jnp.mean(state.momentum**2), state.thermostat,
            ~fine, at.clipped, exploded,
        )  # fmt: skip

    def _euler(self, state: AdSGLDState, push: Unconstrained) -> tuple[Array, Array, Array]:
        eps, p, xi = self.step_size, state.momentum, state.thermostat
        spread = jnp.sqrt(2 * self.diffusion * eps)  # pyright: ignore
        p = p - eps * xi * p - eps * state.gradient + spread * push
        return state.u + eps * p, p, xi + eps * (jnp.mean(p**2) - 1)

    def _badodab(self, state: AdSGLDState, push: Unconstrained) -> tuple[Array, Array, Array]:
        eps, xi = self.step_size, state.thermostat
        p = state.momentum - 0.5 * eps * state.gradient
        u = state.u + 0.5 * eps * p
        xi = xi + 0.5 * eps * (jnp.mean(p**2) - 1)
        spread = jnp.sqrt(self.diffusion * _ou_variance(xi, eps))  # pyright: ignore
        p = jnp.exp(-eps * xi) * p + spread * push
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
                f"The thermostat exploded {explosions} times: the momentum, or the friction that "
                "answers it, grew without bound while every gradient was finite. The chain went on "
                "from where it stood with both begun anew, and its draws are not to be trusted. "
                'Try a smaller step size, or integrator="badodab".',
            )
        return found


def _ou_variance(friction: Scalar, time: float) -> Scalar:
    r"""$(1 - e^{-2 \xi t}) / \xi$, and its limit $2t$ at no friction."""
    still = jnp.abs(friction * time) < 1e-5
    safe = jnp.where(still, 1.0, friction)
    return jnp.where(still, 2 * time, -jnp.expm1(-2 * safe * time) / safe)


class DiffusionWarmupState(NamedTuple):
    """The chain, and the running variance of the gradient estimate, by coordinate."""

    chain: AdSGLDState
    variance: Unconstrained
    weight: Scalar

    @property
    def u(self) -> Unconstrained:
        """The position of the chain."""
        return self.chain.u


class DiffusionWarmupInfo(NamedTuple):
    """What a warm-up step met: it takes two estimates."""

    log_density: Scalar
    refused: Bool[Array, ""]
    exploded: Bool[Array, ""]
    num_evaluations: Int[Array, ""]


class DiffusionWarmup(AbstractWarmup):
    r"""Measures $\operatorname{Var}(\nabla \hat U)$ along the chain and sets the diffusion by it.

    Two estimates at one point with fresh noise differ by twice the variance. The mean over the
    chain forgets its first half, when it is still on its way.
    """

    sampler: AdSGLD
    num_warmup: int

    def _fixed(self, state: DiffusionWarmupState) -> AdSGLD:
        sampler = self.sampler
        variance = jnp.max(state.variance) / jnp.maximum(state.weight, 1e-6)
        noise = 0.5 * sampler.step_size * variance
        # beyond a friction of 1 / step the momentum is drawn anew at each step: no use in more
        most = jnp.maximum(1 / sampler.step_size, LEAST_DIFFUSION)
        diffusion = jnp.clip(ABOVE_NOISE * noise, LEAST_DIFFUSION, most)
        return AdSGLD(
            sampler.step_size, diffusion=diffusion, integrator=sampler.integrator,
            noise=sampler.noise, clip=sampler.clip,
            allow_biased_gradients=sampler.allow_biased_gradients,
        )  # fmt: skip

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> DiffusionWarmupState:
        start = DiffusionWarmupState(
            AdSGLDState(u, u, u[0], u, u[0]), jnp.zeros_like(u), jnp.zeros_like(u[0])
        )
        return start._replace(chain=self._fixed(start).init(key, target, u))

    def step(
        self, key: Key, target: ScorePosterior, state: DiffusionWarmupState
    ) -> tuple[DiffusionWarmupState, DiffusionWarmupInfo]:
        key_step, key_noise = jax.random.split(key)
        chain, info = self._fixed(state).step(key_step, target, state.chain)
        again = self.sampler.estimate(key_noise, target, chain.u)
        squared = 0.5 * (again.gradient - chain.gradient) ** 2
        fine = again.finite & ~info.refused & jnp.all(jnp.isfinite(squared))
        keep = 1 - 4.0 / self.num_warmup  # a memory of a quarter of the warm-up
        variance = jnp.where(fine, keep * state.variance + squared, state.variance)
        weight = jnp.where(fine, keep * state.weight + 1, state.weight)
        told = DiffusionWarmupInfo(
            info.log_density, info.refused, info.exploded, jnp.asarray(2, jnp.int32)
        )
        return DiffusionWarmupState(chain, variance, weight), told

    def finish(self, state: DiffusionWarmupState) -> tuple[AdSGLD, AdSGLDState]:
        return self._fixed(state), state.chain
