"""The far side of a PyTorch simulator: NumPy arrays in, NumPy arrays out.

Nothing here calls JAX: from inside a callback that can hang.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, Any]
NOT_DIFFERENTIABLE = "A simulator without derivatives can go through gb.BlackBox, which needs none."


def import_torch() -> Any:
    """PyTorch, or how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "TorchSimulator needs PyTorch: install it with  pip install 'genbayes[torch]'"
        ) from error
    return torch


class Bridge:
    """A function in PyTorch that is called with NumPy arrays.

    At the first draw it learns `shape`, that of a draw, and `unmapped`: why `torch.func.vmap`
    does not take the function, where it does not.
    """

    def __init__(self, fn: Callable[..., Any], *, vectorized: bool, seeds: bool):
        self.torch = import_torch()
        self.fn = fn
        self.vectorized = vectorized
        self.seeds = seeds
        self.shape: tuple[int, ...] | None = None
        self.unmapped: str | None = "each draw has a torch.Generator of its own" if seeds else None
        self.names: tuple[str, ...] = ()

    def learn(self, theta: Arrays, noise: np.ndarray) -> None:
        """Make one draw, and refuse a function that does not give what is needed."""
        if self.shape is not None:
            return
        theta_in, rows = self._tensors(theta, True), self._noise(noise[[0, -1]])
        draw = self.fn(theta_in, rows if self.vectorized else rows[0])
        self._check(draw, theta_in)
        if not (self.vectorized or self.seeds):
            self.unmapped = self._why_unmapped(theta_in, rows, draw)
        self.names = tuple(theta)
        self.shape = tuple(draw.shape[1:] if self.vectorized else draw.shape)

    def draws(self, *arrays: np.ndarray) -> tuple[np.ndarray]:
        """The draws, from the parameters in the order of `names` and the noise."""
        *values, noise = arrays
        theta = self._tensors(self._named(values), False)
        found = self._run(theta, noise) if _finite(values) else None
        dtype = values[0].dtype
        if found is None:
            return (np.full((noise.shape[0], *(self.shape or ())), np.nan, dtype),)
        return (found.detach().cpu().numpy().astype(dtype),)

    def pull_theta(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Derivatives by the parameters, of the draws times the cotangent that comes last."""
        return self._pull(arrays, with_noise=False)

    def pull_both(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """As `pull_theta`, and by the noise."""
        return self._pull(arrays, with_noise=True)

    def _pull(self, arrays: tuple[np.ndarray, ...], *, with_noise: bool) -> list[np.ndarray]:
        *values, noise, cotangent = arrays
        theta, rows = self._tensors(self._named(values), True), self._noise(noise)
        by = list(theta.values())
        if with_noise:
            by.append(rows.requires_grad_(True))
        like = [*values, noise][: len(by)]
        found = self._run(theta, rows) if _finite(values) else None
        if found is None:
            return [np.full_like(x, np.nan) for x in like]
        along = self.torch.tensor(cotangent).to(found)
        gradients = self.torch.autograd.grad(found, by, along, allow_unused=True)
        return [
            np.zeros_like(x) if g is None else g.cpu().numpy()
            for g, x in zip(gradients, like, strict=True)
        ]

    def _named(self, values: list[np.ndarray]) -> Arrays:
        return dict(zip(self.names, values, strict=True))

    def _run(self, theta: Arrays, noise: Any) -> Any:
        """All draws for one set of parameters; nothing where a decomposition fails, as in JAX."""
        rows = self._noise(noise) if isinstance(noise, np.ndarray) else noise
        try:
            if self.vectorized:
                return self.fn(theta, rows)
            if self.unmapped is None:
                return self._map(theta, rows)
            return self.torch.stack([self.fn(theta, row) for row in rows])
        except self.torch.linalg.LinAlgError:
            return None

    def _map(self, theta: Arrays, rows: Any) -> Any:
        return self.torch.func.vmap(self.fn, in_dims=(None, 0))(theta, rows)

    def _tensors(self, theta: Arrays, gradients: bool) -> Arrays:
        return {n: self.torch.tensor(x, requires_grad=gradients) for n, x in theta.items()}

    def _noise(self, noise: np.ndarray) -> Any:
        if self.seeds:
            return [self.torch.Generator().manual_seed(int(seed)) for seed in noise]
        return self.torch.tensor(noise)

    def _check(self, draw: Any, theta: Arrays) -> None:
        torch = self.torch
        if not isinstance(draw, torch.Tensor):
            raise ValueError(
                f"A PyTorch simulator must return one tensor, got {type(draw).__name__}: "
                "torch.stack its parts."
            )
        if not draw.is_floating_point():
            raise ValueError(
                f"The simulator returns {draw.dtype} values; scores need floating-point numbers. "
                f"Return x.to(noise.dtype) of what can be differentiated. {NOT_DIFFERENTIABLE}"
            )
        if self.vectorized and (draw.ndim == 0 or draw.shape[0] != 2):
            raise ValueError(
                "With vectorized=True the simulator returns one draw for each row of the noise: "
                f"for two rows it gave a tensor of shape {tuple(draw.shape)}, whose first axis "
                "should have length 2. If it makes one draw at a time, leave vectorized out."
            )
        if not draw.requires_grad:
            raise ValueError(
                "PyTorch cannot differentiate the simulator's result by any of the parameters "
                f"{list(theta)}: somewhere it leaves PyTorch (.detach(), .item(), NumPy, a new "
                f"torch.tensor) or does not depend on them. {NOT_DIFFERENTIABLE}"
            )

    def _why_unmapped(self, theta: Arrays, rows: Any, first: Any) -> str | None:
        """Try to map two draws; anything may go wrong in a user's function, and is no harm."""
        try:
            mapped = self._map(theta, rows)
        except Exception as error:
            return str(error).strip().split("\n")[0] or type(error).__name__
        same = mapped.shape == (2, *first.shape) and self.torch.allclose(
            mapped[0], first, rtol=1e-3, atol=1e-5, equal_nan=True
        )
        return None if same else "mapped draws differ from single ones"


def _finite(values: list[np.ndarray]) -> bool:
    return all(bool(np.all(np.isfinite(x))) for x in values)
