"""`check`: whether prior, simulator and observations do what samplers take for granted."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from .._checks import check_count
from .._table import Table
from .._types import Array, Noise, Theta
from ._black_box import AbstractBlackBox
from ._problem import Problem
from ._simulator import AbstractSimulator
from ._torch import TorchSimulator

LONGEST = 4  # numbers of a parameter that is shown
FEW = 10  # draws of a simulator that cannot be compiled: they may be slow


class Result(enum.Enum):
    """What a check found."""

    FINE = "fine"
    LOOK = "look"
    FAULT = "fault"


class Finding(NamedTuple):
    """One thing that was looked at."""

    subject: str
    result: Result
    text: str


@dataclass(frozen=True)
class ProblemCheck:
    """What `check` found; `non_finite` is the share of prior draws whose draw is not finite."""

    findings: tuple[Finding, ...]
    non_finite: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing was noticed."""
        return all(f.result is Result.FINE for f in self.findings)

    def table(self) -> Table:
        """One line for each thing that was looked at."""
        rows: list[tuple[Any, ...]] = [(f.subject, f.result.value, f.text) for f in self.findings]
        return Table(("looked at", "result", ""), rows, "Check of the problem")

    def __str__(self) -> str:
        width = max(len(f.subject) for f in self.findings)
        lines = [f"{f.result.value:5}  {f.subject:{width}}  {f.text}" for f in self.findings]
        return "\n".join(["Check of the problem", *lines])

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def check(problem: Problem, *, num_draws: int = 100, seed: int = 0) -> ProblemCheck:
    """Draw from the prior and the simulator, and say what samplers would stumble over.

    **Arguments:**

    - `problem`: a `Problem`.
    - `num_draws`: how many draws from the prior; at most 10 where the simulator is not compiled.
    - `seed`: of the draws.

    Shapes and types, the share of draws that are not finite, whether the same noise gives the same
    draw and other noise another one, and whether gradients are finite and reach every parameter.
    `sample` looks at the noise too, and notes in the run what it finds.

    ```python
    >>> import genbayes as gb
    >>> print(gb.check(gb.tasks.normal_location().problem(seed=0), num_draws=20))
    Check of the problem
    fine   shapes       a draw is (), float...; ... observations of that shape
    fine   finite       20 of 20 draws from the prior
    fine   same noise   gives the same draw
    fine   other noise  gives another draw
    fine   gradients    finite, and reach every parameter

    ```
    """
    check_count("num_draws", num_draws)
    simulator = problem.simulator
    if simulator is None:
        return ProblemCheck((Finding("simulator", Result.FINE, "there is none to look at"),))
    num = num_draws if simulator.traceable else min(num_draws, FEW)
    key_theta, key_noise = jax.random.split(jax.random.key(seed))
    thetas = problem.prior.sample(key_theta, num)
    noise = simulator.draw_noise(key_noise, num)
    other = jax.tree.map(lambda z: jnp.roll(z, 1, axis=0), noise)
    draws, again, others = (_draws(simulator, thetas, z) for z in (noise, noise, other))
    finite = _finite_rows(draws)
    findings = [
        _shapes(problem, draws),
        _finite(thetas, finite),
        _same(simulator, draws, again, thetas, noise),
        _other(draws, others, finite),
    ]
    if simulator.differentiable:
        findings.append(_gradients(simulator, thetas, noise, finite))
    return ProblemCheck(tuple(findings), float(1 - finite.mean()))


def remarks_on_noise(problem: Problem) -> list[str]:
    """What two or three draws show of the noise, without compiling anything: for every run."""
    simulator = problem.simulator
    if simulator is None:
        return []
    key_theta, key_noise = jax.random.split(jax.random.key(0))
    if simulator.traceable and not simulator.calls_back:
        theta = jax.eval_shape(problem.prior.sample, key_theta)
        noise = jax.eval_shape(lambda key: simulator.draw_noise(key, 2), key_noise)
        programs = _traced(simulator, theta, noise)
        found = [_same_program(programs), _noise_in(programs[0], len(theta))]
    else:
        theta, noise = problem.prior.sample(key_theta), simulator.draw_noise(key_noise, 2)
        draws, again = (_rows(simulator, theta, noise) for _ in range(2))
        finite = _finite_rows(draws)
        found = [
            _same(simulator, draws, again, {}, noise),
            _other(draws[:1], draws[1:], finite[:1]),
        ]
    return [f"Check of the noise: {f.text}" for f in found if f.result is not Result.FINE]


