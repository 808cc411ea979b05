"""Runs on disk: begun, read, gone on with."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import samplers
from .._tree import from_arrays
from ..samplers import AbstractSampler
from ..targets import ScorePosterior
from ._plan import Cost, Outcome, Plan, Status, Tallies
from ._provenance import describe_target
from ._run import Run, run_from_netcdf
from ._store import RunStore

# what must agree between a stored run and the target it is resumed with
FIXED = (
    "prior", "simulator_hash", "observations_hash", "score", "weight", "num_simulations",
    "batch_size",
)  # fmt: skip


def create(
    path: Path,
    provenance: dict[str, Any],
    plan: Plan,
    sampler: AbstractSampler,
    target: ScorePosterior,
) -> RunStore:
    """A store for a run about to begin."""
    manifest = {
        "provenance": provenance,
        "plan": dict(vars(plan)),
        "sampler": _settings(sampler),
        "observations": np.asarray(target.problem.observations).tolist(),
        "status": Status(Outcome.RUNNING).to_dict(),
    }
    return RunStore.create(path, manifest)


def _settings(sampler: AbstractSampler) -> dict[str, Any]:
    """The sampler as plain data: its class and its settings."""
    settings = {
        k: v if isinstance(v, (int, float, str, bool, type(None))) else np.asarray(v).tolist()
        for k, v in vars(sampler).items()
    }
    return {"class": type(sampler).__name__, "settings": settings}


def _sampler(stored: dict[str, Any]) -> AbstractSampler:
    kind = getattr(samplers, stored["class"], None)
    if not (isinstance(kind, type) and issubclass(kind, AbstractSampler)):
        raise ValueError(
            f"The run was drawn by {stored['class']}, which is not one of the library's samplers: "
            "give it as resume(path, target, sampler)."
        )
    return kind(**stored["settings"])


def load(path: str | Path, *, salvage: bool = False) -> Run:
    """Read a stored run: a folder that `sample(..., store=)` wrote, or a file of `Run.save`.

    Nothing in it is executed. A folder may belong to a run that is still going on; its arrays are
    read from disk when they are looked at. `salvage` reads what is intact of a damaged folder.

    ```python
    >>> import genbayes as gb, tempfile, pathlib
    >>> problem = gb.tasks.normal_location().problem(seed=0, num_observations=20)
    >>> target = gb.ScorePosterior(problem, gb.EnergyScore(), num_simulations=100)
    >>> run = gb.sample(target, gb.PseudoMarginal(0.5), num_samples=100, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = gb.load(run.save(pathlib.Path(folder) / "run.nc"))
    >>> bool((again.draws["mean"] == run.draws["mean"]).all())
    True

    ```
    """
    path = Path(path)
    if path.is_file():
        return run_from_netcdf(path)
    with RunStore.open(path, **({"salvage": True} if salvage else {})) as store:
        manifest, progress = store.manifest, store.progress
        arrays = dict(store.arrays())
    plan = Plan(**manifest["plan"] | {"chain_method": "vectorized"})
    return _run(path, manifest, progress, arrays, plan)


def _run(
    path: Path,
    manifest: dict[str, Any],
    progress: dict[str, Any],
    arrays: dict[str, Any],
    plan: Plan,
) -> Run:
    u = arrays.get("unconstrained")
    return Run(
        draws={k.removeprefix("draws/"): v for k, v in arrays.items() if k.startswith("draws/")},
        unconstrained=np.zeros((plan.num_chains, 0, 0)) if u is None else u,
        info={k.removeprefix("info/"): v for k, v in arrays.items() if k.startswith("info/")},
        status=Status.from_dict(manifest["status"]),
        cost=Cost(**progress.get("cost", {})),
        provenance=manifest["provenance"],
        plan=plan,
        observations=np.asarray(manifest["observations"]),
        path=path,
    )


def resume_stored(
    path: Path,
    target: ScorePosterior | None,
    sampler: AbstractSampler | None,
    num_samples: int | None,
    stops: dict[str, Any],
    allow_changes: bool,
    progress: bool,
) -> Run:
    """Go on with a stored run, from its last commit."""
    from ._loop import Walk
    from ._sample import check_pair, extended, go
    from ._sink import Sink

    store = RunStore.open(path, write=True)
    try:
        manifest = store.manifest
        if target is None:
            raise ValueError(
                f"The simulator of a stored run is not stored: give the target that {path} was "
                "begun with, as resume(path, target)."
            )
        if sampler is None:
            sampler = _sampler(manifest["sampler"])
        check_pair(target, sampler)
        if not allow_changes:
            _check_same(manifest["provenance"]["target"], target)
        plan = extended(Plan(**manifest["plan"]), num_samples, stops)
        store.update_manifest(plan=dict(vars(plan)))
        walk = Walk(target, sampler, plan, _seed(manifest["provenance"]["seed"]))
        walk.begin("prior")
        at = store.progress
        if walk.adapting and not at["adapting"]:
            walk.finish_warmup()
        walk.walker, walk.state = from_arrays((walk.walker, walk.state), store.state())
        walk.step, walk.cost = at["step"], Cost(**at["cost"])
        walk.tallies = Tallies(dict(at["tallies"]))
        kept = {name: np.asarray(x) for name, x in store.arrays().items()}
        sink = Sink(store, [kept] if kept else None)
    except BaseException:
        store.close()
        raise
    return go(walk, sink, target, sampler, manifest["provenance"], progress, [])


def _seed(stored: Any) -> Any:
    if isinstance(stored, int):
        return stored
    return jax.random.wrap_key_data(jnp.asarray(stored, jnp.uint32))


def _check_same(stored: dict[str, Any], target: ScorePosterior) -> None:
    now = json.loads(json.dumps(describe_target(target)))
    changed = [name for name in FIXED if stored.get(name) != now.get(name)]
    if changed:
        details = "; ".join(f"{n}: {stored.get(n)} then, {now.get(n)} now" for n in changed)
        raise ValueError(
            f"The target is not the one that the run was begun with ({details}). Go on with the "
            "same one, begin a new run, or say allow_changes=True if the change is harmless."
        )
