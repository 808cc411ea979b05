"""Plots: a run, or several runs over each other, as a Matplotlib figure."""

from .._figure import INK as INK
from ._marginals import marginals as marginals
from ._series import Runs as Runs
from ._series import as_mapping as as_mapping
from ._traces import traces as traces
