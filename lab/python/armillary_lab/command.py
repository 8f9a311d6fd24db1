"""Exit codes of commands, also where they are stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence


def run(main: Callable[[Sequence[str]], int]) -> int:
    """Exit code of a command: also 130 after Ctrl-C, and 141 once its output is closed."""
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        # The rest of the buffer has nowhere to go when Python flushes it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code
