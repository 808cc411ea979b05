"""Problems: prior, simulator, observations."""

from ._black_box import BlackBox as BlackBox
from ._prior import Prior as Prior
from ._problem import Problem as Problem
from ._simulator import AbstractSimulator as AbstractSimulator
from ._simulator import Simulator as Simulator
