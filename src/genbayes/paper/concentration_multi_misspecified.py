"""The multivariate g-and-k posterior on Cauchy data, which the model cannot give."""

from functools import partial

import numpy as np

from ..kernels import Gaussian
from ..scores import EnergyScore, KernelScore
from ..tasks import g_and_k
from ._concentration import Likelihood, Method, Study, cells, findings
from ._experiment import Experiment
from ._langevin import SETTINGS
from .concentration_multi import BANDWIDTH, BSL, COMMON, REFERENCE_SIMULATIONS, WEIGHT

# the notebook has 2.5e-4 at n = 200 where the table prints 1e-4
BY_HAND = (float(np.log10(0.05)), -4.0, float(np.log10(6e-5)))

STUDY = Study(
    task=g_and_k.multivariate(cauchy=True),
    data="sg_mv_cauchy",
    methods={
        "energy": Method(EnergyScore(), 1.0, (-1, -2, -2.5, -3, -3, -4, -4, -4.5)),
        "kernel": Method(
            KernelScore(Gaussian(BANDWIDTH)),
            WEIGHT,
            (BY_HAND[0], -2, -2.5, -2.5, -2.5, -2.5, BY_HAND[1], BY_HAND[2]),
            by_hand=frozenset({1, 200, 400}),
        ),
    },
    reference_simulations=REFERENCE_SIMULATIONS,
    relative_load={"energy": 1.0, "kernel": 1.0},
    truth=None,
    likelihood=Likelihood(BSL, (1, 5)),
)

EXPERIMENT = Experiment(
    name="concentration_multi_misspecified",
    title="Concentration, multivariate g-and-k, Cauchy data",
    section="Comparison with Bayesian synthetic likelihood: misspecified setup",
    observations=(STUDY.data,),
    settings={
        **COMMON,
        "step sizes with a star": "called manually tuned; in the code a step that fails halves dt, "
        "and the notebook has 2.5e-4 at n = 200 where the table prints 1e-4",
        "weight of the kernel score": "191 by the text; the code estimates it anew on these data "
        "(205.3)",
        **SETTINGS,
    },
    cells=partial(cells, STUDY),
    findings=partial(findings, STUDY),
)
