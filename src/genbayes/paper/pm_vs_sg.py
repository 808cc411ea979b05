"""adSGLD beside pseudo-marginal Metropolis on ten observations of the univariate g-and-k.

Marginals of both, and the path of the kernelised Stein discrepancy over the first 30 000 draws.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..diagnostics import ksd_path
from ..runs import Run, sample
from ..samplers import AdSGLD, PseudoMarginal
from ..scores import EnergyScore
from ..targets import ScorePosterior
from ..tasks import g_and_k
from ..tuning import Bandit
from ._chains import digest, flat_draws
from ._data import Data
from ._experiment import Cell, Comparison, Experiment, Findings, Picture, Result, Scale
from ._figures import marginals, paths
from ._langevin import (
    SETTINGS,
    answer_rows,
    answer_table,
    our_chain,
    published_run,
    reference,
)
from ._models import problem
from ._published_sampler import DriftingPseudoMarginal
from ._statistics import jackknife

DATA, NUM_OBSERVATIONS, NUM_SIMULATIONS = "sg_uni_gk_exp1", 10, 500
STEPS, DROPPED = 110_000, 30_000  # the figure leaves out 30 000, its caption says 10 000
REFERENCE_SIMULATIONS = 4096
KSD_DRAWS, KSD_SIZES, KSD_CHAINS = 30_000, 30, 8
# the step size of the text, and the one that the race chose on such data in the concentration study
DTS = {"adSGLD, dt = 0.00316": 10**-2.5, "adSGLD, dt = 0.0316": 10**-1.5}
PM = {
    "PM-MCMC": PseudoMarginal(1.0),
    "PM-MCMC, 500 groups": DriftingPseudoMarginal(1.0, groups=500),
}
OUR_STEP, OUR_DIFFUSION = 0.1, 3.0
LIMIT, POINTS, BANDWIDTH = 4.0, 100, 0.2  # how the marginals were drawn

# read off the published figures: mean and sd of the densities as drawn
MARGINALS = {
    "PM-MCMC": ((2.5641, 2.7518, 1.2409, 1.3769), (0.6601, 0.7769, 1.0429, 0.3457)),
    "adSGLD": ((2.5616, 2.7610, 1.0766, 1.3309), (0.5777, 0.7214, 0.9062, 0.3287)),
}
# fmt: off
KSD = {
    "PM-MCMC": (2.6709, 2.1127, 1.4424, 1.3523, .8249, .5715, .5959, .6018, .7310, .8677, .9493,
                .8597, .8842, .7589, .6377, .6000, .5284, .4612, .5648, .6024, .6199, .6918, .6576,
                .6415, .7021, .7571, .8019, .8598, .9002, .8484),
    "adSGLD": (.4305, .3055, .3029, .2844, .2631, .2305, .2121, .2214, .2247, .2327, .2087, .2186,
               .2155, .2260, .2250, .2126, .2089, .1980, .1994, .2005, .1987, .2002, .2025, .1937,
               .1945, .1956, .1966, .1922, .1879, .1858),
}
# fmt: on
READ_OFF = 0.005  # what reading a figure may be wrong by
BELONGS = {"PM-MCMC": "PM-MCMC", "adSGLD": "adSGLD, dt = 0.00316"}


def _target(data: Data) -> ScorePosterior:
    observations = data.get(DATA, NUM_OBSERVATIONS)
    return ScorePosterior(
        problem(g_and_k.univariate(), observations), EnergyScore(), num_simulations=NUM_SIMULATIONS
    )


def cells(scale: Scale, data: Data) -> list[Cell]:
    """Long chains for the marginals, several shorter ones for the discrepancy, the reference."""
    target = _target(data)
    work: dict[str, tuple[Callable[[], Result], float]] = {}
    for name, dt in DTS.items():
        work[name] = partial(_long_adsgld, target, dt, scale), 20.0
        work[f"KSD {name}"] = partial(_ksd, target, scale, dt=dt), 60.0
    for name, sampler in PM.items():
        work[name] = partial(_long_pm, target, sampler, scale), 10.0
        work[f"KSD {name}"] = partial(_ksd, target, scale, sampler=sampler), 60.0
    step_size = OUR_STEP if scale.few else Bandit()
    work["ours"] = partial(our_chain, target, step_size, scale.steps(STEPS), "zero", scale), 60.0
    ours = AdSGLD(OUR_STEP, diffusion=OUR_DIFFUSION)
    work["KSD ours"] = partial(_ksd, target, scale, sampler=ours), 60.0
    work["reference"] = partial(reference, target, REFERENCE_SIMULATIONS, "zero", scale), 60.0
    return [
        Cell(name, do, load, f"{name.removeprefix('KSD ').split(', dt')[0]}, n = 10")
        for name, (do, load) in work.items()
    ]


def _long_adsgld(target: ScorePosterior, dt: float, scale: Scale) -> Result:
    kept, warmup = scale.steps(STEPS - DROPPED), scale.steps(DROPPED)
    run, used = published_run(target, dt, num_samples=kept, num_warmup=warmup, start="zero", seed=1)
    return {**_with_drawn(run), "dt": np.array(used)}


def _long_pm(target: ScorePosterior, sampler: Any, scale: Scale) -> Result:
    kept, warmup = scale.steps(STEPS - DROPPED), scale.steps(DROPPED)
    run = sample(target, sampler, num_samples=kept, num_warmup=warmup, seed=1, progress=False)
    return _with_drawn(run)


def _with_drawn(run: Run) -> Result:
    """A run's numbers, with mean and sd of its marginals as the figure draws them."""
    theta = flat_draws(run)
    drawn = [
        [jackknife(lambda x, k=k: as_drawn(x)[k], theta[:, j]) for j in range(theta.shape[1])]
        for k in range(2)
    ]
    return {**digest(run), "drawn": np.array(drawn)}  # (mean or sd, parameter, value and error)


