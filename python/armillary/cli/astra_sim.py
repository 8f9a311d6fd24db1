"""`armillary astra-sim`: ASTRA-sim's own flags, files and output lines.

All of it is native, printing too: a million ranks make a million lines.
"""

from __future__ import annotations

from .. import _core
from . import output


def astra_sim(arguments: list[str]) -> int:
    """Runs with ASTRA-sim's flags and returns the exit code."""
    with output.guard():
        code, path, report = _core.astra_sim(arguments)
        if report is not None:
            output.write_json(path, report)
    return code
