"""The full Lorenz96 model: slow and fast variables, deterministic but for where it starts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from ..._checks import check_nonnegative
from ..._types import Array, Theta
from ...problem import Prior, Simulator
from .._stepping import check_times, num_steps
from .._task import Task
from ._tendency import NUM_SLOW, advection

NUM_FAST = 32  # for each slow variable
TRUTH = {"F": 10.0, "h": 1.0, "c": 10.0, "b": 10.0}
STEP = 0.001


def tendency(theta: Theta, state: Array) -> Array:
    r"""The time derivative of the slow variables $x$ and the fast ones $y$, in one vector.

    $$\dot x_k = -x_{k-1}(x_{k-2} - x_{k+1}) - x_k + F - \tfrac{hc}{b} \sum_j y_{j,k}, \qquad
      \dot y_j = -cb\,y_{j+1}(y_{j+2} - y_{j-1}) - c y_j + \tfrac{hc}{b} x_{k(j)}$$

    **Arguments:** `theta`, with `F`, `h`, `c` and `b`; `state`, `(8 + 8 * 32,)`.

    ```python
    >>> tendency(TRUTH, jnp.zeros(264))[:9].tolist()
    [10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 0.0]

    ```
    """
    x, y = state[:NUM_SLOW], state[NUM_SLOW:]
    coupling = theta["h"] * theta["c"] / theta["b"]
    pull = coupling * jnp.sum(y.reshape(NUM_SLOW, NUM_FAST), axis=1)
    fast = -theta["c"] * theta["b"] * jnp.roll(y, -1) * (jnp.roll(y, -2) - jnp.roll(y, 1))
    driven = fast - theta["c"] * y + coupling * jnp.repeat(x, NUM_FAST)
    return jnp.concatenate([advection(x) + theta["F"] - pull, driven])


def runge_kutta(theta: Theta, state: Array, step: float | Array) -> Array:
    """One step of the classical fourth-order method."""
    one = tendency(theta, state)
    two = tendency(theta, state + step / 2 * one)
    three = tendency(theta, state + step / 2 * two)
    four = tendency(theta, state + step * three)
    return state + step / 6 * (one + 2 * two + 2 * three + four)


class TwoScale(eqx.Module):
    """Slow variables at each record, `(records, 8)`, from a start perturbed by the noise."""

    perturbation: float
    step: float
    num_records: int = eqx.field(static=True)
    steps_discarded: int = eqx.field(static=True)
    steps_between: int = eqx.field(static=True)

    @eqx.filter_jit
    def __call__(self, theta: Theta, noise: Array) -> Array:
        start = jnp.zeros_like(noise).at[jnp.array([0, NUM_SLOW])].set(1.0)

        def walk(state: Array, steps: int) -> Array:
            def one(state: Array, _: None) -> tuple[Array, None]:
                return runge_kutta(theta, state, self.step), None

            return jax.lax.scan(one, state, None, length=steps)[0]

        def record(state: Array, _: None) -> tuple[Array, Array]:
            return walk(state, self.steps_between), state[:NUM_SLOW]

        state = walk(start + self.perturbation * noise, self.steps_discarded)
        last, records = jax.lax.scan(record, state, None, length=self.num_records - 1)
        return jnp.concatenate([records, last[None, :NUM_SLOW]])


def two_scale(
    *,
    num_records: int = 21,
    interval: float = 0.2,
    integration_step: float = STEP,
    discarded: float = 2.0,
    perturbation: float = 0.1,
) -> Task:
    r"""The full model, K = 8 slow and J = 32 fast variables each: parameters `F`, `h`, `c`, `b`.

    The truth is F = 10, h = 1, c = b = 10. From $x_1 = y_1 = 1$ and zeros elsewhere, all of it with
    normal noise of sd `perturbation`, it is integrated by the fourth-order Runge–Kutta method at
    steps of `integration_step`; the first `discarded` units of time are left out, and the slow
    variables recorded every `interval`. `generate(seed, 5)` gives five series that differ by their
    starts alone: data for `linear(series=...)` and `neural(series=...)`. (The published data are
    spaced by 0.075, though the text has 0.2: `interval=0.075` gives that.)

    The model is chaotic, so gradients through six units of time are of no use.

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.lorenz96.two_scale().prior.names
    ('F', 'h', 'c', 'b')

    ```

    Reference: Wilks (2005), Effects of stochastic parametrizations in the Lorenz '96 system.
    """
    check_times(num_records, interval, integration_step)
    check_nonnegative("discarded", discarded)
    check_nonnegative("perturbation", perturbation)
    between = num_steps(interval, integration_step)
    step = interval / between
    model = TwoScale(perturbation, step, num_records, round(discarded / step), between)
    size = NUM_SLOW * (1 + NUM_FAST)
    return Task(
        name="Lorenz96, two scales",
        prior=Prior(
            F=dist.Uniform(8.0, 12.0),
            h=dist.Uniform(0.5, 1.5),
            c=dist.Uniform(5.0, 15.0),
            b=dist.Uniform(5.0, 15.0),
        ),
        simulator=Simulator(model, noise=dist.Normal(0.0, 1.0).expand((size,)).to_event(1)),
        truth={name: jnp.asarray(value, float) for name, value in TRUTH.items()},
        num_observations=5,
    )
