"""`armillary run`: simulate a workload on a platform and show where the time goes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from . import completion, forms, models, output
from .options import (
    BackendName,
    Groups,
    Json,
    NoFold,
    NoWhatIf,
    Npus,
    Passes,
    Pcap,
    PlatformName,
    Ranks,
    ReportName,
    Settings,
    Skip,
    Timeline,
    WritePlan,
    rank_list,
)

if TYPE_CHECKING:
    from ..result import Result

WorkloadName = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        help="A workload of `armillary workload -o` or `import -o`; Chakra traces: a directory, "
        "prefix or prefix.%d.et; a text workload; or a model (preset, file, Hugging Face "
        "config.json) with its options, such as --tp 8.",
        autocompletion=completion.workloads,
    ),
]


def run(  # noqa: PLR0913 - typer reads its options here
    workload: WorkloadName,
    platform: PlatformName,
    backend: BackendName = None,
    groups: Groups = None,
    json: Json = None,
    no_fold: NoFold = False,
    no_what_if: NoWhatIf = False,
    npus: Npus = None,
    set_: Settings = None,
    passes: Passes = 1,
    report: ReportName = None,
    timeline: Timeline = None,
    ranks: Ranks = None,
    pcap: Pcap = None,
    skip: Skip = None,
    write_plan: WritePlan = None,
    *,
    options: models.Options,
) -> None:
    """Simulate a training step and show where its time goes.

    In one step: armillary run llama-3-70b --tp 8 --dp 64 -p dgx-h100-16n. The platform is resized
    to the model's ranks unless --npus says otherwise; armillary workload MODEL --help explains the
    options of a model."""
    from .. import api

    with output.guard("armillary check"):
        output.claim(
            {
                "--json": json,
                "--report": report,
                "--timeline": timeline,
                "--pcap": pcap,
                "--write-plan": write_plan,
            },
            workload,
            platform,
            groups,
        )
        if skip is not None:
            set_ = [*(set_ or []), f"network.packet.skip={skip}"]
        read = partial(models.source, workload, options, groups=groups, passes=passes)
        source, target = models.on(platform, set_, npus, workload, options, read)
        if write_plan is not None:
            chosen = models.chosen(workload, options)
            forms.write_plan(workload, chosen, write_plan)
        with output.progress("simulating") as update:
            result = api.simulate(
                source,
                target,
                backend=backend,
                fold=not no_fold,
                detail=json is not None or report is not None,
                timeline=timeline,
                ranks=rank_list(ranks, source.ranks),
                pcap=pcap,
                progress=update,
            )
        # Files first: a reader of standard output may leave.
        output.write_json(json, result.to_json())
        with output.progress("what would help", clock=False) as update:
            verdict = result.verdict(
                what_if=report is not None and not no_what_if, progress=update
            ).sentence
        if report is not None:
            output.write_page(report, result.html(what_if=not no_what_if))
        if timeline is not None and result.timeline is not None:
            output.log(_timeline_line(timeline, result.timeline))
        if pcap is not None:
            output.log(f"packets written to {pcap}; Wireshark opens it")
        if "-" not in (json, report, write_plan):
            _show(
                result,
                f"{models.title(workload, options)} on {target.name}, {backend or target.backend}",
                verdict,
            )


def _show(result: Result, title: str, verdict: str) -> None:
    from ..explain import step_interval
    from ..report import breakdown, outside, reading, roofline, summary

    asked = reading.asked(result.report)["workload"]
    bound = result.report["roofline"]
    lines = [*summary.rates(result.rates), roofline.line(bound) if bound else None]
    lines += [step_interval.sentence(result.report), verdict, summary.host(asked.get("summary"))]
    lines += outside.lines(result.report)
    breakdown.show(result.report, title, output.console(), [line for line in lines if line])


def _timeline_line(path: str, timeline: dict[str, int]) -> str:
    """A line about a timeline: what it shows, and how to open it."""
    shown, simulated = timeline["shown"], timeline["simulated"]
    part = (
        ""
        if shown == simulated
        else f", {shown} of {simulated:,} simulated ranks (--ranks picks others)"
    )
    return f"timeline written to {path}{part}; https://ui.perfetto.dev opens it"
