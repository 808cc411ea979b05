"""A problem: prior, simulator and observations that fit together."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import is_concrete
from .._types import Array, Observations
from .._workers import Failed
from ._black_box import AbstractBlackBox
from ._prior import Prior
from ._simulator import AbstractSimulator, Simulator
from ._torch import TorchSimulator

PROBES = 10  # prior draws at which a black box may fail before it is refused
# of the code, not of the parameters: no other draw from the prior would do better
MISTAKES = ("KeyError", "IndexError", "TypeError", "NameError", "AttributeError", "ImportError",
            "ModuleNotFoundError", "SyntaxError")  # fmt: skip


class Problem(eqx.Module):
    """What is to be inferred, from what, and by which simulator.

    **Arguments:**

    - `prior`: the `Prior` of the parameters.
    - `simulator`: a `Simulator`, or `None` where the score needs none (`LogScore`).
    - `observations`: `(n, *event)`, one row per observation, of the shape of a simulator's draw.

    Everything is checked here, by abstract evaluation, before anything is compiled.

    ```python
    >>> import genbayes as gb, numpyro.distributions as dist
    >>> prior = gb.Prior(mean=dist.Normal(0, 1))
    >>> simulator = gb.Simulator(lambda theta, z: theta["mean"] + z, noise=dist.Normal(0, 1))
    >>> gb.Problem(prior, simulator, observations=[0.1, 1.2, 0.7]).num_observations
    3

    ```
    """

    prior: Prior
    simulator: AbstractSimulator | None
    observations: Array

    def __init__(self, prior: Prior, simulator: AbstractSimulator | None, observations: Any):
        self.prior = prior
        self.simulator = simulator
        if is_concrete(observations):
            _check_kinds(prior, simulator)
            observations = _check_observations(observations)
        self.observations = jnp.asarray(observations, float)
        if simulator is not None and is_concrete(observations):
            seen_into = simulator.traceable and not isinstance(simulator, TorchSimulator)
            probe = _probe if seen_into else _probe_black_box
            draw, unread = probe(prior, simulator)
            _check_draw(draw, self.observations)
            if unread:
                raise ValueError(
                    f"The simulator never reads the parameters {unread}; it knows "
                    f"theta by the names {list(prior.names)}. Use every one of them, or take them "
                    "out of the prior."
                )

    @property
    def num_observations(self) -> int:
        """The number of observations, `n`."""
        return self.observations.shape[0]

    def features(self) -> Observations:
        """The observations as a score sees them: `(n, d)`, summarised and flat."""
        if self.simulator is None:
            return self.observations.reshape(self.num_observations, -1)
        return self.simulator.features(self.observations)


def _check_kinds(prior: Any, simulator: Any) -> None:
    if not isinstance(prior, Prior):
        raise TypeError(f"prior must be a genbayes.Prior, got {type(prior).__name__}.")
    if simulator is not None and not isinstance(simulator, AbstractSimulator):
        raise TypeError(
            f"simulator must be a genbayes.Simulator, got {type(simulator).__name__}: "
            "wrap a function as Simulator(fn, noise=...)."
        )


def _check_observations(observations: Any) -> np.ndarray:
    try:
        y = np.asarray(observations, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"observations must be an array of numbers of shape (n, *event): {error}."
        ) from None
    if y.ndim == 0:
        raise ValueError(
            "observations must have one row per observation, shape (n, *event); got a single "
            f"number. For one scalar observation give [{float(y)}]."
        )
    if y.size == 0:
        raise ValueError(f"observations have no rows: shape {y.shape}. At least one is needed.")
    if not np.all(np.isfinite(y)):
        row = int(np.argwhere(~np.isfinite(y))[0, 0])
        count = int(np.sum(~np.isfinite(y)))
        raise ValueError(
            f"observations hold {count} values that are not finite (NaN or infinity), the first "
            f"in row {row}. Remove those rows or impute them."
        )
    return y


class _Recording(dict):
    """A mapping that remembers which of its entries were read."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        self.read.add(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401

    def _all(self) -> "_Recording":
        self.read |= set(dict.keys(self))
        return self

    def values(self) -> Any:
        return dict.values(self._all())

    def items(self) -> Any:
        return dict.items(self._all())

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._all())

    def keys(self) -> Any:  # what ** unpacks by
        return dict.keys(self._all())


