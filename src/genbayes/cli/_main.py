"""Where the command begins and where its errors end: one paragraph, or a traceback if asked."""

import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Sequence

from . import _commands_bench, _commands_draw, _commands_new, _commands_read, _commands_reproduce
from ._app import app
from ._errors import DONE, ERROR, INTERRUPTED, CommandError

DEBUG = "--debug"
# imported so that `app` knows them
COMMANDS = (_commands_bench, _commands_draw, _commands_new, _commands_read, _commands_reproduce)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; errors become one paragraph on standard error and exit status 1.

    **Arguments:** `arguments`, those of the process where absent. `--debug` may stand anywhere.

    ```python
    >>> from genbayes.cli import main
    >>> try:
    ...     main(["--version"])
    ... except SystemExit as end:
    ...     end.code
    genbayes 0.1.0
    0

    ```
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in arguments
    try:
        app([word for word in arguments if word != DEBUG], prog_name="genbayes")
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has seen enough, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DONE)
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            print(_paragraph(error), file=sys.stderr)
        sys.exit(error.status if isinstance(error, CommandError) else ERROR)


def _paragraph(error: Exception) -> str:
    text = " ".join(_said(error).split()) or type(error).__name__
    return textwrap.fill(
        f"Error: {text} (--debug shows where.)",
        width=max(40, min(100, shutil.get_terminal_size((100, 24)).columns)),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _said(error: Exception) -> str:
    """The message; of an error in a function that compiled code called, its own last line."""
    text = str(error)
    if "error calling callback" not in text:
        return text
    lines = [line for line in text.split("\n-----")[0].splitlines() if line.strip()]
    return f"The simulator failed: {lines[-1]}"