def as_drawn(x: np.ndarray) -> tuple[float, float]:
    """Mean and sd of a smoothed density over the figure's range, the smoothing taken off again.

    ```python
    >>> mean, sd = as_drawn(np.random.default_rng(0).normal(2.0, 0.3, 10_000))
    >>> bool(abs(mean - 2) < 0.02 and abs(sd - 0.3) < 0.01)
    True

    ```
    """
    heights, edges = np.histogram(x, 400, (0.0, LIMIT))
    width = BANDWIDTH * max(float(np.std(x, ddof=1)), 1e-6)
    grid, centres = np.linspace(0.0, LIMIT, POINTS), (edges[1:] + edges[:-1]) / 2
    density = np.exp(-0.5 * ((grid[:, None] - centres[None]) / width) ** 2) @ heights
    density = density / density.sum()
    mean = float(density @ grid)
    variance = float(density @ (grid - mean) ** 2)
    return mean, (variance / (1 + BANDWIDTH**2)) ** 0.5


def _ksd(
    target: ScorePosterior, scale: Scale, *, dt: float | None = None, sampler: Any = None
) -> Result:
    """Paths of the discrepancy of several chains, from the first draw on, `(chain, size)`."""
    draws = scale.steps(KSD_DRAWS) // KSD_SIZES * KSD_SIZES
    settings: dict[str, Any] = {
        "num_samples": draws,
        "num_chains": 1 if scale.few else KSD_CHAINS,
        "seed": 4,
        "chain_method": "sequential",  # the program of the long chain serves
    }
    if dt is not None:
        run, _ = published_run(target, dt, start="zero", **settings)
    else:
        run = sample(target, sampler, progress=False, start="zero", **settings)
    sizes = np.linspace(draws / KSD_SIZES, draws, KSD_SIZES).round().astype(int)
    path = [
        ksd_path(_only(run, c), target=target, draws=slice(None), sizes=sizes,
                 num_simulations=NUM_SIMULATIONS, seed=5 + c).path
        for c in range(run.unconstrained.shape[0])
    ]  # fmt: skip
    simulations = np.array(run.cost.simulator_calls)
    return {"path": np.array(path), "sizes": sizes, "simulations": simulations}


def _only(run: Run, chain: int) -> Run:
    """One chain of a run."""
    return replace(
        run, draws={k: x[chain : chain + 1] for k, x in run.draws.items()},
        unconstrained=run.unconstrained[chain : chain + 1],
        info={k: x[chain : chain + 1] for k, x in run.info.items()},
    )  # fmt: skip


