"""pyABC, ABC-SMC: nearly the ordinary posterior, by the distance of sorted samples."""

import _measured

TARGET = "ordinary"


def draw(y, model, seed, effort):
    import tempfile
    from pathlib import Path

    import numpy as np
    import pyabc

    np.random.seed(seed)
    rng = np.random.default_rng(seed)
    names = _measured.NAMES[model]

    def simulate(parameters):
        theta = np.array([[parameters[name] for name in names]])
        return {"x": np.arcsinh(np.sort(_measured.simulate(model, theta, len(y), rng)[0]))}

    def distance(x, x0):
        return np.abs(x["x"] - x0["x"]).mean()

    one = pyabc.RV("norm", 0, 1) if model == "normal" else pyabc.RV("uniform", 0, 4)
    abc = pyabc.ABCSMC(simulate, pyabc.Distribution(**dict.fromkeys(names, one)), distance,
                       population_size=500, sampler=pyabc.SingleCoreSampler())  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        abc.new(f"sqlite:///{Path(folder) / 'abc.db'}", {"x": np.arcsinh(np.sort(y))})
        history = abc.run(max_total_nr_simulations=int(30_000 * effort), minimum_epsilon=0.0)
        frame, weights = history.get_distribution()
        frame = frame.sample(1_000, replace=True, weights=weights, random_state=seed)
    return frame[list(names)].to_numpy()


if __name__ == "__main__":
    _measured.run(draw, ("pyabc",))
