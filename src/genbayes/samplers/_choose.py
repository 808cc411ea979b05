"""Which sampler suits a target, and why."""

from ..targets import ScorePosterior, noise_size, suits_sobol
from ._adsgld import AdSGLD
from ._base import AbstractSampler
from ._frozen_nuts import NUTS, FrozenNUTS
from ._pseudo_marginal import PseudoMarginal
from ._sgld import PSGLD

MANY_PARAMETERS = 50


def choose_sampler(target: ScorePosterior) -> tuple[AbstractSampler, str]:
    """A sampler for a target, with the reason in words.

    ```python
    >>> import genbayes as gb
    >>> from genbayes.samplers import choose_sampler
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> choose_sampler(gb.ScorePosterior(problem, gb.EnergyScore()))[1]
    'FrozenNUTS, because the simulator is differentiable and its noise has few dimensions (1)'

    ```
    """
    simulator = target.problem.simulator
    if target.is_exact:
        return NUTS(), "NUTS, because the target is exact"
    assert simulator is not None
    if not simulator.differentiable:
        groups = min(100, target.num_simulations)
        sampler = PseudoMarginal(adapt=True, groups=groups)
        return sampler, "PseudoMarginal, because the simulator has no gradients"
    if suits_sobol(target):
        return FrozenNUTS(), (
            "FrozenNUTS, because the simulator is differentiable and its noise has few dimensions "
            f"({noise_size(target)})"
        )
    if not target.score.unbiased:
        sampler = PseudoMarginal(adapt=True, groups=min(100, target.num_simulations))
        return sampler, (
            "PseudoMarginal, because the noise has many dimensions and the gradient of "
            f"{type(target.score).__name__} is biased"
        )
    if target.size > MANY_PARAMETERS:
        return PSGLD(1e-4), (
            f"PSGLD, because there are many parameters ({target.size}); its step size, 1e-4, is a "
            "guess to be tuned: PSGLD(tuning.Bandit()), or --sampler psgld --tune"
        )
    return AdSGLD(0.02), (
        "AdSGLD, because the simulator's noise has many dimensions or no known distribution; its "
        "step size, 0.02, is a guess to be tuned: AdSGLD(tuning.Bandit()), or --sampler adsgld "
        "--tune"
    )
