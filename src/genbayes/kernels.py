r"""Positive-definite kernels, each a function of two points.

Kernels of a distance are written as a function of the squared distance $s = \lVert x - y \rVert^2$
together with its slope $2\,k'(s)$, so that pair sums get value and gradient in one pass:
$\nabla_x k(x, y) = 2\,k'(s)\,(x - y)$, which is zero, not undefined, where the points coincide.
"""

from abc import abstractmethod
from collections.abc import Callable
from math import log
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._checks import check_positive
from ._types import Array, Float, Scalar

Point = Float[Array, " d"]
Squared = Float[Array, "..."]


def safe_root(squared: Squared) -> tuple[Squared, Squared]:
    r"""$\sqrt s$ and $1/\sqrt s$, the second being 0 where $s = 0$; one root serves both.

    **Arguments:** `squared`, any shape, non-negative.

    >>> [float(r) for r in safe_root(jnp.array(4.0))]
    [2.0, 0.5]
    """
    # The root decides, not its argument, which in a pair sum would be worked out once more.
    least = jnp.finfo(squared.dtype).tiny
    root = jnp.sqrt(jnp.maximum(squared, least))
    none, zero = root <= least**0.5, jnp.zeros_like(root)
    return jnp.where(none, zero, root), jnp.where(none, zero, 1 / root)


class AbstractKernel(eqx.Module):
    """A symmetric positive-definite function `k(x, y)` of two points of shape `(d,)`.

    Kernels add up and scale by positive numbers: `Gaussian(1.0) + 0.5 * Laplace(2.0)`.
    """

    characteristic: ClassVar[bool]

    @abstractmethod
    def __call__(self, x: Point, y: Point) -> Scalar:
        """The kernel of two points, `(d,)` each."""

    def __add__(self, other: "AbstractKernel") -> "Sum":
        if not isinstance(other, AbstractKernel):
            return NotImplemented
        return Sum((self, other))

    def __rmul__(self, weight: float) -> "Sum":
        return Sum((self,), (weight,))


class AbstractRadial(eqx.Module):
    """A function of the squared distance of two points, kernel or not."""

    @abstractmethod
    def radial(self, squared: Squared) -> tuple[Squared, Squared]:
        r"""Value $k(s)$ and slope $2\,k'(s)$ at squared distances of any shape."""


class AbstractRadialKernel(AbstractKernel, AbstractRadial):
    """A kernel of the Euclidean distance; a new one implements `radial` alone."""

    def __call__(self, x: Point, y: Point) -> Scalar:
        """The kernel of two points, `(d,)` each."""
        return self.radial(jnp.sum((x - y) ** 2))[0]


class Gaussian(AbstractRadialKernel):
    r"""Gaussian kernel.

    $$k(x, y) = \exp\bigl(-\lVert x - y\rVert^2 / (2\gamma^2)\bigr)$$

    **Arguments:** `bandwidth`, the length $\gamma > 0$.

    >>> float(Gaussian(1.0)(jnp.zeros(2), jnp.ones(2)))
    0.3678...

    Reference: Gretton et al. (2012), A kernel two-sample test, JMLR 13.
    """

    bandwidth: float | Scalar
    characteristic: ClassVar[bool] = True

    def __check_init__(self):
        check_positive("bandwidth", self.bandwidth)

    def radial(self, squared: Squared) -> tuple[Squared, Squared]:
        r"""Value $k(s)$ and slope $2\,k'(s)$ at squared distances of any shape."""
        precision = _precision(self.bandwidth, squared)
        value = _exp_minus(0.5 * precision * squared)
        return value, -precision * value

    def value_over_slope(self, dtype: Any) -> Scalar:
        """The one number by which slopes give values: pair sums then need only the slopes."""
        return -jnp.square(jnp.asarray(self.bandwidth, dtype))