# a tree to JAX, as the plain mapping is: whoever flattens it reads all of it
jax.tree_util.register_pytree_node(
    _Recording,
    lambda theta: (tuple(theta._all()[name] for name in dict.keys(theta)), tuple(dict.keys(theta))),
    lambda names, values: dict(zip(names, values, strict=True)),  # pyright: ignore
)


def _probe(prior: Prior, simulator: AbstractSimulator) -> tuple[jax.ShapeDtypeStruct, list[str]]:
    """The shape and type of one draw, found without running the simulator."""
    recorded: list[_Recording] = []

    def one(key, u):
        theta = _Recording(prior.constrain(u))
        recorded.append(theta)
        noise = jax.tree.map(lambda z: z[0], simulator.draw_noise(key, 1))
        if isinstance(simulator, Simulator):  # by itself: vmap would copy the mapping
            return simulator.fn(theta, noise)
        return simulator.simulate_from(theta, jax.tree.map(lambda z: z[None], noise))[0]

    draw = _explained(
        prior,
        lambda: jax.eval_shape(one, jax.random.key(0), jax.ShapeDtypeStruct((prior.size,), float)),
    )
    unread = [name for name in prior.names if name not in recorded[-1].read]
    return draw, unread


def _probe_black_box(
    prior: Prior, simulator: AbstractSimulator
) -> tuple[jax.ShapeDtypeStruct, list[str]]:
    """The shape and type of one draw, found by making one: nothing is known of what it reads."""
    failed = None
    for attempt in range(PROBES):
        key_theta, key_noise = jax.random.split(jax.random.key(attempt))
        theta, noise = prior.sample(key_theta), simulator.draw_noise(key_noise, 1)
        if isinstance(simulator, AbstractBlackBox):
            found = simulator.try_draw(theta, noise)
        else:
            found = _explained(prior, lambda t=theta, z=noise: simulator.simulate_from(t, z)[0])
        if not isinstance(found, Failed):
            return jax.ShapeDtypeStruct(found.shape, found.dtype), []
        if found.kind in MISTAKES:
            raise ValueError(_explanation(prior, found.message))
        failed = failed or found
    assert failed is not None
    raise ValueError(
        f"The simulator failed on each of {PROBES} draws from the prior, the first time because "
        f"{failed.message}. Tighten the prior, or mend the simulator.\n{failed.details}".rstrip()
    )


def _explained(prior: Prior, draw: Callable[[], Any]) -> Any:
    try:
        value = draw()
    except jax.errors.JAXTypeError as error:  # a value was asked for that is not known yet
        what = f"{type(error).__name__}, as JAX compiles it"
        raise ValueError(
            f"{_explanation(prior, what)} Write jax.numpy for numpy, and jnp.where for if; or give "
            f"the function as it is to BlackBox, which has no gradients. JAX says: {error}"
        ) from error
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(_explanation(prior, f"{type(error).__name__}: {error}")) from error
    if not hasattr(value, "shape"):
        raise TypeError(
            "The simulator must return one array per draw, got "
            f"{type(value).__name__}: stack its parts into one array."
        )
    return value


def _explanation(prior: Prior, what: str) -> str:
    return (
        f"The simulator failed on a draw from the prior: {what}. It is called as fn(theta, noise) "
        f"with theta a mapping with the names {list(prior.names)} "
        f'(theta["{prior.names[0]}"]), of shapes {prior.shapes}.'
    )


def _check_draw(draw: jax.ShapeDtypeStruct, observations: Array) -> None:
    if not jnp.issubdtype(draw.dtype, jnp.floating):
        raise TypeError(
            f"The simulator returns {draw.dtype} values; scores need floating-point numbers. "
            "Return x.astype(float)."
        )
    event = observations.shape[1:]
    if draw.shape == event:
        return
    message = (
        f"A draw of the simulator has shape {draw.shape}, an observation has shape {event} "
        f"(observations of shape {observations.shape} are read as (n, *event))."
    )
    if draw.shape == observations.shape:
        hint = (
            "If all the observations are one draw of the simulator, give observations[None]; if "
            "each row is one, let the simulator return a single row."
        )
    elif event == (*draw.shape, 1):
        hint = "Drop the last axis: observations[..., 0]."
    elif draw.shape == (*event, 1):
        hint = "Let the simulator return x[..., 0], or give observations[..., None]."
    else:
        hint = "Give observations with one row per draw of the simulator."
    raise ValueError(f"{message} {hint}")
