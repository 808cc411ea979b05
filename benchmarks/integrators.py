"""Integrating the models in time: our loops next to Diffrax; value and gradient of m = 500 draws.

    python -m benchmarks integrators

The stochastic Lorenz96 model with three parameters, forward mode, single precision, 20 records of
10 steps each; then 2000 Runge–Kutta steps of five draws of the two-scale model, value alone, next
to adaptive solvers.
"""

import time
from collections.abc import Callable
from typing import Any

from ._rounds import interleaved, median, ratio

ROUNDS, DRAWS = 5, 500


def _stochastic_cases() -> dict[str, Callable[[Any], Any]]:
    """Value and gradient in the parameters, of the mean of the sines of all records."""
    import diffrax
    import jax
    import jax.numpy as jnp
    import lineax

    import genbayes as gb
    from genbayes.tasks.lorenz96._tendency import advection

    step, interval, records = 0.0075, 0.075, 20
    key = jax.random.key(0)
    times = interval * jnp.arange(1, records + 1)

    def ours(method: str) -> Callable[[Any], Any]:
        simulator = gb.tasks.lorenz96.linear(method=method).simulator  # pyright: ignore
        return lambda p: simulator.simulate(key, p, DRAWS)

    def unrolled(p: Any) -> Any:
        """Euler, its ten steps between records written out."""
        noise = jax.random.normal(key, (DRAWS, records, 10, 8))

        def advance(x: Any, z: Any) -> tuple[Any, None]:
            drift = advection(x) + 10 - p["b0"] - p["b1"] * x
            return x + step * drift + p["sigma_e"] * step**0.5 * z, None

        def record(x: Any, z: Any) -> tuple[Any, Any]:
            x, _ = jax.lax.scan(advance, x, z, unroll=10)
            return x, x

        initial = gb.tasks.lorenz96.linear().simulator.fn.initial  # pyright: ignore
        return jax.vmap(lambda z: jax.lax.scan(record, initial, z)[1])(noise)

    def theirs(solver: Any, brownian: str) -> Callable[[Any], Any]:
        initial = gb.tasks.lorenz96.linear().simulator.fn.initial  # pyright: ignore

        def draw(key: Any, p: Any) -> Any:
            if brownian == "tree":
                path = diffrax.VirtualBrownianTree(0.0, 1.6, step / 4, (8,), key)
            else:
                path = diffrax.UnsafeBrownianPath((8,), key)
            drift = diffrax.ODETerm(lambda t, x, a: advection(x) + 10 - p["b0"] - p["b1"] * x)
            noise = diffrax.ControlTerm(
                lambda t, x, a: lineax.DiagonalLinearOperator(jnp.full(8, p["sigma_e"])), path
            )
            solution = diffrax.diffeqsolve(
                diffrax.MultiTerm(drift, noise), solver, 0.0, 1.5 + step / 2, step, initial,
                saveat=diffrax.SaveAt(ts=times), adjoint=diffrax.ForwardMode(), max_steps=300,
            )  # fmt: skip
            return solution.ys

        return lambda p: jax.vmap(lambda k: draw(k, p))(jax.random.split(key, DRAWS))

    cases = {
        "ours, Heun (the default)": ours("heun"),
        "ours, Euler": ours("euler"),
        "a loop unrolled ten times, Euler": unrolled,
        "Diffrax, Euler, increments from keys": theirs(diffrax.Euler(), "unsafe"),
        "Diffrax, Heun, Brownian tree": theirs(diffrax.Heun(), "tree"),
    }

    def with_gradient(draws: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def value(v: Any) -> Any:
            return jnp.mean(jnp.sin(draws(dict(zip(("b0", "b1", "sigma_e"), v, strict=True)))))

        along = jax.vmap(lambda v, t: jax.jvp(value, (v,), (t,)), (None, 0), (None, 0))
        return lambda v: along(v, jnp.eye(3))

    return {name: with_gradient(draws) for name, draws in cases.items()}


def _two_scale_cases() -> dict[str, Callable[[Any], Any]]:
    """Two units of time of the two-scale model, from five starts."""
    import diffrax
    import jax
    import jax.numpy as jnp

    import genbayes as gb
    from genbayes.tasks.lorenz96._two_scale import tendency

    task = gb.tasks.lorenz96.two_scale(num_records=2, interval=1.0, discarded=1.0)
    names = ("F", "h", "c", "b")
    noise = task.simulator.draw_noise(jax.random.key(0), 5)

    def ours(v: Any) -> Any:
        return task.simulator.simulate_from(dict(zip(names, v, strict=True)), noise)[:, 1]

    def theirs(solver: Any, tolerance: float | None) -> Callable[[Any], Any]:
        def one(z: Any, theta: Any) -> Any:
            start = 0.1 * z + jnp.zeros(264).at[jnp.array([0, 8])].set(1.0)
            controller = (
                diffrax.ConstantStepSize()
                if tolerance is None
                else diffrax.PIDController(tolerance, tolerance)
            )
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, x, a: tendency(theta, x)), solver, 0.0, 2.0, 0.001, start,
                stepsize_controller=controller, max_steps=20_000, adjoint=diffrax.ForwardMode(),
            )  # fmt: skip
            return solution.ys[0, :8]  # pyright: ignore

        return lambda v: jax.vmap(lambda z: one(z, dict(zip(names, v, strict=True))))(noise)

    return {
        "ours, Runge–Kutta at 0.001": ours,
        "Diffrax, Tsit5 at 0.001": theirs(diffrax.Tsit5(), None),
        "Diffrax, Tsit5, tolerance 1e-5": theirs(diffrax.Tsit5(), 1e-5),
    }


def _measured(cases: dict[str, Callable[[Any], Any]], at: list[float]) -> list[dict[str, str]]:
    import jax
    import jax.numpy as jnp

    v = jnp.asarray(at)
    compiled, seconds_to_compile = {}, {}
    for name, fn in cases.items():
        began = time.perf_counter()
        compiled[name] = jax.jit(fn).lower(v).compile()
        seconds_to_compile[name] = time.perf_counter() - began
        jax.block_until_ready(compiled[name](v))

    def timed(program: Callable[[Any], Any]) -> Callable[[], float]:
        def once() -> float:
            began = time.perf_counter()
            jax.block_until_ready(program(v))
            return time.perf_counter() - began

        return once

    found = interleaved({name: timed(program) for name, program in compiled.items()}, ROUNDS)
    first = next(iter(cases))
    return [
        {
            "integration": name,
            "compile (s)": f"{seconds_to_compile[name]:.1f}",
            "run (ms)": str(median(values).scaled(1e3)),
            "times as long as ours": str(ratio(values, found[first])),
        }
        for name, values in found.items()
    ]


def rows() -> list[dict[str, str]]:
    """Both models, one after the other."""
    stochastic = _measured(_stochastic_cases(), [2.0, 0.8, 1.7])
    return stochastic + _measured(_two_scale_cases(), [10.0, 1.0, 10.0, 10.0])
