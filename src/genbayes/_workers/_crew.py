"""An executor that may lose workers, or be lost itself."""

import os
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from typing import Any

LOOK_SECONDS = 1.0  # between looks at whether the executor is still there
RECONNECT_SECONDS = 30.0  # for a scheduler to come back
COUNT_SECONDS = 10.0  # for which a number of workers is believed


class Lost(RuntimeError):
    """The executor is gone, and with it every worker."""


class WorkerLost(Exception):
    """A worker is gone, the executor is not: what it did can be done again."""


class Crew:
    """An executor as a whole: a broken pool is replaced, a scheduler that is gone is noticed."""

    def __init__(self, executor: Any):
        check_executor(executor)
        self._executor = executor
        self._workers, self._counted = 1, -COUNT_SECONDS

    def submit(self, fn: Callable[..., Any], *args: Any) -> Future[Any]:
        """As the executor does; where it is broken, to another one like it."""
        try:
            return self._executor.submit(fn, *args)
        except BrokenExecutor:
            self._mend()
            return self._executor.submit(fn, *args)
        except Exception as error:
            self.look(error)
            raise

    def result(self, future: Future[Any]) -> Any:
        """Wait for a result; `WorkerLost` where its worker is gone, `Lost` where all are."""
        while True:
            try:
                return future.result(timeout=LOOK_SECONDS)
            except TimeoutError as error:
                own = future.done() and not future.cancelled() and future.exception() is error
                if own:
                    raise
                self.look(None)
            except (BrokenExecutor, CancelledError) as error:
                self.look(error)
                raise WorkerLost from error
            except Exception as error:
                if type(error).__module__.partition(".")[0] != "distributed":
                    raise
                self.look(error)
                raise WorkerLost from error

    def _mend(self) -> None:
        """A pool that lost one process takes no more work: another one like it does."""
        broken = self._executor
        if not isinstance(broken, ProcessPoolExecutor):
            raise Lost(
                f"The executor {type(broken).__name__} is broken and cannot be made anew here."
            )
        settings = {
            name: getattr(broken, f"_{name}")
            for name in ("max_workers", "mp_context", "initializer", "initargs")
        }
        self._executor = ProcessPoolExecutor(**settings)

    def look(self, cause: BaseException | None) -> None:
        """Refuse to wait for a Dask scheduler that is gone; one that comes back is soon found."""
        client = getattr(self._executor, "_client", None)
        if client is None:
            return
        until = time.monotonic() + RECONNECT_SECONDS
        while client.status == "connecting" and time.monotonic() < until:
            time.sleep(0.1)
        if client.status != "running":
            address = getattr(getattr(client, "scheduler", None), "address", "")
            raise Lost(
                f"The Dask scheduler {address} is lost: no answer for {RECONNECT_SECONDS:g} s. A "
                "stored run is safe up to its last commit: start a cluster and resume it there."
            ) from cause

    def count(self) -> int:
        """How many tasks are worked on at once."""
        if time.monotonic() - self._counted > COUNT_SECONDS:
            try:
                self._workers = max(1, count_workers(self._executor))
            except Exception as error:
                self.look(error)
                raise
            self._counted = time.monotonic()
        return self._workers


def count_workers(executor: Executor) -> int:
    """How many tasks an executor works on at once."""
    client = getattr(executor, "_client", None)
    if client is not None:
        return sum(client.nthreads().values())
    for name in ("_max_workers", "num_workers"):  # pools of Python, of MPI
        if isinstance(getattr(executor, name, None), int):
            return getattr(executor, name)
    return os.cpu_count() or 1


def check_executor(executor: Any) -> None:
    """Refuse what cannot be submitted to, and pools that fork."""
    if executor is None:
        return
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            "executor must be a concurrent.futures.Executor, such as ProcessPoolExecutor(...) or "
            f"dask.distributed.Client(...).get_executor(), got {type(executor).__name__}."
        )
    context = getattr(executor, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise ValueError(
            "This ProcessPoolExecutor forks, and a forked process may hang on a lock that JAX "
            "held at that moment. Give it mp_context=multiprocessing.get_context('spawn')."
        )
