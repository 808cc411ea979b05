"""Problems: prior, simulator, observations."""

from ._black_box import AbstractBlackBox as AbstractBlackBox
from ._black_box import BlackBox as BlackBox
from ._command import Command as Command
from ._failures import Failure as Failure
from ._failures import Failures as Failures
from ._failures import SimulatorError as SimulatorError
from ._failures import recording as recording
from ._prior import Prior as Prior
from ._problem import Problem as Problem
from ._simulator import AbstractSimulator as AbstractSimulator
from ._simulator import Simulator as Simulator
from ._torch import TorchSimulator as TorchSimulator
