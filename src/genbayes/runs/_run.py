"""The result of a run: draws, what the sampler met, how it ended, what it cost."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from .._table import Table
from ..problem import Failures
from ..samplers import AbstractSampler
from ..targets import ScorePosterior
from ._failures_table import failures_from_dataset, failures_to_dataset
from ._plan import Cost, Plan, Status
from ._population import by_group, from_groups, parts, per_generation
from ._summary import summarise

if TYPE_CHECKING:
    from ._loop import Walk

SCHEMA = 1
# what ArviZ calls a few of the infos
ARVIZ_NAMES = {"log_density": "lp", "accepted": "acceptance_rate"}


@dataclass(frozen=True, eq=False)
class Run:
    """What `sample` gives back.

    - `draws`: parameter name to array `(chain, draw, *shape)`.
    - `unconstrained`: the same draws as samplers see them, `(chain, draw, p)`.
    - `info`: what the sampler met at each draw, name to `(chain, draw)`.
    - `failures`: draws of a black box that failed, `gb.problem.Failures`.
    - `history`: of a population, all generations, as `generations` and `population` give them.
    - `status`: how the run ended and what was noticed; `cost`: what it took; `provenance`: what
      was run, with which versions, on which machine.
    """

    draws: Mapping[str, np.ndarray]
    unconstrained: np.ndarray
    info: Mapping[str, np.ndarray]
    status: Status
    cost: Cost
    provenance: dict[str, Any]
    plan: Plan
    observations: np.ndarray
    failures: Failures = field(default_factory=Failures, repr=False)
    target: ScorePosterior | None = None
    sampler: AbstractSampler | None = None
    path: Path | None = None
    history: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    walk: "Walk | None" = field(default=None, repr=False)  # where it stands, to go on from

    def __repr__(self) -> str:
        chains, draws = self.unconstrained.shape[:2]
        kind = self.provenance.get("sampler", "?").split("(")[0]
        names, outcome = ", ".join(self.draws), self.status.outcome.name
        return f"<Run: {kind}, {chains} x {draws:,} draws of {names}; {outcome}>"

    def summary(self) -> Table:
        """Mean, sd, interval, Monte Carlo error, effective sample size, R-hat; cost; warnings."""
        return summarise(self)

    @property
    def weights(self) -> np.ndarray | None:
        """Weights `(chain, draw)` that sum to one over all draws; `None` where all are equal.

        Whatever averages over draws must use them: a weighted sampler has `log_weight` in `info`.
        """
        if "log_weight" not in self.info:
            return None
        log_weight = np.asarray(self.info["log_weight"], float)
        weight = np.exp(log_weight - log_weight.max())
        return weight / weight.sum()

    @property
    def generations(self) -> dict[str, np.ndarray]:
        """Of a population, what was met in each generation, name to `(chain, generation)`.

        The tolerance, the effective sample size, the share of moves that were accepted, the cost.
        """
        return per_generation(self.history)

    @property
    def num_generations(self) -> int:
        """How many generations a population has had; 0 for chains."""
        return self.history["unconstrained"].shape[1] if self.history else 0

    def population(self, generation: int) -> "Run":
        """The run with the particles of another generation as its draws; that of the prior is 0."""
        if not self.history:
            raise ValueError("This run has no generations: its sampler has no population.")
        return replace(self, **parts(self.history, self.plan, generation))

    def need_target(self, target: ScorePosterior | None = None) -> ScorePosterior:
        """The target of this run: the one given, or the one that it was drawn from."""
        found = target if target is not None else self.target
        if found is None:
            raise ValueError(
                "A run that was read from disk does not hold its target, because functions are not "
                "stored: give the one it was drawn from, as target=..."
            )
        return found

    def to_xarray(self) -> xr.DataTree:
        """An `xarray.DataTree` in the ArviZ schema."""
        groups: dict[str, xr.Dataset] = {
            "/": xr.Dataset(attrs=_attributes(self)),
            "posterior": _dataset(self.draws),
            "unconstrained_posterior": _dataset({"u": self.unconstrained}),
            "sample_stats": _dataset({ARVIZ_NAMES.get(k, k): v for k, v in self.info.items()}),
            "observed_data": xr.Dataset(
                {"y": (_axes("y", self.observations.ndim, "observation"), self.observations)}
            ),
        }
        if self.failures.estimates:
            groups["failures"] = failures_to_dataset(self.failures)
        if self.history:
            groups["generations"] = _of_generations(self.generations)
            for group, arrays in by_group(self.history).items():
                groups[f"generations/{group}"] = _of_generations(arrays)
        return xr.DataTree.from_dict(groups)

    def to_arviz(self) -> Any:
        """An ArviZ object: `InferenceData` of ArviZ 0.23, or the `DataTree` of ArviZ 1."""
        try:
            import arviz
        except ImportError:
            raise ImportError(
                "to_arviz needs ArviZ: install it with  pip install 'genbayes[arviz]'"
            ) from None
        tree = self.to_xarray()
        if not hasattr(arviz, "InferenceData"):
            return tree
        groups = {name: node.to_dataset() for name, node in tree.children.items()}
        return arviz.InferenceData(attrs=tree.attrs, warn_on_custom_groups=False, **groups)

    def save(self, path: str | Path) -> Path:
        """Write one NetCDF file, which `genbayes.load` and ArviZ read."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.to_xarray().to_netcdf(path, engine="h5netcdf")
        return path


