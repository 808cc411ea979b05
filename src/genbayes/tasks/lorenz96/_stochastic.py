"""Lorenz96 with a stochastic parametrisation of the fast variables: linear, or by a network."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from ..._checks import check_choice
from ..._types import Array, Float, Key, Theta
from ...problem import Prior, Simulator
from .._stepping import check_times, num_steps, recorded
from .._task import Task
from ._tendency import FORCING, NUM_SLOW, advection, advection_by_variable

# the fixed start of the published comparison with ABC
INITIAL = (6.4558, 1.1054, -1.4502, -0.1985, 1.1905, 2.3887, 5.6689, 6.7284)
INTERVAL, SERIES_INTERVAL = 3 / 40, 0.2
INTEGRATION_STEP = 0.0075
NUM_RECORDS, NUM_HIDDEN = 20, 6
Method: TypeAlias = Literal["heun", "euler"]
# of all draws: variables along the first axis, or an array for each variable
State: TypeAlias = Float[Array, "8 num"] | tuple[Array, ...]


def linear_forcing(theta: Theta, x: Array) -> Array:
    r"""$g_k = b_0 + b_1 x_k$."""
    return theta["b0"] + theta["b1"] * x


def network_forcing(theta: Theta, x: Float[Array, "8 num"]) -> Float[Array, "8 num"]:
    r"""$g = W_2 \max(W_1 x + c_1, 0) + c_2$, one network from the whole state to all of $g$."""
    hidden = jax.nn.relu(theta["hidden_weights"] @ x + theta["hidden_bias"][:, None])
    return theta["output_weights"] @ hidden + theta["output_bias"][:, None]


class Lorenz96(eqx.Module):
    """From a fixed start: `fn(theta, noise)` gives the records, `(records, 8)`.

    Draws lie along the last axis, where loops of eight variables would be too short for the
    processor's vectors. A forcing of each variable alone lets each be an array of its own.

    **Arguments:** `forcing`, $g(x; \\theta)$, of a variable if `local`, else of all; `initial`,
    the start; `step`, the integration step; `method`, `"heun"` or `"euler"`; `centre` and `scale`,
    taken off and divided by at the end.
    """

    forcing: Callable[[Theta, Array], Array]
    local: bool = eqx.field(static=True)
    initial: Array
    step: float
    method: Method = eqx.field(static=True)
    centre: float | Array = 0.0
    scale: float | Array = 1.0

    def __call__(self, theta: Theta, noise: Float[Array, "records steps 8"]) -> Array:
        return self.many(theta, noise[None])[0]

    @eqx.filter_jit
    def many(self, theta: Theta, noise: Float[Array, "num records steps 8"]) -> Array:
        """All draws at once, `(num, records, 8)`."""
        start = jnp.broadcast_to(
            self.initial.astype(noise.dtype)[:, None], (NUM_SLOW, noise.shape[0])
        )

        # within the loop over records: ahead of it, the compiler would draw the noise in the order
        # of the loops, which takes longer than to draw it as it comes and put it into order
        def arrange(record: Float[Array, "num steps 8"]) -> State:
            z = jnp.moveaxis(record, 0, -1)
            return tuple(jnp.moveaxis(z, 1, 0)) if self.local else z

        advance, records = self._advance(theta, noise.dtype), jnp.moveaxis(noise, 1, 0)
        x = recorded(advance, tuple(start) if self.local else start, records, arrange)
        x = jnp.stack(x, axis=1) if self.local else x
        return (jnp.moveaxis(x, -1, 0) - self.centre) / self.scale

    def _advance(self, theta: Theta, dtype: Any) -> Callable[[State, State], State]:
        """One step, `(state, noise)` to state."""
        step, spread = self.step, theta["sigma_e"] * jnp.sqrt(jnp.asarray(self.step, dtype))

        def euler(x: State, z: State) -> State:
            slope = self._tendency(theta, x)
            return jax.tree.map(lambda x, a, z: x + step * a + spread * z, x, slope, z)

        def heun(x: State, z: State) -> State:
            here = self._tendency(theta, x)
            ahead = jax.tree.map(lambda x, a, z: x + step * a + spread * z, x, here, z)
            there = self._tendency(theta, ahead)
            return jax.tree.map(
                lambda x, a, b, z: x + step / 2 * (a + b) + spread * z, x, here, there, z
            )

        # in reverse mode it is faster to make a step again than to read all of it from memory
        return jax.checkpoint(euler if self.method == "euler" else heun, prevent_cse=False)

    def _tendency(self, theta: Theta, x: State) -> State:
        if not isinstance(x, tuple):
            return advection(x) + FORCING - self.forcing(theta, x)
        pairs = zip(advection_by_variable(x), x, strict=True)
        return tuple(a + FORCING - self.forcing(theta, one) for a, one in pairs)


def linear(
    *,
    num_records: int = NUM_RECORDS,
    interval: float | None = None,
    integration_step: float = INTEGRATION_STEP,
    method: Method = "heun",
    series: Any = None,
    sigma_prior: dist.Distribution | None = None,
) -> Task:
    r"""Lorenz96 with $g_k = b_0 + b_1 x_k$: parameters `b0`, `b1`, `sigma_e`.

    The truth is (2, 0.8, 1.7). Uniform priors on [1.4, 2.2], [0, 1] and [1.5, 2.5]. A draw has
    shape `(num_records, 8)`.

    **Arguments:**

    - `num_records`, `interval`: how many records, and the time between them (3/40).
    - `integration_step`: the longest step of the integration.
    - `method`: `"heun"`, of weak order two as the noise is additive, which at 0.0075 cannot be
        told from small steps; or `"euler"`, the published Euler–Maruyama method, which needs 0.001
        for that, is visibly off at 0.0075, and at 3/40 sends nearly every draw to infinity.
    - `series`: one series of the two-scale model, `(num_records + 1, 8)`. The model then starts at
        its first record, and the others are the one observation; draws and data are standardised by
        mean and sd of that first record. The interval is then 0.2 and the prior of `sigma_e`
        uniform on [0, 1.5], unless given.
    - `sigma_prior`: another prior of `sigma_e`.

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.lorenz96.linear().generate(seed=0, num_observations=10).shape
    (10, 20, 8)

    ```
    """
    prior = {
        "b0": dist.Uniform(1.4, 2.2),
        "b1": dist.Uniform(0.0, 1.0),
        "sigma_e": dist.Uniform(1.5, 2.5) if series is None else dist.Uniform(0.0, 1.5),
    }
    truth = {"b0": 2.0, "b1": 0.8, "sigma_e": 1.7 if series is None else 1.0}
    if sigma_prior is not None:
        prior["sigma_e"] = sigma_prior
    times = (num_records, interval, integration_step, method)
    return _task("Lorenz96, linear", linear_forcing, prior, truth, times, series)


def neural(
    *,
    num_records: int = NUM_RECORDS,
    interval: float | None = None,
    integration_step: float = INTEGRATION_STEP,
    method: Method = "heun",
    series: Any = None,
    sigma_prior: dist.Distribution | None = None,
) -> Task:
    r"""Lorenz96 with a network for $g$: 8 inputs, 6 hidden ReLUs, 8 outputs; 111 parameters.

    Weights and biases have prior variance 10, `sigma_e` is uniform on [0, 1.5] (`sigma_prior`
    replaces that). Most draws from this prior send the model to infinity: start chains at the
    truth, or at small weights. The truth is a network that forces six of the variables by half
    their positive part; with `series`, no parameters are true, and it is one point of the model.

    **Arguments:** as for `linear`. The data of the published experiment are one series of the
    two-scale model:

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.lorenz96.neural().prior.size
    111
    >>> data = gb.tasks.lorenz96.two_scale(num_records=4).generate(seed=0, num_observations=5)
    >>> gb.tasks.lorenz96.neural(series=data[0]).problem().observations.shape
    (1, 3, 8)

    ```
    """
    shapes = {
        "hidden_weights": (NUM_HIDDEN, NUM_SLOW),
        "hidden_bias": (NUM_HIDDEN,),
        "output_weights": (NUM_SLOW, NUM_HIDDEN),
        "output_bias": (NUM_SLOW,),
    }
    weight = dist.Normal(0.0, float(np.sqrt(10.0)))
    prior: dict[str, Any] = {n: weight.expand(s).to_event(len(s)) for n, s in shapes.items()}
    prior["sigma_e"] = dist.Uniform(0.0, 1.5) if sigma_prior is None else sigma_prior
    truth = {
        "hidden_weights": np.eye(NUM_HIDDEN, NUM_SLOW),
        "hidden_bias": np.zeros(NUM_HIDDEN),
        "output_weights": 0.5 * np.eye(NUM_SLOW, NUM_HIDDEN),
        "output_bias": np.full(NUM_SLOW, 2.0),
        "sigma_e": 1.0,
    }
    times = (num_records, interval, integration_step, method)
    return _task("Lorenz96, neural", network_forcing, prior, truth, times, series)


def _task(
    name: str,
    forcing: Callable[[Theta, Array], Array],
    prior: dict[str, Any],
    truth: dict[str, Any],
    times: tuple[int, float | None, float, Method],
    series: Any,
) -> Task:
    num_records, interval, integration_step, method = times
    check_choice("method", method, ("heun", "euler"))
    initial, source, more = np.asarray(INITIAL), None, {}
    if series is not None:
        series = _checked_series(series)
        initial, num_records = series[0], len(series) - 1
        more = {"centre": float(initial.mean()), "scale": float(initial.std(ddof=1))}
        source = _only((series[1:] - more["centre"]) / more["scale"])
    if interval is None:
        interval = INTERVAL if series is None else SERIES_INTERVAL
    check_times(num_records, interval, integration_step)
    steps = num_steps(interval, integration_step)
    noise = dist.Normal(0.0, 1.0).expand((num_records, steps, NUM_SLOW)).to_event(3)
    model = Lorenz96(
        forcing, forcing is linear_forcing, jnp.asarray(initial, float), interval / steps, method,
        **more,
    )  # fmt: skip
    return Task(
        name=name if series is None else f"{name}, two-scale data",
        prior=Prior(prior),
        simulator=Simulator(model, noise=noise),
        truth={n: jnp.asarray(v, float) for n, v in truth.items()},
        source=source,
        num_observations=10 if series is None else 1,
    )


def _checked_series(series: Any) -> np.ndarray:
    series = np.asarray(series, float)
    if series.ndim != 2 or series.shape[1] != NUM_SLOW or len(series) < 2:
        raise ValueError(
            f"series must be one series of records, of shape (num_records + 1, {NUM_SLOW}), got "
            f"shape {series.shape}: one row of lorenz96.two_scale().generate(seed, 5)."
        )
    return series


def _only(observation: np.ndarray) -> Callable[[Key, int], Array]:
    def the_series(key: Key, num: int) -> Array:
        del key
        if num != 1:
            raise ValueError(
                f"A series is one observation, and num_observations is {num}. Leave it out, or "
                "say num_observations=1."
            )
        return jnp.asarray(observation[None], float)

    return the_series
