"""Runs on disk: begun, read, gone on with."""

import json
import os
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import samplers
from .._tree import from_arrays
from ..problem import Failures
from ..samplers import AbstractSampler, settings_to_tune
from ..targets import ScorePosterior
from ._fingerprint import fingerprint
from ._lazy import StoredArray
from ._lock import now
from ._plan import Cost, Outcome, Plan, Status, Tallies, extended
from ._population import parts
from ._provenance import describe_target
from ._run import Run, run_from_netcdf
from ._store import RunStore
from ._store_errors import CorruptedError, StoreError
from ._store_failures import read_failures
from ._store_json import MANIFEST

# what must agree between a stored run and the target it is resumed with
FIXED = {
    "prior_hash": "prior",
    "simulator_hash": "simulator",
    "observations_hash": "observations",
    "score_hash": "score",
    "weight": "weight",
    "num_simulations": "num_simulations",
    "batch_size": "batch_size",
}
NOT_STORED = "hash of what is not stored"
EAGER_BYTES = 1 << 27  # runs above this stay on the disk until their arrays are computed with


def create(
    path: Path,
    provenance: dict[str, Any],
    plan: Plan,
    sampler: AbstractSampler,
    target: ScorePosterior,
    remarks: list[str],
) -> RunStore:
    """A store for a run about to begin."""
    manifest = {
        "provenance": provenance,
        "plan": dict(vars(plan)),
        "sampler": _settings(sampler),
        "observations": np.asarray(target.problem.observations).tolist(),
        "remarks": remarks,
        "status": Status(Outcome.RUNNING).to_dict(),
        "sessions": [],
    }
    store = RunStore.create(path, manifest)
    store.log(f"begun: {provenance['sampler']}, {vars(plan)}")
    return store


def begin_session(store: RunStore) -> None:
    """Note in the manifest that this process works on the run from here on."""
    session = {
        "began": now(), "ended": None, "outcome": Outcome.RUNNING.name, "command": list(sys.argv),
        "host": socket.gethostname(), "pid": os.getpid(), "genbayes": version("genbayes"),
    }  # fmt: skip
    store.update_manifest(
        sessions=[*store.manifest.get("sessions", []), session],
        status=Status(Outcome.RUNNING).to_dict(),
    )
    store.log(f"draws from step {store.progress.get('step', 0)} on, process {os.getpid()}")


def end_session(store: RunStore, status: Status, cost: Cost) -> None:
    """Note how it ended, when, and what the run has cost so far."""
    *before, last = store.manifest["sessions"]
    last |= {"ended": now(), "outcome": status.outcome.name}
    store.update_manifest(status=status.to_dict(), cost=cost.to_dict(), sessions=[*before, last])
    store.log(str(status))


def _settings(sampler: AbstractSampler) -> dict[str, Any]:
    """The sampler as plain data: its class and its settings."""
    settings = {k: _plain(v) for k, v in vars(sampler).items()}
    return {"class": type(sampler).__name__, "settings": settings}


def _plain(value: Any) -> Any:
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    if callable(value) or isinstance(value, eqx.Module):
        return {NOT_STORED: fingerprint(value)}  # no functions: nothing stored is ever executed
    return np.asarray(value).tolist()


