"""Problems: prior, simulator, observations."""

from ._black_box import AbstractBlackBox as AbstractBlackBox
from ._black_box import BlackBox as BlackBox
from ._check import Finding as Finding
from ._check import ProblemCheck as ProblemCheck
from ._check import Result as Result
from ._check import check as check
from ._check import remarks_on_noise as remarks_on_noise
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
