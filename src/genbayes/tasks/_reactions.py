"""Populations that react at random: predators and prey, and an epidemic."""

import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist

from .._types import Array, Theta
from ..problem import Prior, Simulator
from ._stepping import check_times, langevin, num_steps
from ._task import Task

# what each reaction adds to each species
PREDATION = ((1.0, 0.0), (-1.0, 1.0), (0.0, -1.0))
EPIDEMIC = ((-1.0, 1.0), (0.0, -1.0))


def predation_hazards(theta: Theta, x: Array) -> Array:
    """A prey is born; a predator eats one and has a young; a predator dies."""
    prey, predators = x
    return jnp.stack(
        [
            theta["birth"] * prey,
            theta["predation"] * prey * predators,
            theta["death"] * predators,
        ]
    )


def epidemic_hazards(theta: Theta, x: Array) -> Array:
    """Somebody is infected; somebody recovers. The size of the population comes with `theta`."""
    susceptible, infected = x
    return jnp.stack(
        [
            theta["contact"] * susceptible * infected / theta["population"],
            theta["recovery"] * infected,
        ]
    )


class Reactions(eqx.Module):
    """Counts of the species at each record, from a fixed start."""

    effects: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    hazards: Callable[[Theta, Array], Array]
    initial: tuple[float, ...] = eqx.field(static=True)
    step: float
    shown: int | None = eqx.field(static=True, default=None)  # the one species that is seen

    @eqx.filter_jit
    def __call__(self, theta: Theta, noise: Array) -> Array:
        start = jnp.asarray(self.initial, noise.dtype)
        theta = {**theta, "population": jnp.sum(start)}
        effects = jnp.asarray(self.effects, noise.dtype)
        x = langevin(effects, lambda x: self.hazards(theta, x), start, noise, self.step)
        return x if self.shown is None else x[:, self.shown]


def _task(
    name: str,
    prior: dict[str, dist.Distribution],
    truth: dict[str, float],
    model: Callable[[float], Reactions],
    times: tuple[int, float, float],
) -> Task:
    check_times(*times)
    num_records, interval, integration_step = times
    steps = num_steps(interval, integration_step)
    reactions = model(interval / steps)
    shape = (num_records, steps, len(reactions.effects))
    return Task(
        name=name,
        prior=Prior(prior),
        simulator=Simulator(reactions, noise=dist.Normal(0.0, 1.0).expand(shape).to_event(3)),
        truth={n: jnp.asarray(v) for n, v in truth.items()},
    )


def lotka_volterra(
    *, num_records: int = 20, interval: float = 1.0, integration_step: float = 0.05
) -> Task:
    r"""Stochastic Lotka–Volterra: 50 prey and 100 predators at first, counted at each record.

    Reactions: a prey is born (rate `birth` a prey), a predator eats a prey and multiplies
    (`predation` a pair), a predator dies (`death` a predator), as a chemical Langevin equation, so
    that draws have derivatives. Log-normal priors with medians 1, 0.005 and 0.6 and log-sd 0.5; the
    truth are the medians. A draw has shape `(num_records, 2)`.

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.lotka_volterra().prior.names
    ('birth', 'predation', 'death')

    ```

    Reference: Boys, Wilkinson and Kirkwood (2008), Bayesian inference for a discretely observed
    stochastic kinetic model, Statistics and Computing 18.
    """
    truth = {"birth": 1.0, "predation": 0.005, "death": 0.6}
    prior: dict[str, dist.Distribution] = {
        name: dist.LogNormal(math.log(value), 0.5) for name, value in truth.items()
    }
    return _task(
        "Lotka–Volterra",
        prior,
        truth,
        lambda step: Reactions(PREDATION, predation_hazards, (50.0, 100.0), step),
        (num_records, interval, integration_step),
    )


def sir(
    *,
    population: float = 1000.0,
    infected: float = 10.0,
    num_records: int = 20,
    interval: float = 4.0,
    integration_step: float = 0.1,
) -> Task:
    r"""A stochastic epidemic: susceptible, infected, recovered; the infected at each record.

    `contact` is the rate at which one infected meets others, `recovery` the rate at which one
    recovers: log-normal priors with medians 0.4 and 1/8 and log-sds 0.5 and 0.2, the truth at the
    medians. A chemical Langevin equation, so that draws have derivatives; their shape is
    `(num_records,)`.

    ```python
    >>> import genbayes as gb
    >>> gb.tasks.sir().prior.names
    ('contact', 'recovery')

    ```

    Reference: Lueckmann et al. (2021), Benchmarking simulation-based inference, for the priors.
    """
    if not 0 < infected < population:
        raise ValueError(
            f"infected must lie between 0 and the population ({population:g}), got {infected:g}."
        )
    return _task(
        "SIR",
        {
            "contact": dist.LogNormal(math.log(0.4), 0.5),
            "recovery": dist.LogNormal(math.log(0.125), 0.2),
        },
        {"contact": 0.4, "recovery": 0.125},
        lambda step: Reactions(
            EPIDEMIC, epidemic_hazards, (population - infected, infected), step, 1
        ),
        (num_records, interval, integration_step),
    )
