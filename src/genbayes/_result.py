"""What a diagnostic or a tuner gives back: a finding that prints as a table and can be drawn."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ._table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AbstractResult(ABC):
    """A small typed result; subclasses are frozen dataclasses of numbers and arrays.

    `plot` imports Matplotlib when it is called, so that nothing heavy is loaded before.
    """

    @abstractmethod
    def table(self) -> Table:
        """The result as a table, with what it means in the notes."""

    @abstractmethod
    def plot(self) -> "Figure":
        """The result as a picture."""

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
