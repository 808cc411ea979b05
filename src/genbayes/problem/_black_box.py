"""Simulators that JAX cannot see into: any Python function of parameters and a generator."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_between, check_choice, check_count, check_positive
from .._types import Array, Key, Noise, Theta
from .._workers import Failed, Recipe, Rows, Seeded, Spread, portable
from ._failures import Failure, SimulatorError, is_recorded, tell
from ._simulator import AbstractSimulator

Policy = Literal["reject", "raise", "penalise"]
POLICIES = ("reject", "raise", "penalise")


class Handling(eqx.Module):
    """What becomes of draws that fail, and how long one may take."""

    on_failure: Policy = eqx.field(static=True)
    penalty: Array | None
    timeout: float | None = eqx.field(static=True)
    retries: int = eqx.field(static=True)
    max_failures: float = eqx.field(static=True)

    def __init__(
        self, on_failure: Policy, penalty: Any, timeout: float | None, retries: int,
        max_failures: float,
    ):  # fmt: skip
        check_choice("on_failure", on_failure, POLICIES)
        check_count("retries", retries, 0)
        if timeout is not None:
            check_positive("timeout", timeout)
        if max_failures != 1:
            check_between("max_failures", max_failures, 0, 1)
        if (penalty is None) == (on_failure == "penalise"):
            raise ValueError(
                'penalty and on_failure="penalise" belong together: penalty is the draw that '
                f"stands for one that failed; got penalty={penalty!r}, on_failure={on_failure!r}."
            )
        self.on_failure, self.timeout, self.retries = on_failure, timeout, retries
        self.max_failures = float(max_failures)
        self.penalty = None if penalty is None else _finite(penalty)


def _finite(penalty: Any) -> Array:
    value = np.asarray(penalty, float)
    if not np.all(np.isfinite(value)):
        raise ValueError(f"penalty must be finite, got {penalty!r}.")
    return jnp.asarray(value, float)


class Runtime:
    """What a simulator has at hand and what it learnt, none of which changes a draw."""

    def __init__(self, executor: Any):
        self.executor = executor
        self.spread = Spread(executor)
        self.event: tuple[int, ...] | None = None
        self.packed: bytes | None = None


class AbstractBlackBox(AbstractSimulator):
    """Draws made by calling something, one seed for each: they may fail, and may be spread."""

    handling: eqx.AbstractVar[Handling]
    runtime: eqx.AbstractVar[Runtime]
    traceable: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False

    @abstractmethod
    def recipe(self) -> Recipe:
        """How one draw is made."""

    @abstractmethod
    def on(self, executor: Any) -> "AbstractBlackBox":
        """The same simulator on another executor: its draws are the same."""

    def draw_noise(self, key: Key, num: int) -> Noise:
        return jax.random.bits(key, (num,), jnp.uint32)

    def simulate_from(self, theta: Theta, noise: Noise) -> Array:
        one = {name: _plain(value) for name, value in theta.items()}
        seeds = np.asarray(noise).tolist()
        # a single failure already settles the estimate of a run
        stop = is_recorded() and self.handling.on_failure == "reject"
        return self._draws([one] * len(seeds), seeds, stop, of_one=True)

    def try_draw(self, theta: Theta, noise: Noise) -> np.ndarray | Failed:
        """One draw, or the reason why there is none, whatever is to be done about failures."""
        one = {name: _plain(value) for name, value in theta.items()}
        rows = self.runtime.spread(self.recipe(), [one], np.asarray(noise).tolist(), False)
        return _of_one_shape(rows, self.runtime)[0]

    def simulate_many(self, thetas: Theta, seeds: Any) -> Array:
        """One draw for each pair of parameters and a seed, over the executor: `(num, *event)`.

        **Arguments:** `thetas`, a mapping from name to an array `(num, *shape)`; `seeds`, `(num,)`
        whole numbers, as `draw_noise(key, num)` gives them. With `on_failure="reject"` the row of
        a draw that failed is NaN.
        """
        columns = {name: np.asarray(values) for name, values in thetas.items()}
        seeds = np.asarray(seeds).tolist()
        wrong = {k: x.shape for k, x in columns.items() if x.shape[:1] != (len(seeds),)}
        if wrong:
            raise ValueError(
                f"Expected one row of parameters for each of {len(seeds)} seeds, got shapes "
                f"{wrong}: give arrays of shape (num, *shape)."
            )
        rows = [{k: _plain(x[i]) for k, x in columns.items()} for i in range(len(seeds))]
        return self._draws(rows, seeds, False, of_one=False)

    def _draws(
        self, thetas: Sequence[Mapping[str, Any]], seeds: list[int], stop: bool, *, of_one: bool
    ) -> Array:
        """Draws of one estimate, which a single failure may settle, or of many."""
        rows = self.runtime.spread(self.recipe(), thetas, seeds, stop)
        rows = _of_one_shape(rows, self.runtime)
        failed = [
            (Failure(thetas[i], seeds[i], row.message, row.seconds, row.details), row)
            for i, row in enumerate(rows)
            if isinstance(row, Failed)
        ]
        if failed and self.handling.on_failure == "raise":
            first = failed[0][0]
            raise SimulatorError(f"A draw failed: {first}\n{first.details}".rstrip())
        whole = of_one and self.handling.on_failure == "reject"
        lost = bool(failed) if whole else len(failed) / len(seeds)
        tell(failed, float(lost), len(seeds))
        return jnp.asarray(self._filled(rows, len(seeds)))

    def _filled(self, rows: Rows, num: int) -> np.ndarray:
        """Rows that failed, or were not needed any more, hold the penalty or are not finite."""
        event, penalty = self.runtime.event, self.handling.penalty
        if event is None:
            raise SimulatorError(f"All {len(rows)} draws failed, the first because {rows[0]}.")
        filled = np.full((num, *event), np.nan, _dtype())
        if penalty is not None:
            if penalty.shape not in ((), event):
                raise ValueError(
                    f"penalty must be a number or of the shape of a draw, {event}; got shape "
                    f"{penalty.shape}."
                )
            filled[:] = np.asarray(penalty)
        for i, row in enumerate(rows):
            if not isinstance(row, Failed):
                filled[i] = row
        return filled


def _of_one_shape(rows: Rows, runtime: Runtime) -> list[np.ndarray | Failed]:
    """The first draw that came says what shape draws have; others are failures."""
    checked: list[np.ndarray | Failed] = []
    for row in rows:
        if not isinstance(row, Failed):
            if runtime.event is None:
                runtime.event = row.shape
            if row.shape != runtime.event:
                message = f"the draw has shape {row.shape}, others have {runtime.event}"
                row = Failed(message, 0.0, "ValueError")
        checked.append(row)
    return checked


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    return float(array) if array.ndim == 0 else array


def _dtype() -> str:
    return str(jnp.zeros(()).dtype)


class BlackBox(AbstractBlackBox):
    r"""A simulator in NumPy or any other Python.

    **Arguments:**

    - `fn`: `fn(theta, rng)` returns one draw; `theta` maps parameter names to floats or NumPy
        arrays, `rng` is a `numpy.random.Generator` with a seed of its own for each draw.
    - `executor`: any `concurrent.futures.Executor`, over which draws are spread: a
        `ProcessPoolExecutor` (that spawns), Dask's `Client(...).get_executor()`, MPI's
        `MPIPoolExecutor`. Draws depend neither on it nor on its number of workers.
    - `timeout`: seconds that one draw may take. Draws then run in a process of their own, which
        is killed with all that it started.
    - `retries`: how often a draw that failed is tried again, from the same seed.
    - `on_failure`: what an exception, a time-out or a draw that is not finite does. `"reject"`
        makes the estimate minus infinity; `"raise"` ends the run; `"penalise"` puts `penalty`, a
        far-away value, in the draw's place. Failures are kept in `run.failures`.

    **Other arguments:**

    - `vectorized`: `fn(theta, rngs)` takes a list of generators and `theta` with arrays
        `(num, *shape)`, and returns `(num, *event)`; each row must use its own generator.
    - `max_failures`: a run stops when more than this share of its last 20 estimates was lost.
    - `summary`: maps one draw to what the score is to see, as for `Simulator`.

    Its noise is a vector of seeds, so correlated pseudo-marginal sampling works. It has no
    gradients: of the samplers, `PseudoMarginal` takes it.

    ```python
    >>> import genbayes as gb, jax
    >>> simulator = gb.BlackBox(lambda theta, rng: rng.normal(theta["mean"], 1.0))
    >>> simulator.simulate(jax.random.key(0), {"mean": 2.0}, num=3).shape
    (3,)
    >>> many = {"mean": [0.0, 1.0, 2.0, 3.0]}
    >>> simulator.simulate_many(many, seeds=[1, 2, 3, 4]).shape
    (4,)

    ```
    """

    fn: Callable[[Any, Any], Any]
    summary: Callable[[Array], Array] | None
    vectorized: bool = eqx.field(static=True)
    handling: Handling
    runtime: Runtime = eqx.field(static=True)

    def __init__(
        self,
        fn: Callable[[Any, Any], Any],
        executor: Any = None,
        timeout: float | None = None,
        retries: int = 0,
        vectorized: bool = False,
        on_failure: Policy = "reject",
        *,
        penalty: Any = None,
        max_failures: float = 0.5,
        summary: Callable[[Array], Array] | None = None,
    ):
        if not callable(fn):
            raise TypeError(
                f"A simulator needs a function fn(theta, rng), got {type(fn).__name__}."
            )
        self.fn = fn
        self.summary = summary
        self.vectorized = bool(vectorized)
        self.handling = Handling(on_failure, penalty, timeout, retries, max_failures)
        self.runtime = Runtime(executor)

    def recipe(self) -> Recipe:
        handling, runtime = self.handling, self.runtime
        isolated = handling.timeout is not None
        travels = isolated or runtime.executor is not None
        if travels and runtime.packed is None:
            runtime.packed = portable(Seeded(self.fn))
        fn = runtime.packed if travels and runtime.packed is not None else Seeded(self.fn)
        return Recipe(fn, _dtype(), self.vectorized, handling.timeout, isolated, handling.retries)

    def on(self, executor: Any) -> "BlackBox":
        handling = self.handling
        return BlackBox(
            self.fn, executor, handling.timeout, handling.retries, self.vectorized,
            handling.on_failure, penalty=handling.penalty, max_failures=handling.max_failures,
            summary=self.summary,
        )  # fmt: skip
