"""The command `armillary`."""

from __future__ import annotations

import sys

from .. import __version__
from . import output


def main() -> int:
    """Runs the command line and returns its exit code: 0 for success, 1 for a problem that the run
    found, 2 for wrong input."""
    with output.guard():
        arguments = sys.argv[1:]
        # A training finishes its step and writes a checkpoint.
        output.prepare(ends_soon=arguments[:1] != ["train"])
        # Scripts call these two thousands of times: no typer, no rich.
        if arguments[:1] == ["--version"]:
            sys.stdout.write(f"armillary {__version__}\n")
            return 0
        if arguments[:1] == ["astra-sim"]:
            from .astra_sim import astra_sim

            return astra_sim(arguments[1:])
        from . import app

        return app.main(arguments)