def _rows(simulator: AbstractSimulator, theta: Theta, noise: Noise) -> np.ndarray:
    """One draw for each row of the noise; failures of a black box are not finite, and no harm."""
    if not isinstance(simulator, AbstractBlackBox):
        return np.asarray(simulator.simulate_from(theta, noise))
    rows = [simulator.try_draw(theta, noise[i : i + 1]) for i in range(len(noise))]
    good = [x for x in rows if isinstance(x, np.ndarray)]
    event = good[0].shape if good else ()
    return np.stack([x if isinstance(x, np.ndarray) else np.full(event, np.nan) for x in rows])


def _draws(simulator: AbstractSimulator, thetas: Theta, noise: Noise) -> np.ndarray:
    """A draw for each set of parameters and row of the noise, `(num, *event)`."""
    if simulator.traceable:
        return np.asarray(_compiled_draws(simulator, thetas, noise))
    num = len(next(iter(thetas.values())))
    parts = [
        _rows(simulator, {n: x[i] for n, x in thetas.items()}, noise[i : i + 1])[0]
        for i in range(num)
    ]
    event = max((p.shape for p in parts), key=len)  # where a draw failed it has no shape
    return np.stack([p if p.shape == event else np.full(event, np.nan) for p in parts])


def _one(simulator: AbstractSimulator, theta: Theta, noise: Noise) -> Array:
    return simulator.simulate_from(theta, jax.tree.map(lambda z: z[None], noise))[0]


@eqx.filter_jit
def _compiled_draws(simulator: AbstractSimulator, thetas: Theta, noise: Noise) -> Array:
    return jax.vmap(lambda theta, z: _one(simulator, theta, z))(thetas, noise)


@eqx.filter_jit
def _compiled_gradients(
    simulator: AbstractSimulator, thetas: Theta, noise: Noise
) -> dict[str, Array]:
    """Gradients of the sine of what the score sees, which no symmetry of a draw hides."""

    def seen(theta: Theta, z: Noise) -> Array:
        x = simulator.features(_one(simulator, theta, z)[None])[0]
        return jnp.sum(jnp.sin(x + jnp.arange(x.shape[0], dtype=x.dtype)))

    return dict(jax.vmap(jax.grad(seen))(thetas, noise))


def _finite_rows(draws: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(draws).reshape(draws.shape[0], -1).all(axis=1))


def _shapes(problem: Problem, draws: np.ndarray) -> Finding:
    event, wanted = draws.shape[1:], problem.observations.dtype
    said = (
        f"a draw is {event}, {draws.dtype}; {problem.num_observations} observations of that shape"
    )
    features = np.asarray(problem.features())
    if not np.isfinite(features).all():
        said = "the summary of the observations is not finite: mend the summary."
        return Finding("shapes", Result.FAULT, said)
    if draws.dtype != wanted and problem.simulator is not None and problem.simulator.traceable:
        said = (
            f"draws are {draws.dtype} where JAX computes in {wanted}: look for a constant or a "
            "cast of a fixed type."
        )
        return Finding("shapes", Result.LOOK, said)
    return Finding("shapes", Result.FINE, said)


def _finite(thetas: Mapping[str, Array], finite: np.ndarray) -> Finding:
    num, bad = finite.size, int(np.sum(~finite))
    if not bad:
        return Finding("finite", Result.FINE, f"{num} of {num} draws from the prior")
    first = int(np.argmin(finite))
    where = ", ".join(
        f"{n} = {np.array2string(np.asarray(x[first]), precision=4)}"
        for n, x in thetas.items()
        if x[first].size <= LONGEST
    )
    said = (
        f"{bad} of {num} draws from the prior are not finite, the first at {where or '(long)'}: "
        "tighten the prior, or mend the simulator there; runs reject such places."
    )
    return Finding("finite", Result.LOOK if bad < num else Result.FAULT, said)


