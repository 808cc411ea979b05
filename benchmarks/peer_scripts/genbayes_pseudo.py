"""genbayes, PseudoMarginal: nearly the scoring-rule posterior."""

import _measured

TARGET = "score"


def draw(y, model, seed, effort):
    import genbayes as gb

    task = gb.tasks.g_and_k.univariate() if model == "g_and_k" else gb.tasks.normal_location()
    target = gb.ScorePosterior(task.problem(y), gb.EnergyScore(), num_simulations=512)
    run = gb.sample(target, gb.PseudoMarginal(0.5, groups=100, adapt=True), num_samples=1000,
                    num_warmup=int(5000 * effort), thinning=int(20 * effort), seed=seed,
                    progress=False)  # fmt: skip
    return keep(run)


def keep(run):  # not user code: for the comparison
    import numpy as np

    _measured.calls = run.cost.simulator_calls
    return np.stack([x.reshape(-1) for x in run.draws.values()], axis=1)


if __name__ == "__main__":
    _measured.run(draw, ("genbayes", "jax"))
