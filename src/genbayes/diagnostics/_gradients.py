"""Gradients of the log density along a run: fresh estimates, or those that the sampler met."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_count
from .._types import Array, Key
from ..runs import Run
from ..targets import ScorePosterior

PARALLEL = 2**21  # numbers that the simulations of gradients made side by side may hold


def fresh_gradients(
    target: ScorePosterior,
    points: Array | np.ndarray,
    *,
    num_simulations: int | None = 500,
    seed: int | Key = 0,
) -> np.ndarray:
    r"""An independent estimate of $\nabla \log \pi$ at each point, from simulations of its own.

    **Arguments:** `points`, unconstrained, `(N, p)`; `num_simulations` for each of them (`None`:
    as many as the target takes); `seed`, a whole number or a key. Unbiased if the score is.

    ```python
    >>> import genbayes as gb, jax.numpy as jnp, numpy as np
    >>> score = gb.LogScore(lambda theta, y: -0.5 * jnp.sum((y - theta["mean"]) ** 2))
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, score)
    >>> gb.diagnostics.fresh_gradients(target, np.zeros((200, 1))).shape
    (200, 1)

    ```
    """
    check_gradients(target)
    if num_simulations is not None and not target.is_exact:
        check_count("num_simulations", num_simulations, max(2, target.score.min_simulations))
        target = eqx.tree_at(lambda t: t.num_simulations, target, num_simulations)
    u = np.asarray(jnp.asarray(points, float))
    if u.ndim != 2 or u.shape[1] != target.size or not len(u):
        raise ValueError(
            f"Expected unconstrained points of shape (N, {target.size}), got {u.shape}."
        )
    key = jax.random.key(seed) if isinstance(seed, (int, np.integer)) else seed
    width = max(1, target.simulations_per_estimate * target.prepared.values.shape[1])
    batch = int(np.clip(PARALLEL // width, 1, 64))
    padded = np.pad(u, ((0, -len(u) % batch), (0, 0)), mode="edge")
    return np.asarray(_gradients(target, key, jnp.asarray(padded), batch))[: len(u)]


def check_gradients(target: ScorePosterior) -> None:
    """Refuse a simulator without gradients, and one that no program can be made of."""
    simulator = target.problem.simulator
    missing = simulator is not None and not (simulator.differentiable and simulator.traceable)
    if missing and not target.is_exact:
        raise ValueError(
            "The kernelised Stein discrepancy needs gradients of the log density, and "
            f"{type(simulator).__name__} has none. For black boxes look at R-hat, the effective "
            "sample size and predictive checks instead."
        )


@eqx.filter_jit
def _gradients(target: ScorePosterior, key: Key, u: Array, batch: int) -> Array:
    def one(row: tuple[Array, Array]) -> Array:
        index, at = row
        value, grad = target.value_and_grad(at, target.draw_noise(jax.random.fold_in(key, index)))
        return jnp.where(jnp.isfinite(value), grad, jnp.nan)

    return jax.lax.map(one, (jnp.arange(u.shape[0]), u), batch_size=batch)


def met_gradients(run: Run) -> np.ndarray:
    """The estimates that the sampler walked by, `(chain, draw, p)`."""
    if "gradient" in run.info:
        return np.asarray(run.info["gradient"])
    raise ValueError(
        'gradients="met" needs the gradients that the sampler met at its draws, and this run did '
        "not keep them. Sample again with keep_gradients=True (AdSGLD, SGLD, PSGLD and SGHMC can), "
        'or take fresh ones with gradients="fresh".'
    )
