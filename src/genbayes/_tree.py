"""Trees of arrays as flat, named NumPy arrays, and back: how a sampler's state is stored."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._types import PyTree


def is_key(leaf: Any) -> bool:
    """Whether a leaf holds random keys."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def floats_to_arrays(tree: PyTree) -> PyTree:
    """Python floats as arrays, so that a compiled program serves every value of a setting."""
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float) else x, tree)


def to_arrays(tree: PyTree) -> dict[str, np.ndarray]:
    """The array leaves of a tree, by path; random keys as their raw data."""
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if isinstance(leaf, (jax.Array, np.ndarray)):
            data = jax.random.key_data(leaf) if is_key(leaf) else leaf
            arrays[jax.tree_util.keystr(path)] = np.asarray(data)
    return arrays


def from_arrays(template: PyTree, arrays: dict[str, np.ndarray]) -> PyTree:
    """A tree like the template with the stored arrays in place of its own."""

    def restore(path: Any, leaf: Any) -> Any:
        if not isinstance(leaf, (jax.Array, np.ndarray)):
            return leaf
        name = jax.tree_util.keystr(path)
        expected = jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf
        stored = arrays.get(name)
        if stored is None or stored.shape != expected.shape or stored.dtype != expected.dtype:
            found = "nothing" if stored is None else f"{stored.dtype}{list(stored.shape)}"
            raise ValueError(
                f"The stored state does not fit this target and sampler: expected "
                f"{expected.dtype}{list(expected.shape)} for {name}, found {found}. Resume with "
                "the target, sampler and precision that the run was begun with."
            )
        if is_key(leaf):
            return jax.random.wrap_key_data(jnp.asarray(stored), impl=jax.random.key_impl(leaf))
        return jnp.asarray(stored)

    return jax.tree_util.tree_map_with_path(restore, template)
