"""Where the command `armillary` starts, before its package is imported.

Importing takes a few tenths of a second, in which Ctrl-C would end in a traceback of whatever is
being read. It has to be met from outside of the package, because importing any part of a package
imports the package first."""

import os
import signal


def main() -> int:
    """Runs `armillary.cli.main`, which takes over from this handler, and returns its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    from armillary.cli import main as command

    return command()


def _stop(_number: int, _frame: object) -> None:
    """Nothing was begun, so that nothing needs to be cleaned up."""
    os.write(2, b"\ninterrupted; no file was written\n")
    os._exit(130)
