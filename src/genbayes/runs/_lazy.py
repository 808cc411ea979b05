"""An array of a stored run: parts are read when indexed, all of it when computed with."""

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class StoredArray(NDArrayOperatorsMixin):
    """A NumPy array that is still on the disk; slices read only the chunks that they touch.

    `source` is anything with `shape`, `dtype` and slices, such as a Zarr array. What was read
    whole is remembered while somebody holds it. NumPy takes it everywhere; JAX wants
    `jnp.asarray(it)` first.

    >>> StoredArray(np.arange(6.0).reshape(1, 6))[:, 2:4] * 10
    array([[20., 30.]])
    """

    __array_priority__ = 1000  # so that ndarray on the left leaves the operation to us

    def __init__(self, source: Any):
        self._source = source
        self._whole: weakref.ref[np.ndarray] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the array on disk."""
        return tuple(self._source.shape)

    @property
    def dtype(self) -> np.dtype:
        """As of the array on disk."""
        return np.dtype(self._source.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if all(_is_simple(part) for part in parts):
            return np.asarray(self._source[index])[()]
        return np.asarray(self)[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = None if self._whole is None else self._whole()
        if whole is None:
            whole = np.asarray(self._source[...])
            whole.setflags(write=False)  # shared by all who ask
            self._whole = weakref.ref(whole)
        return np.array(whole, dtype) if copy else np.asarray(whole, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        arrays = [np.asarray(x) if isinstance(x, StoredArray) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **settings)

    def __getattr__(self, name: str) -> Any:
        """The methods of NumPy arrays, such as `mean` and `reshape`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __repr__(self) -> str:
        return f"<StoredArray {self.dtype}{list(self.shape)}>"


def _is_simple(part: Any) -> bool:
    """What Zarr reads itself; the rest (masks, lists, steps back) is left to NumPy."""
    if isinstance(part, slice):
        return part.step is None or part.step > 0
    whole = isinstance(part, (int, np.integer)) and not isinstance(part, bool)
    return part is Ellipsis or (whole and int(part) >= 0)
