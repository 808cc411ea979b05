"""The `genbayes` command."""

from ._main import main as main
