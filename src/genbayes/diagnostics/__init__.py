"""Diagnostics: whether the answer is right, from runs and their targets."""

from ._bounds import generalisation_bound as generalisation_bound
from ._bounds import robustness_bound as robustness_bound
from ._chance import share_interval as share_interval
from ._coverage import coverage as coverage
from ._discrepancy import stein_discrepancy as stein_discrepancy
from ._gradients import fresh_gradients as fresh_gradients
from ._influence import posterior_influence as posterior_influence
from ._ksd import ksd as ksd
from ._ksd import ksd_path as ksd_path
from ._misfit import misfit as misfit
from ._noise import noise as noise
from ._observations import observation_influence as observation_influence
from ._pit import pit as pit
from ._pit import predictive_coverage as predictive_coverage
from ._predictive import predictive as predictive
from ._prior_mass import prior_mass as prior_mass
from ._sandwich import corrected as corrected
from ._sandwich import sandwich as sandwich
from ._sbc import sbc as sbc
from ._scores import over_data_sets as over_data_sets
from ._scores import predictive_scores as predictive_scores
from ._scores import student_interval as student_interval