def _sampler(stored: dict[str, Any]) -> AbstractSampler:
    kind = getattr(samplers, stored["class"], None)
    if not (isinstance(kind, type) and issubclass(kind, AbstractSampler)):
        raise ValueError(
            f"The run was drawn by {stored['class']}, which is not one of the library's samplers: "
            "give it as resume(path, target, sampler)."
        )
    lost = [k for k, v in stored["settings"].items() if isinstance(v, dict) and NOT_STORED in v]
    if lost:
        raise ValueError(
            f"The run was drawn by {stored['class']} with functions that are not stored "
            f"({', '.join(lost)}): give it as resume(path, target, sampler)."
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
    with RunStore.open(path, salvage=salvage) as store:
        manifest, progress, arrays = store.manifest, store.progress, _arrays(store)
    try:
        failures = Failures() if salvage else read_failures(path, progress)
        return _run(path, manifest, progress, arrays, failures)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptedError(
            path / MANIFEST,
            f"does not describe a run of genbayes ({type(error).__name__}: {error})",
            "Expected what sample(..., store=) writes. If the manifest was lost, restore it from a "
            "copy; the draws alone can be read with Zarr, from arrays.zarr in that folder.",
        ) from error


def _arrays(store: RunStore) -> dict[str, Any]:
    """The arrays of a run: in memory if it is small, and what is damaged read only when used."""
    stored = {name: StoredArray(x) for name, x in store.arrays().items()}
    if sum(x.size * x.dtype.itemsize for x in stored.values()) > EAGER_BYTES:
        return stored
    return {name: _if_intact(x) for name, x in stored.items()}


def _if_intact(array: StoredArray) -> Any:
    try:
        return np.array(array)
    except StoreError:
        return array


def _run(
    path: Path,
    manifest: dict[str, Any],
    progress: dict[str, Any],
    arrays: dict[str, Any],
    failures: Failures,
) -> Run:
    plan = Plan(**manifest["plan"] | {"chain_method": "vectorized"})
    return Run(
        **parts({"unconstrained": np.zeros((plan.num_chains, 0, 0))} | arrays, plan),
        status=Status.from_dict(manifest["status"]),
        cost=Cost(**progress.get("cost", {})),
        provenance=manifest["provenance"],
        plan=plan,
        observations=np.asarray(manifest["observations"]),
        failures=failures,
        path=path,
    )


def resume_stored(
    path: Path,
    target: ScorePosterior,
    sampler: AbstractSampler | None,
    numbers: tuple[int | None, int | None],
    stops: dict[str, Any],
    allow_changes: bool,
    progress: bool,
) -> Run:
    """Go on with a stored run, from its last commit."""
    from ._loop import Walk
    from ._refusals import check_pair
    from ._sample import go
    from ._sink import Sink

    store = RunStore.open(path, write=True)
    try:
        manifest = store.manifest
        about = manifest["provenance"]
        if sampler is None or settings_to_tune(sampler):  # what was tuned once stays
            sampler = _sampler(manifest["sampler"])
        check_pair(target, sampler)
        _check_precision(about.get("precision"))
        if not allow_changes:
            _check_same(about["target"], target)
        plan = extended(Plan(**manifest["plan"]), *numbers, stops)
        walk = Walk(target, sampler, plan, _seed(about["seed"]))
        _restore(walk, store, about)
        _check_whole(store, walk)
        kept = {name: np.asarray(x) for name, x in store.arrays().items()}
        store.update_manifest(plan=dict(vars(plan)))
        sink = Sink(store, [kept] if kept else None)
    except BaseException:
        store.close()
        raise
    return go(walk, sink, target, sampler, about, progress, manifest.get("remarks", []))


def _restore(walk: Any, store: RunStore, about: dict[str, Any]) -> None:
    """Put a walk where the last commit left it."""
    at, arrays = store.progress, store.state()
    if not arrays:  # killed before its first commit
        walk.begin(_start(about.get("start")))
        return
    # a state of the right shape, from where the chains stand: all that is in it is replaced
    stands = [x for name, x in arrays.items() if name.startswith("[1]") and name.endswith(".u")]
    walk.begin_at(jnp.asarray(stands[0]))
    if walk.adapting and not at["adapting"]:
        walk.finish_warmup()
    walk.walker, walk.state = from_arrays((walk.walker, walk.state), arrays)
    walk.step, walk.cost = at["step"], Cost(**at["cost"])
    walk.tallies = Tallies(dict(at["tallies"]))
    walk.failures = read_failures(store.path, at)


def _start(described: Any) -> Any:
    if described in ("prior", "zero") or isinstance(described, dict):
        return described
    raise ValueError(
        f"The run was stopped before its first commit, and its start ({described}) is not stored: "
        "delete the folder and begin it again."
    )


def _check_whole(store: RunStore, walk: Any) -> None:
    """Refuse to go on where draws and state do not belong together."""
    expected = max(0, walk.step - walk.plan.num_warmup) // walk.plan.thinning
    if store.num_draws != expected:
        raise CorruptedError(
            store.path,
            f"holds {store.num_draws} draws, and its state stands after {expected}",
            "Expected both to agree; read the draws that there are, and begin a new run to go on.",
        )


def _check_precision(stored: int | None) -> None:
    now = 8 * jnp.zeros(()).dtype.itemsize
    if stored not in (None, now):
        raise ValueError(
            f"The run was begun in {stored}-bit precision, and JAX is set to {now} bits. Set it "
            f'with jax.config.update("jax_enable_x64", {stored == 64}) and resume again.'
        )


def _seed(stored: Any) -> Any:
    if isinstance(stored, int):
        return stored
    return jax.random.wrap_key_data(jnp.asarray(stored, jnp.uint32))


def _check_same(stored: dict[str, Any], target: ScorePosterior) -> None:
    now = json.loads(json.dumps(describe_target(target)))
    changed = {name: what for name, what in FIXED.items() if stored.get(name) != now.get(name)}
    if changed:
        details = "; ".join(
            f"{what}: {stored.get(name)} then, {now.get(name)} now"
            for name, what in changed.items()
        )
        raise ValueError(
            f"The target is not the one that the run was begun with ({details}). Simulators are "
            "compared by a hash of their source and all that they call. Go on with the same one, "
            "begin a new run, or say allow_changes=True if the change is harmless."
        )
