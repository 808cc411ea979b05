"""NUTS on parameters and noise together: exact for the pseudo-marginal target."""

from typing import Literal

import jax
import jax.numpy as jnp
from numpyro.distributions.transforms import biject_to

from .._checks import check_choice, check_count
from .._types import Array, Int, Key, Scalar
from ..targets import ScorePosterior, TargetNoise, noise_distribution
from ._base import check_differentiable
from ._nuts import AbstractNUTS, Density, Metric, NUTSState, check_settings


class PseudoMarginalNUTS(AbstractNUTS):
    r"""NUTS on $(u, z_{1..m})$ with density $\pi(u) |J| e^{-w \sum_i \hat S} q(z)$, keeping $u$.

    Its target is that of `PseudoMarginal` at the same $m$, exactly.

    **Arguments:**

    - `noise`: `"joint"` moves parameters and noise along one trajectory, which needs a density of
        the noise. `"groups"` alternates NUTS on $u$ with the noise held, and Metropolis refreshes
        of the noise, one of `groups` groups at a time: it takes any simulator, and copes with
        heavy-tailed maps from noise to data where joint trajectories need tiny steps.
    - `groups`: groups of simulations for `noise="groups"`: a step proposes fresh noise so many
        times, each time for one group chosen at random.
    - the others as for `FrozenNUTS`.

    ??? cite "References"
        Alenlöv, Doucet and Lindsten (2021), *Pseudo-marginal Hamiltonian Monte Carlo*.

    ```python
    >>> import genbayes as gb
    >>> gb.PseudoMarginalNUTS(noise="groups", groups=10).groups
    10

    ```
    """

    noise: Literal["joint", "groups"] = "joint"
    groups: int = 20
    metric: Metric = "auto"
    target_acceptance: float = 0.8
    max_doublings: int = 10
    step_size: float | Array | None = None
    inverse_mass: Array | None = None

    def __init__(
        self,
        *,
        noise: Literal["joint", "groups"] = "joint",
        groups: int = 20,
        metric: Metric = "auto",
        target_acceptance: float = 0.8,
        max_doublings: int = 10,
        step_size: float | Array | None = None,
        inverse_mass: Array | None = None,
    ):
        check_choice("noise", noise, ("joint", "groups"))
        check_count("groups", groups)
        self.noise = noise
        self.groups = groups
        self.metric = metric
        self.target_acceptance = target_acceptance
        self.max_doublings = max_doublings
        self.step_size = step_size
        self.inverse_mass = inverse_mass
        check_settings(self)

    def check(self, target: ScorePosterior) -> None:
        check_differentiable(self, target)
        if target.is_exact:
            raise ValueError("The target is exact and has no noise: use NUTS().")
        if self.noise == "groups" and self.groups > target.num_simulations:
            raise ValueError(
                f"groups must be at most the number of simulations ({target.num_simulations}), "
                f"got {self.groups}."
            )
        if self.noise == "joint" and noise_distribution(target) is None:
            raise ValueError(
                "Moving the noise along a trajectory needs its density, and this simulator's noise "
                "is not a NumPyro distribution. Use PseudoMarginalNUTS(noise='groups'), which only "
                "draws it, or FrozenNUTS(noise='iid')."
            )
        if self.noise == "joint" and target.batch_size is not None:
            raise ValueError("batch_size and joint noise do not go together: leave batch_size out.")

    def _begin(self, key: Key, target: ScorePosterior) -> tuple[Array, TargetNoise | None]:
        noise = target.draw_noise(key)
        if self.noise == "groups":
            return jnp.zeros(0), noise
        distribution = noise_distribution(target)
        assert distribution is not None
        return jnp.ravel(biject_to(distribution.support).inv(noise.simulator)), None

    def _density(self, target: ScorePosterior, noise: TargetNoise | None) -> Density:
        if noise is not None:
            return target.freeze(noise)
        distribution = noise_distribution(target)
        assert distribution is not None
        to_noise = biject_to(distribution.support)
        shape = to_noise.inverse_shape(distribution.batch_shape + distribution.event_shape)

        def density(position: Array) -> Scalar:
            u, rest = jnp.split(position, [target.size])
            free = rest.reshape(target.num_simulations, *shape)
            z = to_noise(free)
            log_q = jnp.sum(distribution.log_prob(z))
            log_q = log_q + jnp.sum(to_noise.log_abs_det_jacobian(free, z))
            return target.log_density(u, TargetNoise(z, None)) + log_q

        return density

    def _refresh(
        self, key: Key, target: ScorePosterior, state: NUTSState
    ) -> tuple[NUTSState, Int[Array, ""]]:
        if self.noise == "joint":
            return state, jnp.zeros((), jnp.int32)

        def one(
            carry: tuple[Array, TargetNoise], key: Key
        ) -> tuple[tuple[Array, TargetNoise], None]:
            log_density, noise = carry
            key_noise, key_accept = jax.random.split(key)
            proposed = target.refresh_group(key_noise, noise, self.groups)
            value = target.log_density(state.u, proposed)
            threshold = jnp.log(jax.random.uniform(key_accept, dtype=state.u.dtype))
            accept = threshold < value - log_density
            kept = jax.tree.map(
                lambda new, old: jnp.where(accept, new, old),
                (value, proposed),
                (log_density, noise),
            )
            return kept, None

        assert state.noise is not None
        keys = jax.random.split(key, self.groups)
        (_, noise), _ = jax.lax.scan(one, (state.log_density, state.noise), keys)
        value, gradient = target.value_and_grad(state.u, noise)
        state = state._replace(log_density=value, gradient=gradient, noise=noise)
        return state, jnp.asarray(self.groups + 1, jnp.int32)
