"""Plots: a posterior, or several over each other, as a Matplotlib figure."""

from .._figure import INK as INK
from ._failures import failures as failures
from ._findings import bandit as bandit
from ._findings import coverage as coverage
from ._findings import influence as influence
from ._findings import ksd as ksd
from ._findings import predictive_scores as predictive_scores
from ._forecasts import predictive as predictive
from ._marginals import marginals as marginals
from ._moves import acceptance as acceptance
from ._moves import thermostat as thermostat
from ._pairs import pairs as pairs
from ._ranks import ranks as ranks
from ._save import save as save
from ._series import Runs as Runs
from ._series import Series as Series
from ._series import as_mapping as as_mapping
from ._series import as_series as as_series
from ._series import true_values as true_values
from ._traces import traces as traces
