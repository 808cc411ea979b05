"""Named problems with known truth."""

from . import g_and_k as g_and_k
from ._normal_location import normal_location as normal_location
from ._task import Task as Task
