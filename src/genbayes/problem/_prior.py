"""The prior, and the map between named parameters and the flat vector that samplers walk on."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    Independent,
    TransformedDistribution,
)
from numpyro.distributions.transforms import biject_to

from .._checks import is_concrete
from .._types import Array, Key, Scalar, Theta, Unconstrained


class Prior(eqx.Module):
    r"""Independent prior distributions by parameter name.

    Users see a mapping $\theta$ from name to array; samplers see one flat vector $u$ of
    unconstrained coordinates. The prior owns the map $\theta(u)$ and its log-Jacobian.

    **Arguments:** NumPyro distributions by keyword (or in one mapping), of any event shape; a
    batch of distributions is read as one vector of independent parameters. A single
    distribution, given by position, is the prior of one vector named `theta`.

    ```python
    >>> import genbayes as gb
    >>> import numpyro.distributions as dist
    >>> prior = gb.Prior(A=dist.Uniform(0, 4), scale=dist.HalfNormal(1.0))
    >>> prior.names, prior.size
    (('A', 'scale'), 2)

    ```
    """

    names: tuple[str, ...] = eqx.field(static=True)
    distributions: tuple[Distribution, ...]

    def __init__(
        self,
        distributions: Mapping[str, Distribution] | Distribution | None = None,
        /,
        **by_name: Distribution,
    ):
        if isinstance(distributions, Distribution):
            distributions = {"theta": distributions}
        by_name = {**(distributions or {}), **by_name}
        if not by_name:
            raise ValueError(
                "A prior needs at least one parameter: "
                "Prior(A=numpyro.distributions.Uniform(0, 4))."
            )
        for name, distribution in by_name.items():
            _check_distribution(name, distribution)
        self.names = tuple(by_name)
        self.distributions = tuple(
            d.to_event(len(d.batch_shape)) if d.batch_shape else d for d in by_name.values()
        )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter."""
        return {n: d.event_shape for n, d in zip(self.names, self.distributions, strict=True)}

    @property
    def size(self) -> int:
        """The number of unconstrained coordinates: the length of $u$."""
        return sum(size for _, size in self._blocks())

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """A label for each coordinate of $u$: `A`, or `weights[3]` for a vector."""
        return tuple(
            name if size == 1 and not shape else f"{name}[{','.join(map(str, index))}]"
            for (name, _), (shape, size) in zip(self.shapes.items(), self._blocks(), strict=True)
            for index in np.ndindex(*shape)
        )

    def _blocks(self) -> list[tuple[tuple[int, ...], int]]:
        """Unconstrained shape and size of each parameter."""
        shapes = [biject_to(d.support).inverse_shape(d.event_shape) for d in self.distributions]
        return [(shape, math.prod(shape)) for shape in shapes]

    def _split(self, u: Unconstrained) -> list[Array]:
        blocks = self._blocks()
        stops = np.cumsum([size for _, size in blocks])[:-1].tolist()
        pieces = jnp.split(u, stops)
        return [p.reshape(shape) for p, (shape, _) in zip(pieces, blocks, strict=True)]

    def sample(self, key: Key, num: int | None = None) -> dict[str, Array]:
        """One draw of $\\theta$, or `num` of them with a leading axis."""
        keys = jax.random.split(key, len(self.names))
        shape = () if num is None else (num,)
        return {
            n: jnp.asarray(d.sample(k, shape))
            for n, d, k in zip(self.names, self.distributions, keys, strict=True)
        }

    def log_prob(self, theta: Theta) -> Scalar:
        r"""$\log \pi(\theta)$."""
        terms = [d.log_prob(theta[n]) for n, d in zip(self.names, self.distributions, strict=True)]
        return jnp.sum(jnp.stack(terms))

    def constrain(self, u: Unconstrained) -> dict[str, Array]:
        r"""$\theta(u)$: from the flat vector to named parameters."""
        return {
            n: biject_to(d.support)(piece)
            for n, d, piece in zip(self.names, self.distributions, self._split(u), strict=True)
        }

    def unconstrain(self, theta: Theta) -> Unconstrained:
        r"""$u(\theta)$: from named parameters to the flat vector."""
        pieces = [
            biject_to(d.support).inv(jnp.asarray(theta[n], float))
            for n, d in zip(self.names, self.distributions, strict=True)
        ]
        return jnp.concatenate([jnp.ravel(p) for p in pieces])

    def log_prob_unconstrained(self, u: Unconstrained) -> Scalar:
        r"""$\log \pi(\theta(u)) + \log |\partial \theta / \partial u|$."""
        total = jnp.zeros((), u.dtype)
        for d, piece in zip(self.distributions, self._split(u), strict=True):
            transform = biject_to(d.support)
            value = transform(piece)
            jacobian = transform.log_abs_det_jacobian(piece, value)
            total += d.log_prob(value) + jnp.sum(jacobian)
        return total

    def describe(self) -> dict[str, str]:
        """Each parameter's distribution in words, for tables and provenance."""
        return {n: _describe(d) for n, d in zip(self.names, self.distributions, strict=True)}

    def check_inside(self, theta: Theta) -> None:
        """Refuse a point with wrong names, wrong shapes, or outside the support."""
        if set(theta) != set(self.names):
            raise ValueError(
                f"Expected a value for each of the parameters {list(self.names)}, "
                f"got {sorted(theta)}."
            )
        for name, d in zip(self.names, self.distributions, strict=True):
            value = jnp.asarray(theta[name], float)
            if value.shape != d.event_shape:
                raise ValueError(
                    f"Parameter {name!r} has shape {d.event_shape}, got a value of shape "
                    f"{value.shape}."
                )
            support: Any = d.support
            if not bool(jnp.all(support(value))) or not bool(jnp.all(jnp.isfinite(value))):
                raise ValueError(
                    f"Parameter {name!r} = {value} lies outside the support of its prior "
                    f"({support}). Choose a point strictly inside."
                )
            if not bool(jnp.all(jnp.isfinite(biject_to(d.support).inv(value)))):
                raise ValueError(
                    f"Parameter {name!r} = {value} lies on the edge of the support of its prior "
                    f"({d.support}), which is infinitely far in unconstrained coordinates. "
                    "Choose a point strictly inside."
                )


