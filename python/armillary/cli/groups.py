"""Verbs by what they are for, options by their headings, and the help that lists them so."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

GROUPS = {
    "Simulate": {
        "run": "Simulate a training step and show where its time goes.",
        "collective": "Time a collective over a range of sizes, as nccl-tests does.",
        "kernel": "Time one kernel by itself: product, attention, experts.",
        "serve": "Serve requests on a deployment: latency, throughput, cost.",
        "traffic": "Find latency by load, and saturation, with synthetic traffic.",
        "network": "Let another program drive a network, by records over a pipe.",
        "goodput": "Find the goodput of a job whose nodes fail.",
        "sweep": "Simulate many points of a study: grid, list, random or Optuna.",
    },
    "Understand results": {
        "explain": "Explain what takes the time of a step, and what would help.",
        "compare": "Compare results: what changed between them, and why.",
        "report": "Make the HTML page of a result or a sweep.",
    },
    "Design": {
        "design": "Find the best platform for workloads and a budget.",
    },
    "Train": {
        "ingest": "Turn click logs into files of columns to train on.",
        "plan": "Find the best layout of a decoder or of embedding tables.",
        "train": "Train a recommendation model for real, and score it.",
        "checkpoint": "Show, check, export or import checkpoints of training.",
    },
    "Prepare input": {
        "workload": "Make a workload from a model and its parallelism.",
        "import": "Make a workload from recorded runs and modules of XLA.",
        "convert": "Write a workload, or a model, in another format.",
        "platform": "List, show or import platforms, and price accesses to memory.",
        "bench": "Measure this machine: kernels, memory and collectives.",
        "calibrate": "Fit a platform to measured collectives and kernels.",
        "migrate": "Replace old words in files by those of today.",
        "check": "List all problems of the input, without simulating.",
    },
    "Validate": {
        "study": "List the studies, or repeat one and compare it with its paper.",
        "astra-sim": "Run with ASTRA-sim's own flags and files.",
    },
}
"""Every verb once, with the first sentence of its help, so that the list loads no verb."""
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)
_NAME, _LINE = 12, 64


class GroupedVerbs(TyperGroup):
    """A command whose help lists its verbs by group, each on one line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Writes the groups into the help."""
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:<{_NAME}}", self.commands[name].get_short_help_str(_LINE))
                        for name in verbs
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
