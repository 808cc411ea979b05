"""The shape vocabulary: one name for each kind of array that passes between stages."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

Key: TypeAlias = PRNGKeyArray
Scalar: TypeAlias = Float[Array, ""]
Theta: TypeAlias = Mapping[str, Array]  # what users see: name -> array
Unconstrained: TypeAlias = Float[Array, " p"]  # what samplers see: one flat vector
Simulations: TypeAlias = Float[Array, "m d"]
Observations: TypeAlias = Float[Array, "n d"]
Noise: TypeAlias = PyTree[Any]  # whatever a simulator's randomness is made of

__all__ = [
    "Array", "Bool", "Float", "Int", "Key", "Noise", "Observations", "PyTree", "Scalar",
    "Simulations", "Theta", "Unconstrained",
]  # fmt: skip
