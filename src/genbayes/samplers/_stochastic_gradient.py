"""What the stochastic-gradient samplers share: one fresh gradient estimate a step."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, Key, Scalar, Unconstrained
from ..targets import ScorePosterior, sobol_noise, suits_sobol, why_no_sobol, with_all_pairs
from ._base import share


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
