"""sbi, NPE: the ordinary posterior, from networks of the sorted sample."""

import _measured

TARGET = "ordinary"


def draw(y, model, seed, effort):
    import numpy as np
    import torch
    from sbi.inference import NPE
    from sbi.utils import BoxUniform

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)

    def features(x):  # sorted, and compressed: the tails reach 10^4
        return torch.as_tensor(np.arcsinh(np.sort(x, axis=-1)), dtype=torch.float32)

    if model == "normal":
        prior = torch.distributions.MultivariateNormal(torch.zeros(1), torch.eye(1))
    else:
        prior = BoxUniform(torch.zeros(4), 4 * torch.ones(4))
    theta = prior.sample((int(5_000 * effort),))
    x = features(_measured.simulate(model, theta.numpy(), len(y), rng))
    inference = NPE(prior, show_progress_bars=False)
    inference.append_simulations(theta, x).train(max_num_epochs=100)
    posterior = inference.build_posterior()
    return posterior.sample((1_000,), x=features(y[None]), show_progress_bars=False).numpy()


if __name__ == "__main__":
    _measured.run(draw, ("sbi.inference", "torch"))
