"""Posteriors by stochastic gradients as observations grow in number: what three studies share."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from .._table import Table
from ..scores import AbstractScore
from ..targets import ScorePosterior
from ..tasks import Task
from ._chains import walk
from ._data import Data
from ._experiment import Cell, Comparison, Findings, Picture, Result, Scale
from ._figures import ratios, shaded_family
from ._langevin import (
    ADAM,
    answer_rows,
    answer_table,
    compare_step_size,
    our_chain,
    published_chain,
    race,
    ratio_point,
    reference,
)
from ._models import problem
from ._published_sampler import DriftingPseudoMarginal

N = (1, 10, 20, 50, 70, 100, 200, 400)
NUM_SIMULATIONS = 500
WARMUP, KEPT = 10_000, 100_000
LOADS = {"published": 25.0, "race": 15.0, "answers": 60.0}
CALM = 0.3  # our step size, in units of the posterior's narrowest direction


@dataclass(frozen=True)
class Method:
    """A score with its weight, and the published step sizes by n, as powers of ten.

    `by_hand` are the n whose step size the paper calls manually tuned.
    """

    score: AbstractScore
    weight: float
    powers: tuple[float, ...]
    by_hand: frozenset[int] = frozenset()

    def dt(self, n: int) -> float:
        """The published step size."""
        return float(10 ** self.powers[N.index(n)])


@dataclass(frozen=True)
class Likelihood:
    """Synthetic likelihood by the published correlated sampler, as far as it ran."""

    score: AbstractScore
    n: tuple[int, ...]
    groups: int = 500
    proposal_scale: float = 1.0


@dataclass(frozen=True)
class Study:
    """One concentration study."""

    task: Task
    data: str
    methods: Mapping[str, Method]
    reference_simulations: Mapping[str, int]
    relative_load: Mapping[str, float]
    truth: Mapping[str, float] | None
    likelihood: Likelihood | None = None

    def target(self, score: AbstractScore, weight: float, y: np.ndarray) -> ScorePosterior:
        """The posterior of a score, from observations `(n, d)`."""
        return ScorePosterior(
            problem(self.task, y), score, weight=weight, num_simulations=NUM_SIMULATIONS
        )


def cells(study: Study, scale: Scale, data: Data) -> list[Cell]:
    """For each score and n: the published chain, the race, and the reference with ours."""
    y, found = data.get(study.data, N[-1]), []
    for name, method in _methods(study, scale).items():
        for n in _chosen(scale):
            target = study.target(method.score, method.weight, y[:n])
            programs = f"{y.shape[1]} dimensions, {name}, n = {n}"
            m = study.reference_simulations[name]
            kept, warmup = scale.steps(KEPT), scale.steps(WARMUP)
            work = {
                "published": partial(published_chain, target, method.dt(n), kept, warmup, ADAM),
                "race": partial(race, target, scale),
                "answers": partial(_answers, target, m, scale),
            }
            found += [
                Cell(f"{name}-{n}-{k}", do, LOADS[k] * study.relative_load[name], programs)
                for k, do in work.items()
            ]
    return found + _likelihood_cells(study, y, scale)


def _methods(study: Study, scale: Scale) -> Mapping[str, Method]:
    return dict(list(study.methods.items())[:1]) if scale.few else study.methods


def _chosen(scale: Scale) -> tuple[int, ...]:
    return (10,) if scale.few else N


def _likelihood_cells(study: Study, y: np.ndarray, scale: Scale) -> list[Cell]:
    bsl = study.likelihood
    if bsl is None:
        return []
    sampler = DriftingPseudoMarginal(bsl.proposal_scale, groups=bsl.groups)
    return [
        Cell(
            f"BSL-{n}",
            partial(
                walk, study.target(bsl.score, 1.0, y[:n]), sampler, num_samples=scale.steps(KEPT),
                num_warmup=scale.steps(WARMUP), seed=1,
            ),
            8.0,
            f"published 5 parameters, BSL, n = {n}",
        )
        for n in scale.some(bsl.n)
    ]  # fmt: skip


def _answers(target: ScorePosterior, m: int, scale: Scale) -> Result:
    """The reference, and ours with a step size that its narrowest direction allows."""
    exact = reference(target, m, ADAM, scale)
    step_size = CALM * float(exact["narrowest"])
    ours = our_chain(target, step_size, scale.steps(KEPT), ADAM, scale)
    both = {f"reference/{k}": v for k, v in exact.items()}
    both |= {f"ours/{k}": v for k, v in ours.items()}
    return both | {"simulations": np.asarray(exact["simulations"] + ours["simulations"])}


def _part(found: Result, which: str) -> Result:
    return {k.removeprefix(f"{which}/"): v for k, v in found.items() if k.startswith(f"{which}/")}


def findings(study: Study, results: Mapping[str, Result], scale: Scale, data: Data) -> Findings:
    """Step sizes beside the published ones, all three posteriors, and pictures of both."""
    del data
    names = study.task.prior.coordinate_names
    comparisons: list[Comparison] = []
    rows, pictures = [], []
    for name, method in _methods(study, scale).items():
        family, points = {}, {"published": [], "ours": []}
        for n in _chosen(scale):
            published, both = results[f"{name}-{n}-published"], results[f"{name}-{n}-answers"]
            three = {"published": published, "ours": _part(both, "ours")}
            three["reference"] = _part(both, "reference")
            comparisons.append(_step_size(name, method, n, results[f"{name}-{n}-race"]))
            rows += answer_rows((name, n), three)
            family[n] = published["draws"]
            for label, found in points.items():
                found.append(ratio_point(n, three[label], three["reference"]))
        caption = f"{name} score, published sampler: marginals, darker with more observations."
        pictures.append(Picture(shaded_family(family, names, study.truth), caption))
        caption = (
            f"{name} score: posterior sds beside those of the reference, the mean over parameters "
            "with the least and the largest."
        )
        pictures.append(Picture(ratios(points), caption))
    pictures += _likelihood_picture(study, results, scale)
    table = answer_table(rows, ("score", "n"), names)
    return Findings(comparisons, pictures, [table, _steps(study, results, scale)], [REMARK])


def _step_size(name: str, method: Method, n: int, found: Result) -> Comparison:
    note = NOTE_BY_HAND if n in method.by_hand else NOTE
    return compare_step_size(f"{name} score, n = {n}", method.dt(n), found, note)


def _steps(study: Study, results: Mapping[str, Result], scale: Scale) -> Table:
    """What step size each sampler used."""
    rows = []
    for name, method in _methods(study, scale).items():
        for n in _chosen(scale):
            raced = ", ".join(f"{dt:.1e}" for dt in results[f"{name}-{n}-race"]["dt"])
            used = float(results[f"{name}-{n}-published"]["dt"])
            ours = float(results[f"{name}-{n}-answers"]["ours/dt"])
            rows.append((name, n, method.dt(n), used, raced, ours))
    columns = ("score", "n", "published", "used, after halvings", "our races", "ours")
    return Table(columns, rows, "Step sizes dt, the squares of epsilon")


def _likelihood_picture(study: Study, results: Mapping[str, Result], scale: Scale) -> list[Picture]:
    if study.likelihood is None:
        return []
    family = {n: results[f"BSL-{n}"]["draws"] for n in scale.some(study.likelihood.n)}
    rates = ", ".join(f"{float(results[f'BSL-{n}']['acceptance'][0]):.3f}" for n in family)
    caption = (
        "Synthetic likelihood by the published correlated sampler, as far as the published chains "
        f"converged: n = {', '.join(map(str, family))}, acceptance {rates}."
    )
    names = study.task.prior.coordinate_names
    return [Picture(shaded_family(family, names, study.truth), caption)]


NOTE = "a race of a few hundred noisy draws, on a clock"
NOTE_BY_HAND = "called manually tuned; in the code a failed step halves dt"
REMARK = (
    "The figures of this study print no numbers; its table gives step sizes alone. The reference "
    "says how far the published sampler at those step sizes is from the posterior that it is meant "
    "to sample: a ratio below 1 is too narrow. At the smallest step sizes a chain of 110 000 steps "
    "hardly leaves its start, and its width says nothing."
)
