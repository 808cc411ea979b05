"""What `genbayes reproduce` does."""

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..paper import NUMBERS, reproduce
from ._dask import dask_client
from ._errors import BAD_END, DONE
from ._precision import set_precision


class Request(NamedTuple):
    """What was asked for."""

    scale: str
    out: Path
    observations: Path | None
    jobs: int | None
    dask: str | None
    precision: int
    numbers: Path | None


def reproduce_all(names: Sequence[str], request: Request, *, quiet: bool) -> int:
    """Compute, write pages, say where they are; the exit status."""
    set_precision(request.precision)
    chosen: str | Sequence[str] = "all" if "all" in names else names
    with _cluster(request.dask) as executor:
        done = reproduce(
            chosen, out=request.out, scale=request.scale, observations=request.observations,
            jobs=request.jobs or os.cpu_count() or 1, executor=executor, progress=not quiet,
        )  # fmt: skip
    if request.numbers is not None:
        shutil.copyfile(done.index.with_name(NUMBERS), request.numbers)
    if not quiet:
        print(done.table())
        print(f"The pages: {done.index.resolve().as_uri()}")
    return BAD_END if done.failures else DONE


@contextmanager
def _cluster(address: str | None) -> Iterator[Executor | None]:
    if address is None:
        yield None
        return
    with dask_client(address) as client:
        yield client.get_executor()
