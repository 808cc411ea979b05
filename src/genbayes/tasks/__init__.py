"""Named problems with known truth."""

from . import g_and_k as g_and_k
from . import lorenz96 as lorenz96
from ._moving_average import moving_average as moving_average
from ._normal_location import normal_location as normal_location
from ._queue import queue as queue
from ._reactions import lotka_volterra as lotka_volterra
from ._reactions import sir as sir
from ._task import Task as Task
from ._volatility import stochastic_volatility as stochastic_volatility
