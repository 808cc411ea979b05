"""What the command exits with, and errors that choose it."""

DONE = 0
ERROR = 1
USAGE = 2
BAD_END = 3  # the run is kept, but refused too many steps; or `check` found what stops a run
INTERRUPTED = 130  # what shells expect of a command that Ctrl-C ended


class CommandError(Exception):
    """An error of the command's own, with what was expected, what came, and what to do."""

    status = ERROR


class UsageError(CommandError):
    """The command was not used as it is meant to be."""

    status = USAGE