class Laplace(AbstractRadialKernel):
    r"""Laplace (exponential, Matérn 1/2) kernel of the Euclidean distance.

    $$k(x, y) = \exp\bigl(-\lVert x - y\rVert / \gamma\bigr)$$

    **Arguments:** `bandwidth`, the length $\gamma > 0$.

    >>> float(Laplace(1.0)(jnp.zeros(1), jnp.ones(1)))
    0.3678...

    Reference: Sriperumbudur et al. (2010), Hilbert space embeddings and metrics on probability
    measures, JMLR 11.
    """

    bandwidth: float | Scalar
    characteristic: ClassVar[bool] = True

    def __check_init__(self):
        check_positive("bandwidth", self.bandwidth)

    def radial(self, squared: Squared) -> tuple[Squared, Squared]:
        r"""Value $k(s)$ and slope $2\,k'(s)$ at squared distances of any shape."""
        bandwidth = jnp.asarray(self.bandwidth, squared.dtype)
        distance, inverse = safe_root(squared)
        value = _exp_minus(distance / bandwidth)
        return value, -value * inverse / bandwidth


class InverseMultiquadric(AbstractRadialKernel):
    r"""Inverse multiquadric kernel.

    $$k(x, y) = \bigl(1 + \lVert x - y\rVert^2 / \gamma^2\bigr)^{-a}$$

    **Arguments:** `bandwidth`, the length $\gamma > 0$; `exponent`, $a > 0$ (a Python number).

    >>> float(InverseMultiquadric(1.0)(jnp.zeros(1), jnp.ones(1)))
    0.7071...

    Reference: Gorham and Mackey (2017), Measuring sample quality with kernels, ICML.
    """

    bandwidth: float | Scalar
    exponent: float = eqx.field(default=0.5, static=True)
    characteristic: ClassVar[bool] = True

    def __check_init__(self):
        check_positive("bandwidth", self.bandwidth)
        check_positive("exponent", self.exponent)

    def radial(self, squared: Squared) -> tuple[Squared, Squared]:
        r"""Value $k(s)$ and slope $2\,k'(s)$ at squared distances of any shape."""
        precision = _precision(self.bandwidth, squared)
        base = 1 + precision * squared
        value = jax.lax.rsqrt(base) if self.exponent == 0.5 else base**-self.exponent
        return value, -2 * self.exponent * precision * value / base


class RationalQuadratic(AbstractRadialKernel):
    r"""Rational quadratic kernel, a mixture of Gaussian kernels over bandwidths.

    $$k(x, y) = \bigl(1 + \lVert x - y\rVert^2 / (2 \alpha\gamma^2)\bigr)^{-\alpha}$$

    **Arguments:** `bandwidth`, the length $\gamma > 0$; `alpha`, $\alpha > 0$.

    >>> float(RationalQuadratic(1.0, alpha=0.5)(jnp.zeros(1), jnp.ones(1)))
    0.7071...

    Reference: Rasmussen and Williams (2006), Gaussian processes for machine learning, section 4.2.
    """

    bandwidth: float | Scalar
    alpha: float | Scalar = 1.0
    characteristic: ClassVar[bool] = True

    def __check_init__(self):
        check_positive("bandwidth", self.bandwidth)
        check_positive("alpha", self.alpha)

    def radial(self, squared: Squared) -> tuple[Squared, Squared]:
        r"""Value $k(s)$ and slope $2\,k'(s)$ at squared distances of any shape."""
        precision = _precision(self.bandwidth, squared)
        alpha = jnp.asarray(self.alpha, squared.dtype)
        extra = 0.5 * precision * squared / alpha
        value = jnp.exp(-alpha * jnp.log1p(extra))
        return value, -precision * value / (1 + extra)


