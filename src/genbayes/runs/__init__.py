"""Runs: the loop, and what it saw."""

from ._plan import Cost as Cost
from ._plan import Outcome as Outcome
from ._plan import Plan as Plan
from ._plan import Status as Status
from ._run import Run as Run
from ._sample import resume as resume
from ._sample import sample as sample
from ._start import start_at as start_at
from ._stored import load as load
