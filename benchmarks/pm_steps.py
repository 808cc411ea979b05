"""One pseudo-marginal step next to a NumPy loop, and stochastic-gradient steps next to PyTorch.

Pseudo-marginal: the uni- and multivariate g-and-k models, n = 10 observations, m = 500 simulations,
with all noise fresh at each step and with one of 500 groups; energy and kernel scores, and the
synthetic likelihoods. Ours in single precision; the loops in double, as one would write them.

    python -m benchmarks pm_steps
"""

from collections.abc import Callable
from typing import Any

from ._rounds import clock, interleaved, median, ratio, verdict

ROUNDS = 5
SECONDS = 0.15  # of one measurement
SIMULATIONS, OBSERVATIONS, GROUPS = 500, 10, 500
SCORES = ("energy", "kernel", "bsl", "semibsl")
MODELS = ("univariate", "multivariate")
AIM_NUMPY, AIM_TORCH = 25, 100

Case = Callable[[int], float]  # a number of steps to seconds per step


def target(model: str, score: str) -> Any:
    """The problem and its score."""
    import genbayes as gb

    scores = {
        "energy": gb.EnergyScore,
        "kernel": lambda: gb.KernelScore(gb.kernels.Gaussian(5.5)),
        "bsl": gb.SyntheticLikelihood,
        "semibsl": gb.SemiparametricSyntheticLikelihood,
    }
    problem = getattr(gb.tasks.g_and_k, model)().problem(seed=0, num_observations=OBSERVATIONS)
    return gb.ScorePosterior(problem, scores[score](), num_simulations=SIMULATIONS)


def stepper(target: Any, sampler: Any) -> Case:
    """Our step, many of them in one compiled program."""
    import jax

    truth = {"A": 3.0, "B": 1.5, "g": 0.5, "k": 1.5, "rho": -0.3}
    prior = target.problem.prior
    start = prior.unconstrain({name: jax.numpy.asarray(truth[name]) for name in prior.shapes})
    key = jax.random.key(0)

    @jax.jit
    def walk(state: Any, count: Any) -> Any:
        def body(t: Any, state: Any) -> Any:
            return sampler.step(jax.random.fold_in(key, t), target, state)[0]

        return jax.lax.fori_loop(0, count, body, state)

    state = jax.jit(lambda u: sampler.init(key, target, u))(start)
    jax.block_until_ready(walk(state, 1))

    def seconds_per_step(steps: int) -> float:
        began = clock()
        jax.block_until_ready(walk(state, steps))
        return (clock() - began) / steps

    return seconds_per_step


def timed(case: Case) -> Callable[[], float]:
    """A measurement of about `SECONDS`."""
    case(2)
    steps = max(3, int(SECONDS / case(5)))
    return lambda: case(steps)


def pseudo_marginal(rounds: int) -> list[dict[str, str]]:
    """A row for each model, score and kind of noise."""
    import numpy as np

    import genbayes as gb

    from ._numpy_loops import Loop

    rows = []
    for model in MODELS:
        for score in SCORES:
            problem = target(model, score)
            y = np.asarray(problem.problem.observations)
            cases = {}
            for groups in (None, GROUPS):
                sampler = gb.PseudoMarginal(0.05, groups=groups)
                cases["ours", groups] = timed(stepper(problem, sampler))
                cases["loop", groups] = timed(Loop(y, score, groups, SIMULATIONS).seconds_per_step)
            seconds = interleaved(cases, rounds)  # pyright: ignore[reportArgumentType]
            for groups in (None, GROUPS):
                ours, loop = seconds["ours", groups], seconds["loop", groups]  # pyright: ignore
                times, aimed = ratio(loop, ours), groups is None
                rows.append(_row(
                    f"{model}, {score}, groups {groups}", "NumPy", ours, loop,
                    AIM_NUMPY if aimed else None, times,
                ))  # fmt: skip
    return rows


def _row(name: str, other: str, ours: Any, loop: Any, aim: int | None, times: Any) -> dict:
    said = "" if aim is None else verdict(times, least=aim)
    return {
        "step": name, "ours (microseconds)": str(median(ours).scaled(1e6)),
        "loop (microseconds)": f"{median(loop).value * 1e6:.0f} {other}",
        "times faster": str(times), "aim": said,
    }  # fmt: skip


def stochastic_gradient(rounds: int) -> list[dict[str, str]]:
    """A row for each sampler, all next to the adSGLD loop of PyTorch: one gradient a step."""
    import numpy as np

    import genbayes as gb

    from ._torch_loop import Loop

    problem = target("univariate", "energy")
    y = np.asarray(problem.problem.observations, float).ravel().tolist()
    samplers = {
        'AdSGLD(noise="iid")': gb.AdSGLD(0.1, diffusion=3.0, noise="iid"),
        'AdSGLD(noise="sobol")': gb.AdSGLD(0.1, diffusion=3.0, noise="sobol"),
        'AdSGLD(integrator="euler")': gb.AdSGLD(0.1, diffusion=3.0, integrator="euler"),
        'SGLD(noise="iid")': gb.SGLD(0.01, noise="iid"),
        'PSGLD(noise="iid")': gb.PSGLD(0.01, noise="iid"),
        'SGHMC(noise="iid")': gb.SGHMC(0.1, friction=3.0, noise="iid"),
    }
    cases = {"loop": timed(Loop(y, SIMULATIONS).seconds_per_step)}
    cases |= {name: timed(stepper(problem, sampler)) for name, sampler in samplers.items()}
    seconds = interleaved(cases, rounds)
    return [
        _row(f"univariate, energy, {name}", "PyTorch", seconds[name], seconds["loop"], AIM_TORCH,
             ratio(seconds["loop"], seconds[name]))
        for name in samplers
    ]  # fmt: skip


def rows(quick: bool = False) -> list[dict[str, str]]:
    """Both comparisons."""
    rounds = 3 if quick else ROUNDS
    found = pseudo_marginal(rounds)
    try:
        found += stochastic_gradient(rounds)
    except ImportError:
        print("(PyTorch is absent: the stochastic-gradient steps are left out)")
    return found
