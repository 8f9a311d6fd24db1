"""Verbs by what they are for, options by their headings, and the help that lists them so."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

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


class HelpWithHeadings(TyperCommand):
    """A command whose help lists its options below their headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Writes arguments, and then the headings in the order of their first options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(_heading(param), []).append(record)
        for title in sorted(sections, key=lambda each: (each != "Arguments", each == "Options")):
            with formatter.section(title):
                formatter.write_dl(sections[title])


def _heading(param: Any) -> str:  # noqa: ANN401
    if param.param_type_name == "argument":
        return "Arguments"
    return getattr(param, "rich_help_panel", None) or "Options"
