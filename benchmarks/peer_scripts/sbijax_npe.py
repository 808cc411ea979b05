"""sbijax, NPE: the ordinary posterior, from a network of the sorted sample."""

import _measured

TARGET = "ordinary"


def draw(y, model, seed, effort):
    import jax
    import numpy as np
    from sbijax import NPE
    from sbijax.nn import make_maf
    from tensorflow_probability.substrates.jax import distributions as tfd

    rng = np.random.default_rng(seed)
    size = len(_measured.NAMES[model])

    def prior():
        one = tfd.Normal(np.zeros(size, "f4"), 1.0)
        if model != "normal":
            one = tfd.Uniform(np.zeros(size, "f4"), 4.0)
        return tfd.JointDistributionNamed({"theta": tfd.Independent(one, 1)})

    def features(x):  # sorted, and compressed: the tails reach 10^4
        return jax.numpy.asarray(np.arcsinh(np.sort(x, axis=-1)), "float32")

    def simulate(seed, theta):
        return features(_measured.simulate(model, theta["theta"], len(y), rng))

    key_data, key_fit, key_draw = jax.random.split(jax.random.PRNGKey(seed), 3)
    inference = NPE((prior, simulate), make_maf(size))
    data, _ = inference.simulate_data(key_data, n_simulations=int(5_000 * effort))
    params, _ = inference.fit(key_fit, data)
    found, _ = inference.sample_posterior(key_draw, params, features(y), n_samples=1_000)
    return found.posterior["theta"].to_numpy().reshape(-1, size)


if __name__ == "__main__":
    _measured.run(draw, ("sbijax",))
