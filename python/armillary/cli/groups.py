"""The verbs by what they are for, and the help that lists them so."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

GROUPS = {
    "Simulate": ("run", "collective", "traffic", "network", "sweep"),
    "Understand results": ("explain", "compare", "report"),
    "Design": ("design",),
    "Train": ("ingest", "plan", "train", "checkpoint"),
    "Prepare input": ("workload", "import", "convert", "platform", "bench", "calibrate", "check"),
    "Validate": ("study", "astra-sim"),
}
"""Every verb once."""
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)
_NAME, _LINE = 12, 64


class GroupedVerbs(TyperGroup):
    """A command whose help lists its verbs by group, each on one line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Writes the groups into the help."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:<{_NAME}}", self.commands[name].get_short_help_str(_LINE))
                        for name in names
                    ]
                )
