"""What the stochastic-gradient samplers share: one fresh gradient estimate a step."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, Int, Key, Scalar, Unconstrained
from ..targets import ScorePosterior, sobol_noise, suits_sobol, why_no_sobol, with_all_pairs
from ._base import AbstractSampler, check_differentiable, check_unbiased_gradient, share

MOST_TRIES = 20  # at a first estimate, where some are not finite


class Estimate(NamedTuple):
    r"""The estimated potential $U = -\log \pi$ and its gradient, from fresh noise."""

    log_density: Scalar
    gradient: Unconstrained  # of U, downhill for the target
    norm: Scalar
    clipped: Bool[Array, ""]

    @property
    def finite(self) -> Bool[Array, ""]:
        """Whether the step may be taken."""
        return jnp.isfinite(self.log_density) & jnp.all(jnp.isfinite(self.gradient))


NoiseKind: TypeAlias = Literal["auto", "iid", "sobol"]


def check_noise(kind: NoiseKind, target: ScorePosterior) -> None:
    """Refuse Sobol noise where there is none."""
    reason = why_no_sobol(target) if kind == "sobol" else None
    if reason is not None:
        raise ValueError(f'noise="sobol" does not apply: {reason}. Use noise="iid".')


def estimate(
    key: Key, target: ScorePosterior, u: Unconstrained, clip: float | None, noise: NoiseKind
) -> Estimate:
    """One estimate at `u`, its gradient shortened to length `clip` if that is given."""
    if noise == "sobol" or (noise == "auto" and suits_sobol(target)):
        value, grad = with_all_pairs(target).value_and_grad(u, sobol_noise(key, target))
    else:
        value, grad = target.value_and_grad(u, target.draw_noise(key))
    norm = jnp.sqrt(jnp.sum(grad**2))
    if clip is None:
        return Estimate(value, -grad, norm, jnp.asarray(False))
    clipped = norm > clip
    factor = jnp.where(clipped, clip / jnp.where(clipped, norm, 1.0), 1.0)
    return Estimate(value, -factor * grad, norm, clipped)


class AbstractStochasticGradient(AbstractSampler):
    r"""What walks by one fresh gradient estimate a step, made where the step arrives.

    The state holds that estimate, of $\nabla U = -\nabla \log \pi$ at `u`, as `gradient`: the next
    step is taken by it, and a run can keep it beside the draw that it belongs to.
    """

    step_size: eqx.AbstractVar[float]
    noise: eqx.AbstractVar[NoiseKind]
    clip: eqx.AbstractVar[float | None]
    allow_biased_gradients: eqx.AbstractVar[bool]
    needs_gradient: ClassVar[bool] = True

    def check(self, target: ScorePosterior) -> None:
        check_differentiable(self, target)
        check_unbiased_gradient(self, target, self.allow_biased_gradients)
        check_noise(self.noise, target)

    def met_gradient(self, state: Any) -> Unconstrained:
        r"""The estimate of $\nabla \log \pi$ at `state.u` by which the next step is taken."""
        return -state.gradient

    def estimate(self, key: Key, target: ScorePosterior, u: Unconstrained) -> Estimate:
        """A fresh estimate at `u`."""
        return estimate(key, target, u, self.clip, self.noise)

    def first_estimate(self, key: Key, target: ScorePosterior, u: Unconstrained) -> Estimate:
        """At a starting point, where there is no step to refuse: again until it is finite."""

        def again(carry: tuple[Int[Array, ""], Estimate]) -> Bool[Array, ""]:
            tries, at = carry
            return ~at.finite & (tries < MOST_TRIES)

        def one(carry: tuple[Int[Array, ""], Estimate]) -> tuple[Int[Array, ""], Estimate]:
            tries, _ = carry
            return tries + 1, self.estimate(jax.random.fold_in(key, tries), target, u)

        unknown = jnp.full((), jnp.nan, u.dtype)
        start = Estimate(unknown, jnp.full_like(u, jnp.nan), unknown, jnp.asarray(False))
        return jax.lax.while_loop(again, one, (jnp.zeros((), jnp.int32), start))[1]


def normal_like(key: Key, u: Unconstrained) -> Unconstrained:
    """A standard normal vector of the shape of `u`."""
    return jax.random.normal(key, u.shape, u.dtype)


def refusal_findings(info: Mapping[str, np.ndarray], advice: str) -> list[str]:
    """What to say of steps that were not taken, or were shortened."""
    found = []
    refused = share(info, "refused")
    if refused > 0.01:
        found.append(
            f"{refused:.1%} of the steps were refused: the estimate there was not finite. "
            f"The draws miss that part of the parameter space. {advice}"
        )
    clipped = share(info, "clipped")
    if clipped > 0.01:
        found.append(
            f"{clipped:.1%} of the gradients were clipped, which biases the draws. {advice}"
        )
    return found
