"""Reports: a run as one page that needs nothing else."""

from ._report import report as report