def _check_distribution(name: str, distribution: Any) -> None:
    if not isinstance(distribution, Distribution):
        raise TypeError(
            f"The prior of {name!r} must be a NumPyro distribution, such as "
            f"numpyro.distributions.Uniform(0, 4); got {type(distribution).__name__}."
        )
    if distribution.is_discrete:
        raise ValueError(
            f"The prior of {name!r} is discrete ({type(distribution).__name__}). Parameters must "
            "be continuous; sum a discrete one out, or infer one posterior for each of its values."
        )
    _check_bounds(name, distribution)


def _check_bounds(name: str, distribution: Any) -> None:
    """Refuse reversed bounds, also of what is wrapped by `to_event`, `expand` or a transform."""
    low, high = getattr(distribution, "low", None), getattr(distribution, "high", None)
    bounds = low is not None and high is not None and is_concrete(low)
    if bounds and bool(np.any(np.asarray(low) >= np.asarray(high))):
        raise ValueError(
            f"The prior of {name!r} has reversed or equal bounds: low = {low}, high = {high}. "
            "Give the lower bound first."
        )
    wrapped = getattr(distribution, "base_dist", None)
    if wrapped is not None:
        _check_bounds(name, wrapped)


def _describe(distribution: Distribution) -> str:
    base: Any = distribution
    while isinstance(base, Independent | ExpandedDistribution):
        base = base.base_dist
    event = f" over {distribution.event_shape}" if distribution.event_shape else ""
    if type(base) is TransformedDistribution:  # a named one, such as LogNormal, says it better
        steps = ", ".join(type(t).__name__ for t in base.transforms)
        return f"{_describe(base.base_dist)} by {steps}{event}"
    arguments = ", ".join(
        f"{a}={np.asarray(getattr(base, a)).tolist()}"
        for a in base.arg_constraints
        if a in vars(base)
    )
    return f"{type(base).__name__}({arguments}){event}"
