"""sbi, NLE: the ordinary posterior, from a network of the density of one draw."""

import _measured

TARGET = "ordinary"


def draw(y, model, seed, effort):
    import numpy as np
    import torch
    from sbi.inference import NLE
    from sbi.utils import BoxUniform

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)

    def features(x):  # the same for data and draws, so the posterior is the same
        return torch.as_tensor(np.arcsinh(x), dtype=torch.float32)

    if model == "normal":
        prior = torch.distributions.MultivariateNormal(torch.zeros(1), torch.eye(1))
    else:
        prior = BoxUniform(torch.zeros(4), 4 * torch.ones(4))
    theta = prior.sample((int(10_000 * effort),))
    x = features(_measured.simulate(model, theta.numpy(), 1, rng))
    inference = NLE(prior, show_progress_bars=False)
    inference.append_simulations(theta, x).train(max_num_epochs=60)
    posterior = inference.build_posterior(
        mcmc_method="slice_np_vectorized",
        mcmc_parameters={"num_chains": 20, "warmup_steps": 50, "thin": 2},
    )
    draws = posterior.sample((1_000,), x=features(y[:, None]), show_progress_bars=False)
    return draws.numpy()


if __name__ == "__main__":
    _measured.run(draw, ("sbi.inference", "torch"))