def _axes(name: str, ndim: int, first: str) -> tuple[str, ...]:
    return (first, *(f"{name}_dim_{j}" for j in range(ndim - 1)))


def _dataset(arrays: Mapping[str, np.ndarray]) -> xr.Dataset:
    variables = {
        name: (("chain", "draw", *(f"{name}_dim_{j}" for j in range(x.ndim - 2))), np.asarray(x))
        for name, x in arrays.items()
    }
    if not variables:
        return xr.Dataset()
    chains, draws = next(iter(arrays.values())).shape[:2]
    return xr.Dataset(variables, coords={"chain": np.arange(chains), "draw": np.arange(draws)})


def _of_generations(arrays: Mapping[str, np.ndarray]) -> xr.Dataset:
    first = ("chain", "generation", "particle")
    axes = {
        k: [*first[: x.ndim], *(f"{k}_dim_{j}" for j in range(x.ndim - 3))]
        for k, x in arrays.items()
    }
    return xr.Dataset({name: (axes[name], np.asarray(x)) for name, x in arrays.items()})


def _values(group: xr.DataTree) -> dict[str, np.ndarray]:
    return {str(name): np.asarray(x.values) for name, x in group.data_vars.items()}


def _attributes(run: Run) -> dict[str, Any]:
    plan = {k: v for k, v in vars(run.plan).items() if v is not None}
    return {
        "inference_library": "genbayes",
        "inference_library_version": run.provenance.get("versions", {}).get("genbayes", ""),
        "created_at": run.provenance.get("started", ""),
        "genbayes_schema": SCHEMA,
        "provenance": json.dumps(run.provenance),
        "plan": json.dumps(plan),
        "status": json.dumps(run.status.to_dict()),
        "cost": json.dumps(run.cost.to_dict()),
    }


def run_from_netcdf(path: Path) -> Run:
    """A run as `Run.save` wrote it."""
    try:
        return _read_netcdf(path)
    except (OSError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"{path} cannot be read as a run ({type(error).__name__}: {error}). Expected the "
            "folder of a run, or a file that Run.save wrote and that is whole."
        ) from error


def _read_netcdf(path: Path) -> Run:
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        attributes = dict(tree.attrs)
        if attributes.get("inference_library") != "genbayes":
            raise ValueError(f"{path} was not written by genbayes: use xarray.open_datatree(path).")
        kept = tree.children.get("generations")
        history = {} if kept is None else from_groups(
            _values(kept), {name: _values(group) for name, group in kept.children.items()}
        )  # fmt: skip
        arviz_back = {v: k for k, v in ARVIZ_NAMES.items()}
        groups = {
            name: _values(tree.children[name])
            for name in ("posterior", "unconstrained_posterior", "sample_stats", "observed_data")
        }
        failed = (
            failures_from_dataset(tree["failures"].to_dataset()) if "failures" in tree else None
        )
    return Run(
        draws=groups["posterior"],
        unconstrained=groups["unconstrained_posterior"]["u"],
        info={arviz_back.get(k, k): v for k, v in groups["sample_stats"].items()},
        status=Status.from_dict(json.loads(attributes["status"])),
        cost=Cost(**json.loads(attributes["cost"])),
        provenance=json.loads(attributes["provenance"]),
        plan=Plan(**json.loads(attributes["plan"])),
        observations=groups["observed_data"]["y"],
        failures=Failures() if failed is None else failed,
        path=path,
        history=history,
    )
