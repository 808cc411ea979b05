"""Reports: a run as one page that needs nothing else."""

from ._report import report as report
from ._verdict import Level as Level
from ._verdict import Verdict as Verdict
from ._verdict import verdict as verdict
