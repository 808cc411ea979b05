"""Workers of a process pool end with the process that they work for, however that ended."""

import multiprocessing
import os
import signal
import threading
from functools import cache
from multiprocessing.connection import wait


@cache
def end_with_parent() -> None:
    """Once in each worker process: watch the parent, and leave Ctrl-C to it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