DIFFERS = (
    "the same noise gives different draws: take all randomness from the noise (or the generator) "
    "that the simulator is given."
)
UNUSED = (
    "the noise is never used: all draws at a parameter are the same. Let the simulator read its "
    "second argument."
)


def _same(
    simulator: AbstractSimulator, draws: np.ndarray, again: np.ndarray, thetas: Theta, noise: Noise
) -> Finding:
    if not np.array_equal(draws, again, equal_nan=True):
        return Finding("same noise", Result.FAULT, DIFFERS)
    if simulator.traceable and not isinstance(simulator, TorchSimulator):
        theta = {n: x[0] for n, x in thetas.items()}
        return _same_program(_traced(simulator, theta, jax.tree.map(lambda z: z[:1], noise)))
    return Finding("same noise", Result.FINE, "gives the same draw")


def _traced(simulator: AbstractSimulator, theta: Theta, noise: Noise) -> tuple[Any, Any]:
    """The program of some draws, traced twice."""
    trace = jax.make_jaxpr(lambda t, z: simulator.simulate_from(t, z))
    first = trace(dict(theta), noise)
    trace = jax.make_jaxpr(lambda t, z: simulator.simulate_from(t, z))  # nothing is remembered
    return first, trace(dict(theta), noise)


def _same_program(programs: tuple[Any, Any]) -> Finding:
    """Randomness that JAX does not know of is a constant in the program, another one each time."""
    one, two = programs
    pairs = zip(one.consts, two.consts, strict=False)
    same = str(one) == str(two) and all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
    if same:
        return Finding("same noise", Result.FINE, "gives the same draw")
    return Finding("same noise", Result.FAULT, DIFFERS)


def _noise_in(program: Any, num_parameters: int) -> Finding:
    """Whether the program of a draw leads from the noise to the result."""
    reached = set(program.jaxpr.invars[num_parameters:])
    for equation in program.jaxpr.eqns:
        if reached.intersection(_variables(equation.invars)):
            reached.update(equation.outvars)
    if reached.intersection(_variables(program.jaxpr.outvars)):
        return Finding("other noise", Result.FINE, "gives another draw")
    return Finding("other noise", Result.LOOK, UNUSED)


def _variables(atoms: list[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def _other(draws: np.ndarray, others: np.ndarray, finite: np.ndarray) -> Finding:
    if np.array_equal(draws[finite], others[finite], equal_nan=True) and finite.any():
        return Finding("other noise", Result.LOOK, UNUSED)
    return Finding("other noise", Result.FINE, "gives another draw")


def _gradients(
    simulator: AbstractSimulator, thetas: Theta, noise: Noise, finite: np.ndarray
) -> Finding:
    if not finite.any():
        return Finding("gradients", Result.LOOK, "not looked at: no draw is finite")
    found = {n: np.asarray(x) for n, x in _compiled_gradients(simulator, thetas, noise).items()}
    bad = [n for n, x in found.items() if not _finite_rows(x)[finite].all()]
    if bad:
        share = np.any([~_finite_rows(found[n])[finite] for n in bad], axis=0)
        said = (
            f"by {', '.join(bad)} they are not finite at {share.mean():.0%} of the finite "
            "draws: look for a root, a logarithm or a division at 0, and guard it inside jnp.where."
        )
        return Finding("gradients", Result.FAULT, said)
    still = [n for n, x in found.items() if not np.any(x[finite])]
    if still:
        said = (
            f"by {', '.join(still)} they are zero everywhere: a rounding, a comparison or a cut "
            "gradient hides the parameter; use a sampler that needs none, PseudoMarginal."
        )
        return Finding("gradients", Result.LOOK, said)
    return Finding("gradients", Result.FINE, "finite, and reach every parameter")
