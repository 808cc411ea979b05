"""Pseudo-marginal posteriors as the number of observations grows: marginals and acceptance rates.

Well-specified and Cauchy data, univariate and multivariate g-and-k, by the published correlated
sampler with one group for each of the 500 simulations.
"""

from collections.abc import Mapping
from functools import partial

from .._table import Table
from ._chains import walk
from ._data import Data
from ._experiment import Cell, Comparison, Experiment, Findings, Picture, Result, Scale
from ._figures import shaded_family
from ._models import MODELS, WEIGHTS
from ._published_sampler import DriftingPseudoMarginal

WARMUP, KEPT = 10_000, 100_000
NUM_SIMULATIONS = GROUPS = 500
N = (1, *range(5, 101, 5))
HARDLY_MOVED = 0.01  # acceptance under which a marginal is not drawn

# Variances of the proposals by the largest n that they were used up to
ALL_ONE = ((100, 1.0),)
UNIVARIATE = ((25, 1.0), (50, 0.4), (100, 0.2))
MULTIVARIATE = ((15, 1.0), (35, 0.4), (50, 0.2), (100, 0.1))
PROPOSALS = {
    "uni_gk": {"BSL": ALL_ONE, "kernel": UNIVARIATE, "energy": UNIVARIATE},
    "uni_cauchy": {"BSL": UNIVARIATE, "kernel": UNIVARIATE, "energy": UNIVARIATE},
    "multi_gk": {
        "BSL": ALL_ONE, "semiBSL": ALL_ONE, "kernel": MULTIVARIATE, "energy": MULTIVARIATE,
    },
    "multi_cauchy": {"kernel": MULTIVARIATE, "energy": MULTIVARIATE},
}  # fmt: skip

# Acceptance rates by n, as far as the published chains ran satisfactorily
# fmt: off
PUBLISHED = {
    "uni_gk": {
        "BSL": (.362, .221, .133, .109, .100, .092, .085, .080, .076, .070, .062, .060, .059, .057,
                .052, .048, .048, .045, .044, .044, .042),
        "kernel": (.507, .329, .252, .253, .154, .149, .218, .172, .152, .130, .121, .189, .185,
                   .173, .172, .161, .159, .150, .143, .136, .129),
        "energy": (.420, .375, .272, .217, .207, .208, .343, .315, .293, .256, .220, .317, .324,
                   .314, .289, .273, .267, .252, .247, .244, .236),
    },
    "uni_cauchy": {
        "BSL": (.457, .302, .193, .146, .102, .093, .153, .144, .134, .130, .125, .167, .176, .164,
                .164, .156, .157, .153, .147, .152, .141),
        "kernel": (.482, .436, .450, .441, .264, .288, .426, .349, .340, .344, .255, .318, .303,
                   .293, .276, .272, .262, .254, .231, .226, .223),
        "energy": (.521, .454, .425, .390, .311, .314, .471, .448, .440, .429, .393, .501, .490,
                   .481, .455, .445, .436, .430, .415, .410, .407),
    },
    "multi_gk": {
        "BSL": (.216, .069, .036),
        "semiBSL": (.190,),
        "kernel": (.468, .136, .127, .077, .151, .126, .124, .076, .119, .103, .103, .139, .129,
                   .133, .119, .123, .117, .098, .087, .089, .076),
        "energy": (.445, .224, .216, .154, .278, .233, .222, .166, .246, .223, .219, .297, .286,
                   .273, .256, .247, .233, .213, .198, .198, .190),
    },
    "multi_cauchy": {
        "kernel": (.472, .324, .362, .361, .544, .530, .536, .537, .631, .523, .383, .471, .412,
                   .389, .372, .278, .232, .247, .239, .235, .232),
        "energy": (.470, .373, .330, .276, .410, .377, .359, .336, .432, .373, .343, .436, .407,
                   .391, .374, .329, .306, .300, .299, .291, .277),
    },
}
# fmt: on


def proposal_scale(model: str, method: str, n: int) -> float:
    """The standard deviation of the proposals at `n` observations."""
    return next(v for most, v in PROPOSALS[model][method] if n <= most) ** 0.5


def cells(scale: Scale, data: Data) -> list[Cell]:
    """A chain for each model, method and number of observations."""
    found = []
    for name, model in MODELS.items():
        observations = data.get(model.data, N[-1])
        for method, rates in PUBLISHED[name].items():
            for n in scale.some(N[: len(rates)]):
                target = model.target(method, observations[:n], NUM_SIMULATIONS)
                sampler = DriftingPseudoMarginal(proposal_scale(name, method, n), groups=GROUPS)
                work = partial(
                    walk, target, sampler, num_samples=scale.steps(KEPT),
                    num_warmup=scale.steps(WARMUP), seed=1,
                )  # fmt: skip
                load = model.chain_seconds(method, NUM_SIMULATIONS)
                programs = f"published {model.simulator}, {method}, n = {n}"
                found.append(Cell(f"{name}-{method}-{n}", work, load, programs))
    return found


def findings(results: Mapping[str, Result], scale: Scale, data: Data) -> Findings:
    """Both acceptance tables beside the published ones, and the marginals."""
    del data
    comparisons, tables, pictures = [], [], []
    for name, methods in PUBLISHED.items():
        title, rows = MODELS[name].title, []
        for method, rates in methods.items():
            family = {}
            for n in scale.some(N[: len(rates)]):
                found = results[f"{name}-{method}-{n}"]
                rate, error = (float(x) for x in found["acceptance"])
                where = f"{title}, {method}, n = {n}: acceptance"
                note = ROTATED if name.startswith("multi") else ""
                published = rates[N.index(n)]
                comparisons.append(Comparison(where, published, rate, error, 0.0005, note=note))
                rows.append((method, n, rate, float(found["trace"][0])))
                if rate >= HARDLY_MOVED:
                    family[n] = found["draws"]
            if family:
                names = MODELS[name].task.prior.coordinate_names
                caption = f"{title}, {method}: marginals, darker with more observations."
                pictures.append(Picture(shaded_family(family, names), caption))
        tables.append(Table(("score", "n", "acceptance", "trace of covariance"), rows, title))
    return Findings(comparisons, pictures, tables, [REMARK])


ROTATED = (
    "the published simulator rotates its noise by a singular value decomposition, whose vectors "
    "change places and signs as rho moves, so that kept noise correlates less; ours is smooth"
)
REMARK = (
    "These chains follow the published code, which keeps the refreshed group of noise when it "
    "rejects a proposal; genbayes.PseudoMarginal(groups=...) accepts or rejects both together. "
    "Where the published table has a stroke, the chain did not run satisfactorily, and it is left "
    "out here."
)

EXPERIMENT = Experiment(
    name="pm_concentration",
    title="Pseudo-marginal posteriors with more observations",
    section="Appendix: pseudo-marginal MCMC for the g-and-k models",
    observations=tuple(m.data for m in MODELS.values()),
    settings={
        "observations": "1, 5, 10, ..., 100",
        "sampler": "correlated pseudo-marginal Metropolis as published: the refreshed group is "
        f"kept on rejection; m = {NUM_SIMULATIONS}, {GROUPS} groups",
        "proposals": "published sizes are variances: 1 at few observations, down to 0.1",
        "steps": f"{WARMUP:,} of warm-up, then {KEPT:,}",
        "weights": WEIGHTS,
    },
    cells=cells,
    findings=findings,
)