def findings(results: Mapping[str, Result], scale: Scale, data: Data) -> Findings:
    """Marginals and discrepancies beside what the figures show, and all of it beside the truth."""
    del data
    names = g_and_k.univariate().prior.coordinate_names
    comparisons = []
    for sampler, ours in BELONGS.items():
        comparisons += _marginals(sampler, names, results[ours])
    for sampler, ours in BELONGS.items():
        comparisons += _discrepancies(sampler, results[f"KSD {ours}"])
    shown = {label: results[label] for label in (*DTS, *PM, "ours", "reference")}
    draws = {label: result["draws"] for label, result in shown.items()}
    steps = scale.steps(KSD_DRAWS)
    pictures = [
        Picture(marginals(draws, names, (0.0, LIMIT)), "Marginals; the reference is black."),
        Picture(
            paths(_curves(results), KSD, np.linspace(steps / KSD_SIZES, steps, KSD_SIZES)),
            "Discrepancy of the first draws: the mean over chains, and a band from the lowest to "
            "the highest; published values as crosses.",
        ),
    ]
    table = answer_table(answer_rows((), shown), (), names)
    return Findings(comparisons, pictures, [table], REMARKS)


def _marginals(sampler: str, names: tuple[str, ...], found: Result) -> list[Comparison]:
    return [
        Comparison(
            f"{sampler}: {what} of {name}", MARGINALS[sampler][k][j],
            *(float(x) for x in found["drawn"][k, j]), rounding=READ_OFF, note=NOTES[sampler],
        )
        for k, what in enumerate(("mean", "sd"))
        for j, name in enumerate(names)
    ]  # fmt: skip


def _discrepancies(sampler: str, found: Result) -> list[Comparison]:
    """Published values are of one chain: the spread over ours is their error."""
    chains = found["path"].shape[0]
    alone = np.full(found["path"].shape[1], np.inf)
    spread = found["path"].std(axis=0, ddof=1) * (1 + 1 / chains) ** 0.5 if chains > 1 else alone
    rows = zip(found["sizes"], KSD[sampler], found["path"].mean(axis=0), spread, strict=True)
    return [
        Comparison(
            f"{sampler}: discrepancy of {n:,} draws", told, float(ours), float(error), 0.0005,
            exact=True, note="single chains differ: see the band of the picture",
        )
        for n, told, ours, error in rows
    ]  # fmt: skip


def _curves(results: Mapping[str, Result]) -> dict[str, np.ndarray]:
    labels = {**{f"{k}": f"KSD {v}" for k, v in BELONGS.items()}, "ours": "KSD ours"}
    return {label: results[cell]["path"] for label, cell in labels.items()}


NOTES = {
    "adSGLD": "belongs to the step size of the text",
    "PM-MCMC": "belongs to the plain form of the sampler",
}
REMARKS = [
    "Published marginals and discrepancies were read off the figures. Ours are drawn in the same "
    "way: 30 000 of 110 000 draws left out (the caption says 10 000), a smoothed density on 100 "
    "points between 0 and 4, mean and sd taken from that.",
    "Text and code leave open what the figures were drawn at. On the published data adSGLD at the "
    "dt = 0.003 of the text meets all eight means and sds, at 0.0316 it misses six; PM-MCMC meets "
    "all eight in its plain form, with proposals of variance 1.",
    "Which is right: the reference holds the noise fixed at a large m, so it has neither the bias "
    "of a step size nor the widening of a pseudo-marginal target. Published adSGLD is too narrow, "
    "since its gradient noise depends on the parameter and the thermostat absorbs a constant part "
    "of it alone; that PM-MCMC is broader is not an error of PM-MCMC at these n and m.",
]

EXPERIMENT = Experiment(
    name="pm_vs_sg",
    title="Pseudo-marginal against stochastic-gradient sampling",
    section="Comparison between PM-MCMC and SG-MCMC",
    observations=(DATA,),
    settings={
        "observations": f"{NUM_OBSERVATIONS}, univariate g-and-k",
        "target": f"energy score, w = 1, m = {NUM_SIMULATIONS}",
        "steps": f"{STEPS:,}, of which {DROPPED:,} are left out; start at 0 in unconstrained space",
        "PM-MCMC": "proposals of variance 1; plain, and as the published correlated sampler",
        "discrepancy": f"inverse multiquadric, c = 1, beta = -0.5, vector form, V-statistic; fresh "
        f"gradients, m = {NUM_SIMULATIONS}; nothing burnt in; {KSD_CHAINS} chains. Ours there: "
        f"AdSGLD({OUR_STEP}, diffusion={OUR_DIFFUSION}), elsewhere the step size of Bandit()",
        **SETTINGS,
        "m of the reference": f"{REFERENCE_SIMULATIONS:,}",
    },
    cells=cells,
    findings=findings,
)