class Matern32(AbstractRadialKernel):
    r"""Matérn kernel of smoothness 3/2.

    $$k(x, y) = (1 + a)\,e^{-a}, \qquad a = \sqrt 3\,\lVert x - y\rVert / \gamma$$

    **Arguments:** `bandwidth`, the length $\gamma > 0$.

    >>> float(Matern32(1.0)(jnp.zeros(1), jnp.ones(1)))
    0.4833...

    Reference: Rasmussen and Williams (2006), Gaussian processes for machine learning, section 4.2.
    """

    bandwidth: float | Scalar
    characteristic: ClassVar[bool] = True

    def __check_init__(self):
        check_positive("bandwidth", self.bandwidth)

    def radial(self, squared: Squared) -> tuple[Squared, Squared]:
        r"""Value $k(s)$ and slope $2\,k'(s)$ at squared distances of any shape."""
        precision = _precision(self.bandwidth, squared)
        scaled = safe_root(3 * precision * squared)[0]
        decay = _exp_minus(scaled)
        return (1 + scaled) * decay, -3 * precision * decay


class Matern52(AbstractRadialKernel):
    r"""Matérn kernel of smoothness 5/2.

    $$k(x, y) = (1 + a + a^2/3)\,e^{-a}, \qquad a = \sqrt 5\,\lVert x - y\rVert / \gamma$$

    **Arguments:** `bandwidth`, the length $\gamma > 0$.

    >>> float(Matern52(1.0)(jnp.zeros(1), jnp.ones(1)))
    0.5239...

    Reference: Rasmussen and Williams (2006), Gaussian processes for machine learning, section 4.2.
    """

    bandwidth: float | Scalar
    characteristic: ClassVar[bool] = True

    def __check_init__(self):
        check_positive("bandwidth", self.bandwidth)

    def radial(self, squared: Squared) -> tuple[Squared, Squared]:
        r"""Value $k(s)$ and slope $2\,k'(s)$ at squared distances of any shape."""
        precision = _precision(self.bandwidth, squared)
        scaled_squared = 5 * precision * squared
        scaled = safe_root(scaled_squared)[0]
        decay = _exp_minus(scaled)
        value = (1 + scaled + scaled_squared / 3) * decay
        return value, -5 / 3 * precision * (1 + scaled) * decay


