"""Which way to differentiate: forward for few parameters through a long loop, else reverse."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from .._types import Array, Scalar, Unconstrained

if TYPE_CHECKING:
    from ._posterior import ScorePosterior, TargetNoise

# Forward mode costs about one evaluation a parameter, reverse mode about three in all, but
# reverse mode keeps every step of a loop in memory.
MOST_FORWARD_PARAMETERS = 8


def gradient_mode(
    target: "ScorePosterior", u: Unconstrained, noise: "TargetNoise"
) -> Literal["forward", "reverse"]:
    """The mode that `"auto"` stands for."""
    if target.size > MOST_FORWARD_PARAMETERS or target.is_exact:
        return "reverse"
    simulator = target.problem.simulator
    assert simulator is not None

    def draw(u: Array) -> Array:
        one = jax.tree.map(lambda z: z[:1], noise.simulator)
        return simulator.simulate_from(target.problem.prior.constrain(u), one)

    return "forward" if _loops(jax.make_jaxpr(draw)(u).jaxpr) else "reverse"


def _loops(jaxpr: Jaxpr) -> bool:
    """Whether a program has a loop that the parameters flow through."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in ("scan", "while") and any(
            jnp.issubdtype(getattr(v.aval, "dtype", jnp.int32), jnp.floating)
            for v in equation.outvars
        ):
            return True
        if any(_loops(sub) for sub in _inner(equation.params)):
            return True
    return False


def _inner(params: dict[str, Any]) -> list[Jaxpr]:
    values = [v for p in params.values() for v in (p if isinstance(p, (tuple, list)) else (p,))]
    closed = [v.jaxpr for v in values if isinstance(v, ClosedJaxpr)]
    return closed + [v for v in values if isinstance(v, Jaxpr)]


def value_and_grad(
    fn: Callable[[Array], Scalar], u: Unconstrained, mode: Literal["forward", "reverse"]
) -> tuple[Scalar, Unconstrained]:
    """Value and gradient of a function, in one pass."""
    if mode == "reverse":
        return jax.value_and_grad(fn)(u)
    along = jax.vmap(lambda tangent: jax.jvp(fn, (u,), (tangent,)), out_axes=(None, 0))
    return along(jnp.eye(u.shape[0], dtype=u.dtype))
