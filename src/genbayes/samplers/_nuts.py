"""The engine of the No-U-Turn samplers: BlackJAX's kernel, and warm-up by its pieces."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.staged_adaptation import build_schedule
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.mcmc import hmc, metrics, nuts

from .._checks import check_between, check_choice, check_count
from .._types import Array, Bool, Float, Int, Key, PyTree, Scalar, Unconstrained
from ..targets import ScorePosterior, TargetNoise
from ._base import AbstractSampler, AbstractWarmup, share

Density = Callable[[Array], Scalar]
Metric = Literal["auto", "dense", "diagonal"]
LARGEST_DENSE = 32  # coordinates up to which a full covariance is learnt
SHORTEST_WARMUP = 10


class NUTSState(NamedTuple):
    """Position `u`, further coordinates that move with it, and the noise that is held."""

    u: Unconstrained
    rest: Float[Array, " k"]
    log_density: Scalar
    gradient: Float[Array, " p_plus_k"]
    noise: TargetNoise | None


class NUTSInfo(NamedTuple):
    """What a trajectory met; `num_evaluations` counts its gradients.

    `cut_off` is true where it ended for its length alone, before it turned.
    """

    log_density: Scalar
    acceptance_rate: Scalar
    num_evaluations: Int[Array, ""]
    diverging: Bool[Array, ""]
    cut_off: Bool[Array, ""]


class AbstractNUTS(AbstractSampler):
    """NUTS on some density of the position and perhaps of the noise."""

    metric: eqx.AbstractVar[Metric]
    target_acceptance: eqx.AbstractVar[float]
    max_doublings: eqx.AbstractVar[int]
    step_size: eqx.AbstractVar[float | Array | None]
    inverse_mass: eqx.AbstractVar[Array | None]
    needs_gradient: ClassVar[bool] = True

    @abstractmethod
    def _begin(self, key: Key, target: ScorePosterior) -> tuple[Array, TargetNoise | None]:
        """Further coordinates, and noise to hold."""

    @abstractmethod
    def _density(self, target: ScorePosterior, noise: TargetNoise | None) -> Density:
        """The log density of the whole position."""

    def _refresh(
        self, key: Key, target: ScorePosterior, state: NUTSState
    ) -> tuple[NUTSState, Int[Array, ""]]:
        """What else happens after a trajectory, and how many estimates it takes."""
        del key, target
        return state, jnp.zeros((), jnp.int32)

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> NUTSState:
        rest, noise = self._begin(key, target)
        density = self._density(target, noise)
        at: Any = hmc.init(jnp.concatenate([u, rest]), density)
        return NUTSState(u, rest, at.logdensity, at.logdensity_grad, noise)

    def step(
        self, key: Key, target: ScorePosterior, state: NUTSState
    ) -> tuple[NUTSState, NUTSInfo]:
        key_trajectory, key_refresh = jax.random.split(key)
        position = jnp.concatenate([state.u, state.rest])
        at: Any = hmc.HMCState(position, state.log_density, state.gradient)  # pyright: ignore
        kernel: Any = nuts.build_kernel()
        at, info = kernel(
            key_trajectory, at, self._density(target, state.noise), self.step_size,
            bounded_metric(self.inverse_mass), self.max_doublings,
        )  # fmt: skip
        u, rest = jnp.split(at.position, [state.u.shape[0]])
        state = NUTSState(u, rest, at.logdensity, at.logdensity_grad, state.noise)
        state, evaluations = self._refresh(key_refresh, target, state)
        evaluations = evaluations + jnp.asarray(info.num_integration_steps, jnp.int32)
        rate = jnp.asarray(info.acceptance_rate, u.dtype)
        longest = info.num_trajectory_expansions >= self.max_doublings
        cut_off = longest & ~info.is_turning & ~info.is_divergent
        return state, NUTSInfo(state.log_density, rate, evaluations, info.is_divergent, cut_off)

    def warmup(self, num_warmup: int) -> "NUTSWarmup | None":
        if self.step_size is not None and self.inverse_mass is not None:
            return None
        if num_warmup < SHORTEST_WARMUP:
            raise ValueError(
                f"{type(self).__name__} learns its step size and metric in warm-up: num_warmup "
                f"must be at least {SHORTEST_WARMUP} (500 is usual), got {num_warmup}."
            )
        return NUTSWarmup(self, num_warmup)

    def findings(self, info: Mapping[str, np.ndarray], u: np.ndarray) -> list[str]:
        del u
        found, diverging, cut_off = [], share(info, "diverging"), share(info, "cut_off")
        if diverging > 0.001:
            found.append(
                f"{diverging:.1%} of the trajectories diverged: the density has corners that the "
                "step size cannot follow, and the draws may miss them. Try target_acceptance=0.95, "
                "a longer warm-up, or more simulations per estimate."
            )
        if cut_off > 0.01:
            found.append(
                f"{cut_off:.1%} of the trajectories were cut off at their longest "
                f"(max_doublings={self.max_doublings}): the chain moves slowly. Try a longer "
                "warm-up, more doublings, or another sampler."
            )
        return found


def bounded_metric(inverse_mass: Array | None) -> metrics.Metric:
    r"""BlackJAX's metric, with a kinetic energy that overflows to plus infinity alone.

    The products in $p^T M^{-1} p$ have either sign where $M$ is full. A leapfrog step onto a cliff
    makes them so large that the sum can be minus infinity, and such a step would be accepted.
    """
    metric = metrics.default_metric(inverse_mass)  # pyright: ignore[reportArgumentType]

    def kinetic_energy(momentum: Any, position: Any = None) -> Any:
        energy = metric.kinetic_energy(momentum, position)
        return jnp.where(jnp.isneginf(energy), jnp.inf, energy)

    return metric._replace(kinetic_energy=kinetic_energy)


def check_settings(sampler: AbstractNUTS) -> None:
    """What all NUTS samplers are configured by."""
    check_choice("metric", sampler.metric, ("auto", "dense", "diagonal"))
    check_between("target_acceptance", sampler.target_acceptance, 0, 1)
    check_count("max_doublings", sampler.max_doublings)


class NUTSWarmupState(NamedTuple):
    """The chain, dual averaging of the step size, and moments for the metric."""

    chain: NUTSState
    averaging: PyTree
    moments: PyTree
    count: Int[Array, ""]  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def u(self) -> Unconstrained:
        """The position of the chain."""
        return self.chain.u


class NUTSWarmup(AbstractWarmup):
    """Stan's schedule: step size by dual averaging, metric over windows that double."""

    sampler: AbstractNUTS
    num_warmup: int

    def _dense(self, size: int) -> bool:
        if self.sampler.metric == "auto":
            return size <= LARGEST_DENSE
        return self.sampler.metric == "dense"

    def init(self, key: Key, target: ScorePosterior, u: Unconstrained) -> NUTSWarmupState:
        chain = self.sampler.init(key, target, u)
        size = chain.gradient.shape[0]
        averaging = dual_averaging_adaptation(self.sampler.target_acceptance)[0](0.5)
        moments = mass_matrix_adaptation(not self._dense(size))[0](size)
        as_arrays = lambda tree: jax.tree.map(lambda x: _strong(x, u.dtype), tree)  # noqa: E731
        return NUTSWarmupState(chain, as_arrays(averaging), as_arrays(moments), jnp.zeros((), int))

    def _fixed(self, step_size: Array, inverse_mass: Array) -> AbstractNUTS:
        return eqx.tree_at(
            lambda s: (s.step_size, s.inverse_mass),
            self.sampler,
            (step_size, inverse_mass),
            is_leaf=lambda x: x is None,
        )

    def step(
        self, key: Key, target: ScorePosterior, state: NUTSWarmupState
    ) -> tuple[NUTSWarmupState, NUTSInfo]:
        averaging, moments = state.averaging, state.moments
        sampler = self._fixed(jnp.exp(averaging.log_step_size), moments.inverse_mass_matrix)
        chain, info = sampler.step(key, target, state.chain)
        slow, window_ends = jnp.asarray(build_schedule(self.num_warmup), bool)[state.count]
        da_init, da_update, _ = dual_averaging_adaptation(self.sampler.target_acceptance)
        size = chain.gradient.shape[0]
        _, mm_update, mm_final = mass_matrix_adaptation(not self._dense(size))
        averaging = da_update(averaging, info.acceptance_rate)
        learnt = mm_update(moments, jnp.concatenate([chain.u, chain.rest]))
        moments = _choose(slow, learnt, moments)
        moments = _choose(window_ends, mm_final(moments), moments)
        restarted = da_init(jnp.exp(averaging.log_step_size_avg))
        averaging = _choose(window_ends, restarted, averaging)
        return NUTSWarmupState(chain, averaging, moments, state.count + 1), info

    def finish(self, state: NUTSWarmupState) -> tuple[AbstractNUTS, NUTSState]:
        step_size = jnp.exp(state.averaging.log_step_size_avg)
        return self._fixed(step_size, state.moments.inverse_mass_matrix), state.chain


def _strong(x: Any, dtype: Any) -> Array:
    x = jnp.asarray(x)
    return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(int)


def _choose(condition: Array, then: PyTree, otherwise: PyTree) -> PyTree:
    return jax.tree.map(
        lambda a, b: jnp.where(condition, jnp.asarray(a, b.dtype), b), then, otherwise
    )
