"""ABCpy, Metropolis-Hastings with an approximate likelihood: the energy score, added by hand."""

import sys
import types

import _measured

TARGET = "score"
# it cannot be installed with glmnet, which it imports for a distance that is not used here
sys.modules["glmnet"] = types.ModuleType("glmnet")
sys.modules["glmnet"].LogitNet = None  # pyright: ignore[reportAttributeAccessIssue]


def draw(y, model, seed, effort):
    import numpy as np
    from abcpy.approx_lhd import Approx_likelihood
    from abcpy.backends import BackendDummy
    from abcpy.continuousmodels import Normal, Uniform
    from abcpy.inferences import MCMCMetropoliHastings
    from abcpy.probabilisticmodels import Continuous, InputConnector, ProbabilisticModel
    from abcpy.statistics import Identity

    class Model(ProbabilisticModel, Continuous):
        def __init__(self, parameters, name="model"):
            super().__init__(InputConnector.from_list(parameters), name)

        def _check_input(self, input_values):
            return True

        def _check_output(self, values):
            return True

        def get_output_dimension(self):
            return 1

        def forward_simulate(self, input_values, k, rng=None, mpi_comm=None):
            return list(_measured.simulate(model, input_values, k, rng)[0][:, None])

    class EnergyScore(Approx_likelihood):
        def __init__(self, statistics_calc):
            super().__init__(statistics_calc)

        def loglikelihood(self, y_obs, y_sim):
            y, x = self._calculate_summary_stat(y_obs, y_sim)
            m, ordered = len(x), np.sort(x[:, 0])
            near = 2 * np.abs(ordered[:, None] - y.T).mean(axis=0)
            apart = 2 * np.sum((2 * np.arange(m) - (m - 1)) * ordered) / (m * (m - 1))
            return -np.sum(near - apart)

    if model == "normal":
        parameters, bounds = [Normal([[0], [1]], name="mean")], None
    else:
        parameters = [Uniform([[0], [4]], name=name) for name in _measured.NAMES[model]]
        bounds = dict.fromkeys(_measured.NAMES[model], (0, 4))
    chain = MCMCMetropoliHastings(
        [Model(parameters)], [EnergyScore(Identity())], BackendDummy(), seed=seed
    )
    journal = chain.sample([list(y[:, None])], n_samples=int(20_000 * effort),
                           burnin=int(5_000 * effort), n_samples_per_param=512,
                           adapt_proposal_cov_interval=int(1_000 * effort), bounds=bounds,
                           use_tqdm=False)  # fmt: skip
    found = journal.get_parameters()
    draws = np.stack([np.ravel(found[p.name]) for p in parameters], axis=1)
    return draws[:: int(20 * effort)]


if __name__ == "__main__":
    _measured.run(draw, ("abcpy",))
