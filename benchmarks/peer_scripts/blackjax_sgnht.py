"""BlackJAX's thermostat (SGNHT), assembled by hand: the scoring-rule posterior."""

import _measured

TARGET = "score"


def draw(y, model, seed, effort):
    import blackjax
    import jax
    import jax.numpy as jnp
    import jax.scipy.stats as stats

    y, m, steps = jnp.asarray(y, jnp.float32), 512, int(25_000 * effort)

    def constrain(u):
        return u if model == "normal" else 4 * jax.nn.sigmoid(u)

    def log_prior(u):
        if model == "normal":
            return jnp.sum(stats.norm.logpdf(u))
        return jnp.sum(jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u))

    def simulate(theta, z):
        if model == "normal":
            return theta[0] + z
        a, b, g, k = theta
        return a + b * (1 + 0.8 * jnp.tanh(g * z / 2)) * (1 + z**2) ** k * z

    def estimate(u, key):
        x = simulate(constrain(u), jax.random.normal(key, (m,)))
        near = 2 * jnp.mean(jnp.abs(x[:, None] - y[None, :]), axis=0)
        ordered = jnp.sort(x)
        apart = 2 * jnp.sum((2 * jnp.arange(m) - (m - 1)) * ordered) / (m * (m - 1))
        return log_prior(u) - jnp.sum(near - apart)

    step_size = 0.1 if len(y) < 50 else 0.05
    kernel = blackjax.sgnht(jax.grad(estimate), alpha=3.0)
    size = 1 if model == "normal" else 4
    state = kernel.init(jnp.zeros(size), jax.random.key(seed))

    @jax.jit
    def chain(state, keys):
        def step(state, key):
            key_step, key_gradient = jax.random.split(key)
            state = kernel.step(key_step, state, key_gradient, step_size)
            return state, state.position

        return jax.lax.scan(step, state, keys)[1]

    positions = chain(state, jax.random.split(jax.random.key(seed + 1), steps))
    _measured.calls = steps * m
    return jax.vmap(constrain)(positions[steps // 5 :: int(20 * effort)])


if __name__ == "__main__":
    _measured.run(draw, ("blackjax", "jax"))
