"""Concentration of the univariate g-and-k posterior, sampled by stochastic gradients."""

from functools import partial

from ..kernels import Gaussian
from ..scores import EnergyScore, KernelScore
from ..tasks import g_and_k
from ._concentration import KEPT, NUM_SIMULATIONS, WARMUP, Method, N, Study, cells, findings
from ._experiment import Experiment
from ._langevin import SETTINGS

STUDY = Study(
    task=g_and_k.univariate(),
    data="sg_uni_gk_exp2",
    methods={
        "energy": Method(EnergyScore(), 1.0, (-1.5, -1.5, -2.5, -3.5, -3, -4, -4, -5.5)),
        "kernel": Method(
            KernelScore(Gaussian(5.47)), 28.12237233935826, (-1, -1.5, -2, -3, -3, -4, -4.5, -4.5)
        ),
    },
    reference_simulations={"energy": 2048, "kernel": 1024},
    relative_load={"energy": 0.3, "kernel": 0.8},
    truth=g_and_k.TRUTH,
)

EXPERIMENT = Experiment(
    name="concentration_uni",
    title="Concentration, univariate g-and-k",
    section="Posterior concentration of univariate g-and-k model",
    observations=(STUDY.data,),
    settings={
        "observations": ", ".join(map(str, N)),
        "weights": "1 (energy), 28.1 (kernel, bandwidth 5.47)",
        "m": f"{NUM_SIMULATIONS} (the text does not say; that of the code)",
        "steps": f"{WARMUP:,} of warm-up, then {KEPT:,}, from 250 steps of Adam",
        **SETTINGS,
    },
    cells=partial(cells, STUDY),
    findings=partial(findings, STUDY),
)
