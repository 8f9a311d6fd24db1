"""The command `armillary`."""

from __future__ import annotations

import sys

from . import output


def main() -> int:
    """Runs the command line and returns its exit code: 0 ok, 1 the run found a problem, 2 the input
    is wrong."""
    with output.guard():
        output.prepare()
        arguments = sys.argv[1:]
        if arguments[:1] == ["astra-sim"]:  # scripts call it thousands of times: no typer, no rich
            from .astra_sim import astra_sim

            return astra_sim(arguments[1:])
        from . import app

        return app.main(arguments)
