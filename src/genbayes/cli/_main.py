"""Where the command begins and where its errors end: one paragraph, or a traceback if asked."""

import sys
import textwrap
import traceback
from collections.abc import Sequence

from ._app import app

DEBUG = "--debug"
INTERRUPTED = 130  # what shells expect of a command that Ctrl-C ended


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
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            print(_paragraph(error), file=sys.stderr)
        sys.exit(1)


def _paragraph(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return textwrap.fill(
        f"Error: {text} (--debug shows where.)",
        width=100,
        break_long_words=False,
        break_on_hyphens=False,
    )
