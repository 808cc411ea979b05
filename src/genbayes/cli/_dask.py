"""Where the draws of a black box are made: on a Dask cluster, if the command is told of one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx

import genbayes as gb

from ..problem import AbstractBlackBox
from ._errors import CommandError, UsageError

CONNECT_SECONDS = 20


@contextmanager
def on_dask(target: gb.ScorePosterior, where: str | None) -> Iterator[gb.ScorePosterior]:
    """The target with its simulator on the cluster `tcp://...`, or on `local:N` processes."""
    if where is None:
        yield target
        return
    simulator = target.problem.simulator
    if not isinstance(simulator, AbstractBlackBox):
        raise UsageError(
            f"--dask is for black boxes, and {type(simulator).__name__} is compiled and runs here. "
            "Leave it out; to spread many runs, see  genbayes.map_runs"
        )
    with dask_client(where) as client:
        moved = simulator.on(client.get_executor())
        yield eqx.tree_at(lambda t: t.problem.simulator, target, moved)


@contextmanager
def dask_client(where: str) -> Iterator[Any]:
    """A client of the cluster `tcp://...`, or of `local:N` processes."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise CommandError("--dask needs Dask: pip install 'genbayes[dask]'") from None
    local = re.fullmatch(r"local:([1-9]\d*)", where)
    if local is not None:
        settings = {"threads_per_worker": 1, "dashboard_address": None}
        with (
            LocalCluster(n_workers=int(local[1]), **settings) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    if "://" not in where:
        raise UsageError(
            f"--dask is an address such as tcp://HOST:8786, or local:N; got {where!r}."
        )
    try:
        client = Client(where, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise CommandError(
            f"No Dask scheduler answers at {where} ({error}). Start one with  dask scheduler  and "
            f"workers with  dask worker {where}"
        ) from error
    with client:
        yield client
