"""The effect of the number of simulations m on the pseudo-marginal posterior: four tables.

Vanilla pseudo-marginal Metropolis on ten observations; proposals have unit variance in
unconstrained space. Its target is the average of exp(-w S) over the noise of m draws, so the
tables belong to that target at each m, which widens as m falls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from .._table import Table
from ..samplers import PseudoMarginal
from ._chains import walk
from ._data import Data
from ._experiment import Cell, Comparison, Experiment, Findings, Picture, Result, Scale
from ._figures import lines
from ._models import MODELS, WEIGHTS

NUM_OBSERVATIONS = 10
WARMUP, KEPT = 10_000, 100_000
STUCK = 0.005  # acceptance below which a chain's spread is not compared
M = (10, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)


@dataclass(frozen=True)
class Published:
    """The published numbers of a method, by m."""

    acceptance: tuple[float, ...]
    trace: tuple[float, ...]
    bounds: frozenset[int] = field(default_factory=frozenset)  # m where "< 0.001" was printed


# fmt: off
PUBLISHED = {
    "uni_gk": {
        "BSL": Published(
            (.104, .122, .129, .134, .136, .135, .135, .132, .130, .133, .132, .132, .137),
            (4.5245, 4.4439, 4.3778, 4.4095, 4.1753, 4.2261, 4.1769, 4.1702, 4.2095, 4.2417, 4.2421,
             4.1084, 4.2930),
        ),
        "kernel": Published(
            (.011, .035, .098, .157, .204, .220, .229, .234, .239, .243, .247, .248, .253),
            (3.6030, 3.6679, 3.3803, 3.2220, 3.1628, 3.1181, 3.0716, 3.1079, 3.0295, 3.0536, 3.0216,
             3.0477, 3.1181),
        ),
        "energy": Published(
            (.063, .115, .179, .219, .243, .252, .257, .262, .259, .265, .265, .267, .269),
            (3.9822, 3.9642, 3.6105, 3.5335, 3.4730, 3.3537, 3.3553, 3.4362, 3.2612, 3.3629, 3.3077,
             3.3815, 3.3570),
        ),
    },
    "uni_cauchy": {
        "BSL": Published(
            (.038, .072, .130, .159, .179, .187, .188, .189, .191, .186, .184, .190, .194),
            (3.3664, 2.3207, 1.9729, 2.0145, 1.8829, 2.0198, 1.9498, 1.9092, 1.8259, 1.9207, 1.9509,
             1.9475, 1.9763),
        ),
        "kernel": Published(
            (.047, .069, .184, .298, .359, .389, .405, .412, .422, .430, .432, .434, .436),
            (3.4141, 3.2060, 2.6690, 2.4529, 2.4037, 2.3623, 2.3403, 2.3756, 2.3461, 2.3452, 2.3810,
             2.4472, 2.3434),
        ),
        "energy": Published(
            (.164, .216, .306, .364, .391, .402, .410, .413, .414, .417, .419, .423, .425),
            (3.8095, 3.4900, 2.9483, 2.7232, 2.7153, 2.6055, 2.6164, 2.5579, 2.5704, 2.5484, 2.6276,
             2.6468, 2.6386),
        ),
    },
    "multi_gk": {
        "BSL": Published(
            (.001, .001, .003, .002, .001, .008, .009, .009, .013, .010, .016, .022, .017),
            (1.0566, .3674, 2.8320, 2.3666, .7140, 2.8229, 2.5694, 3.3583, 2.9646, 3.7043, 3.3017,
             2.9915, 3.1304),
            frozenset({10, 20}),
        ),
        "semiBSL": Published(
            (.001, .001, .001, .001, .001, .002, .001, .002, .005, .005, .006, .005, .006),
            (.4227, .6383, .6331, .6131, .8603, 2.2184, .6885, 1.2885, 1.3359, .6511, .6679, .6411,
             .5892),
            frozenset({10, 20, 50, 100}),
        ),
        "kernel": Published(
            (.006, .023, .055, .078, .099, .108, .113, .116, .120, .119, .122, .126, .122),
            (3.6061, 4.0455, 3.8924, 4.1250, 3.9624, 4.2766, 3.9710, 4.0250, 3.9632, 4.0173, 3.9607,
             4.1293, 3.9757),
        ),
        "energy": Published(
            (.070, .123, .170, .194, .206, .208, .212, .217, .216, .214, .214, .216, .216),
            (4.5255, 3.9212, 3.8571, 3.8126, 3.7142, 3.9078, 3.8284, 3.8383, 3.7698, 3.7437, 3.7512,
             3.9202, 3.7959),
        ),
    },
    "multi_cauchy": {
        "kernel": Published(
            (.017, .108, .243, .308, .344, .348, .355, .359, .363, .360, .361, .363, .363),
            (4.5045, 3.6950, 3.4612, 3.4759, 3.4666, 3.4583, 3.4158, 3.4047, 3.3847, 3.3485, 3.3505,
             3.3627, 3.3307),
        ),
        "energy": Published(
            (.174, .252, .300, .316, .323, .321, .331, .332, .330, .329, .332, .331, .330),
            (3.4306, 3.2373, 3.0291, 3.0081, 2.9303, 2.9160, 3.0031, 2.9743, 2.9321, 2.9249, 2.9854,
             3.0155, 2.9277),
        ),
    },
}
# fmt: on


def cells(scale: Scale, data: Data) -> list[Cell]:
    """A chain for each model, method and m."""
    found = []
    for name, model in MODELS.items():
        observations = data.get(model.data, NUM_OBSERVATIONS)
        for method in PUBLISHED[name]:
            for m in scale.some(M):
                target = model.target(method, observations, m)
                work = partial(
                    walk, target, PseudoMarginal(1.0), num_samples=scale.steps(KEPT),
                    num_warmup=scale.steps(WARMUP), seed=1,
                )  # fmt: skip
                load = model.chain_seconds(method, m)
                programs = f"vanilla {model.simulator}, {method}, m = {m}"
                found.append(Cell(f"{name}-{method}-{m}", work, load, programs))
    return found


def findings(results: Mapping[str, Result], scale: Scale, data: Data) -> Findings:
    """The four tables, beside the published ones, and their picture."""
    del data
    comparisons, tables = [], []
    for name, methods in PUBLISHED.items():
        rows = []
        for label, published in methods.items():
            for m in scale.some(M):
                found = results[f"{name}-{label}-{m}"]
                comparisons += _compare(MODELS[name].title, label, published, m, found)
                rows.append((label, m, found["acceptance"][0], found["trace"][0]))
        columns = ("score", "m", "acceptance", "trace of covariance")
        tables.append(Table(columns, rows, MODELS[name].title))
    return Findings(comparisons, [_picture(results, scale)], tables)


def _compare(
    title: str, label: str, published: Published, m: int, found: Result
) -> list[Comparison]:
    where, at = f"{title}, {label}, m = {m}", M.index(m)
    rate, trace = found["acceptance"], found["trace"]
    # blocks of a chain that hardly moves are alike, and say nothing of the error of its spread
    error = float(trace[1]) if rate[0] >= STUCK else float("nan")
    return [
        Comparison(
            f"{where}: acceptance", published.acceptance[at], float(rate[0]), float(rate[1]),
            rounding=0.0005, bound=m in published.bounds,
        ),
        Comparison(
            f"{where}: trace of covariance", published.trace[at], float(trace[0]), error,
            rounding=0.00005,
        ),
    ]  # fmt: skip


def _picture(results: Mapping[str, Result], scale: Scale) -> Picture:
    ours, theirs = {}, {}
    for name, methods in PUBLISHED.items():
        title = MODELS[name].title
        ours[title] = {
            label: [(m, *results[f"{name}-{label}-{m}"]["trace"]) for m in scale.some(M)]
            for label in methods
        }
        theirs[title] = {label: list(zip(M, p.trace, strict=True)) for label, p in methods.items()}
    return Picture(
        lines(ours, theirs, "m", "trace of covariance"),
        "Trace of the posterior covariance against the number of simulations: ours with two "
        "standard errors, the published values as crosses.",
    )


EXPERIMENT = Experiment(
    name="effect_of_m",
    title="The effect of the number of simulations",
    section="Appendix: different number of simulations",
    observations=tuple(m.data for m in MODELS.values()),
    settings={
        "observations": f"{NUM_OBSERVATIONS}",
        "sampler": "vanilla pseudo-marginal Metropolis, proposals of variance 1",
        "steps": f"{WARMUP:,} of warm-up, then {KEPT:,}",
        "weights": WEIGHTS,
        "covariance of BSL": "Ledoit-Wolf shrinkage in five dimensions, as in the published code; "
        "the text does not mention it",
    },
    cells=cells,
    findings=findings,
)
