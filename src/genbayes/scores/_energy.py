"""Energy score."""

from typing import ClassVar

import jax.numpy as jnp

from ._base import AbstractScore


def _norm(d, beta):
    s = jnp.sum(d**2, -1)
    safe = jnp.where(s > 0, s, 1.0)
    return jnp.where(s > 0, safe ** (beta / 2), 0.0)


class EnergyScore(AbstractScore):
    """Energy score (placeholder, to be replaced)."""

    beta: float = 1.0
    strictly_proper: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def _estimates(self, simulations, observations):
        m = simulations.shape[0]
        xy = _norm(simulations[:, None] - observations[None], self.beta).mean(0)
        xx = _norm(simulations[:, None] - simulations[None], self.beta).sum() / (m * (m - 1))
        return 2 * xy - xx
