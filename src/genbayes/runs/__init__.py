"""Runs: the loop, and what it saw."""

from ._export import export as export
from ._map import map_runs as map_runs
from ._peek import Peek as Peek
from ._peek import find_runs as find_runs
from ._peek import latest_draws as latest_draws
from ._peek import peek as peek
from ._plan import Cost as Cost
from ._plan import Outcome as Outcome
from ._plan import Plan as Plan
from ._plan import Status as Status
from ._run import Run as Run
from ._sample import resume as resume
from ._sample import sample as sample
from ._start import start_at as start_at
from ._store import RunStore as RunStore
from ._stored import load as load
from ._summary import labelled as labelled