class Sum(AbstractKernel):
    r"""Weighted sum of kernels, $k = \sum_l c_l k_l$; written `a + 0.5 * b`.

    **Arguments:** `kernels`, a tuple of kernels; `weights`, their $c_l > 0$, all 1 by default.

    >>> float((Gaussian(1.0) + 0.5 * Laplace(2.0))(jnp.zeros(3), jnp.zeros(3)))
    1.5

    Reference: Gretton et al. (2012), Optimal kernel choice for large-scale two-sample tests, NIPS.
    """

    kernels: tuple[AbstractKernel, ...]
    weights: tuple[float | Scalar, ...]

    def __init__(
        self,
        kernels: tuple[AbstractKernel, ...],
        weights: tuple[float | Scalar, ...] | None = None,
    ):
        self.kernels = tuple(kernels)
        self.weights = (1.0,) * len(self.kernels) if weights is None else tuple(weights)

    def __check_init__(self):
        if len(self.kernels) != len(self.weights) or not self.kernels:
            raise ValueError(
                "A sum of kernels needs one weight for each of at least one kernel, got "
                f"{len(self.kernels)} kernels and {len(self.weights)} weights."
            )
        for weight in self.weights:
            check_positive("weight of a kernel", weight)

    @property
    def characteristic(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One characteristic part is enough."""
        return any(kernel.characteristic for kernel in self.kernels)

    def __call__(self, x: Point, y: Point) -> Scalar:
        """The kernel of two points, `(d,)` each."""
        parts = [
            jnp.asarray(c, x.dtype) * k(x, y)
            for c, k in zip(self.weights, self.kernels, strict=True)
        ]
        return sum(parts[1:], parts[0])


class Custom(AbstractKernel):
    r"""Any symmetric function of two points, differentiated automatically.

    **Arguments:** `function`, from two arrays `(d,)` to a scalar, written in JAX, symmetric and
    positive definite; `characteristic`, whether you know it to tell any two distributions apart.
    The function's own gradient must exist wherever two draws may coincide.

    >>> cosine = Custom(lambda x, y: jnp.prod(jnp.cos(x - y)))
    >>> float(cosine(jnp.ones(2), jnp.ones(2)))
    1.0

    Reference: Fukumizu et al. (2008), Kernel measures of conditional dependence, NIPS.
    """

    function: Callable[[Point, Point], Scalar] = eqx.field(static=True)
    declared: bool = eqx.field(static=True)

    def __init__(self, function: Callable[[Point, Point], Scalar], *, characteristic: bool = False):
        self.function = function
        self.declared = characteristic

    def __check_init__(self):
        if not callable(self.function):
            raise TypeError(
                f"Custom expects a function k(x, y) of two points, got {self.function!r}."
            )

    @property
    def characteristic(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As it was declared."""
        return self.declared

    def __call__(self, x: Point, y: Point) -> Scalar:
        """The kernel of two points, `(d,)` each."""
        return jnp.asarray(self.function(x, y))


def as_kernel(kernel: AbstractKernel | Callable[[Point, Point], Scalar]) -> AbstractKernel:
    """A kernel as it is, a plain function `k(x, y)` as a `Custom` kernel.

    **Arguments:** `kernel`, either.

    >>> as_kernel(lambda x, y: jnp.exp(-jnp.sum(jnp.abs(x - y))))
    Custom(...)
    """
    return kernel if isinstance(kernel, AbstractKernel) else Custom(kernel)


def radial_of(function: eqx.Module) -> Callable[[Squared], tuple[Squared, Squared]] | None:
    r"""Value and slope as a function of the squared distance, or `None` if it has none.

    **Arguments:** `function`, a kernel, a sum of kernels, or another radial function.

    >>> radial_of(Gaussian(1.0) + Laplace(1.0)) is None, radial_of(Custom(jnp.dot)) is None
    (False, True)
    """
    if isinstance(function, AbstractRadial):
        return function.radial
    if not isinstance(function, Sum):
        return None
    parts = [radial_of(kernel) for kernel in function.kernels]
    if any(part is None for part in parts):
        return None

    def total(squared: Squared) -> tuple[Squared, Squared]:
        value, slope = jnp.zeros_like(squared), jnp.zeros_like(squared)
        for weight, part in zip(function.weights, parts, strict=True):
            weight, (v, s) = jnp.asarray(weight, squared.dtype), part(squared)  # pyright: ignore
            value, slope = value + weight * v, slope + weight * s
        return value, slope

    return total


def _precision(bandwidth: float | Scalar, squared: Squared) -> Scalar:
    return 1 / jnp.square(jnp.asarray(bandwidth, squared.dtype))


# of least relative error, 9e-8, to the powers of 2 from -1/2 to 1/2; highest power first
_POWER_OF_TWO = (1.32647273e-3, 9.67151299e-3, 5.55073358e-2, 2.40222424e-1, 6.93147004e-1, 1.0)


@jax.custom_jvp
def _exp_minus(exponent: Squared) -> Squared:
    """$e^{-t}$ for $t$ of 0 or more; XLA's own takes twice as long in the loops over pairs."""
    if exponent.dtype != jnp.float32:
        return jnp.exp(-exponent)
    halvings = jnp.minimum(exponent * np.float32(1 / log(2)), np.float32(126))
    whole = jnp.round(halvings)
    power = jnp.full_like(exponent, _POWER_OF_TWO[0])
    for coefficient in _POWER_OF_TWO[1:]:
        power = power * (whole - halvings) + np.float32(coefficient)
    # Added to this, a whole number comes to stand in the last bits; moved to the exponent's place
    # it is a power of two.
    bits = jax.lax.bitcast_convert_type(np.float32(1.5 * 2**23 + 127) - whole, jnp.int32)
    return power * jax.lax.bitcast_convert_type(bits << 23, jnp.float32)


@_exp_minus.defjvp
def _(primals: tuple[Squared], tangents: tuple[Squared]) -> tuple[Squared, Squared]:
    value = _exp_minus(*primals)
    return value, -value * tangents[0]
