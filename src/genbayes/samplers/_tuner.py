"""What may stand in place of a setting, to be replaced by a number before a run starts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from .._checks import check_positive
from .._types import Key, Unconstrained
from ..targets import ScorePosterior

if TYPE_CHECKING:
    from ._base import AbstractSampler


class Tuned(NamedTuple):
    """A setting that was found: its value, what to say of it, and plain data that back it.

    ```python
    >>> from genbayes.samplers import Tuned
    >>> Tuned(0.1, "Step size 0.1, as ever.", {"tuner": "Habit"}).value
    0.1

    ```
    """

    value: float
    remark: str
    evidence: Mapping[str, Any]
    simulator_calls: int = 0
    seconds: float = 0.0


@runtime_checkable
class Tuner(Protocol):
    """Anything that finds a number for one setting of a sampler."""

    def tune(
        self,
        key: Key,
        target: ScorePosterior,
        sampler: "AbstractSampler",
        setting: str,
        u: Unconstrained,
    ) -> Tuned:
        """A value for `sampler.<setting>`, for a chain that starts at `u`."""
        ...


def check_step_size(value: Any) -> None:
    """Refuse what is neither a positive number nor a tuner."""
    if not isinstance(value, Tuner):
        check_positive("step_size", value)


def settings_to_tune(sampler: "AbstractSampler") -> list[str]:
    """The names of the settings that a tuner stands for.

    ```python
    >>> import genbayes as gb
    >>> gb.samplers.settings_to_tune(gb.SGLD(step_size=gb.tuning.Bandit()))
    ['step_size']

    ```
    """
    return [name for name, value in vars(sampler).items() if isinstance(value, Tuner)]
