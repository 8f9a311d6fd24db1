"""`armillary run`: simulate a workload on a platform and show where the time goes."""

from __future__ import annotations

from dataclasses import dataclass
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
from .verb_options import takes

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


@dataclass(frozen=True, kw_only=True)
class _Main:
    """Machine and workload."""

    platform: PlatformName
    npus: Npus = None
    set_: Settings = None
    groups: Groups = None
    passes: Passes = 1


@dataclass(frozen=True, kw_only=True)
class _Simulation(_Main):
    """Simulation."""

    backend: BackendName = None
    skip: Skip = None
    no_fold: NoFold = False


@dataclass(frozen=True, kw_only=True)
class RunOptions(_Simulation):
    """Results."""

    json: Json = None
    report: ReportName = None
    no_what_if: NoWhatIf = False
    timeline: Timeline = None
    ranks: Ranks = None
    pcap: Pcap = None
    write_plan: WritePlan = None

    @property
    def settings(self) -> list[str] | None:
        """The settings of the platform; `--skip` is one of them."""
        if self.skip is None:
            return self.set_
        return [*(self.set_ or []), f"network.packet.skip={self.skip}"]


@takes(RunOptions)
def run(workload: WorkloadName, options: models.Options, each: RunOptions) -> None:
    """Simulate a training step and show where its time goes.

    In one step: armillary run llama-3-70b --tp 8 --dp 64 -p dgx-h100-16n. The platform is resized
    to the model's ranks unless --npus says otherwise; armillary workload MODEL --help explains the
    options of a model."""
    with output.guard("armillary check"):
        output.claim(
            {
                "--json": each.json,
                "--report": each.report,
                "--timeline": each.timeline,
                "--pcap": each.pcap,
                "--write-plan": each.write_plan,
            },
            workload,
            each.platform,
            each.groups,
        )
        read = partial(models.source, workload, options, groups=each.groups, passes=each.passes)
        source, target = models.on(each.platform, each.settings, each.npus, workload, options, read)
        if each.write_plan is not None:
            chosen = models.chosen(workload, options)
            forms.write_plan(workload, chosen, each.write_plan)
        from .. import api

        with output.progress("simulating") as update:
            result = api.simulate(
                source,
                target,
                backend=each.backend,
                fold=not each.no_fold,
                detail=each.json is not None or each.report is not None,
                timeline=each.timeline,
                ranks=rank_list(each.ranks, source.ranks),
                pcap=each.pcap,
                progress=update,
            )
        # Files first: a reader of standard output may leave.
        output.write_json(each.json, result.to_json())
        with output.progress("what would help", clock=False) as update:
            verdict = result.verdict(
                what_if=each.report is not None and not each.no_what_if, progress=update
            ).sentence
        if each.report is not None:
            output.write_page(each.report, result.html(what_if=not each.no_what_if))
        if each.timeline is not None and result.timeline is not None:
            output.log(_timeline_line(each.timeline, result.timeline))
        if each.pcap is not None:
            output.log(f"packets written to {each.pcap}; Wireshark opens it")
        if "-" not in (each.json, each.report, each.write_plan):
            title = f"{models.title(workload, options)} on {target.name}"
            _show(result, f"{title}, {each.backend or target.backend}", verdict)


def _show(result: Result, title: str, verdict: str) -> None:
    from ..explain import step_interval
    from ..report import breakdown, reading, summary

    asked = reading.asked(result.report)["workload"]
    bound = result.report["roofline"]
    lines: list[str | None] = [*summary.rates(result.rates)]
    if bound:
        from ..report import roofline

        lines.append(roofline.line(bound))
    lines += [step_interval.sentence(result.report), verdict, summary.host(asked.get("summary"))]
    if result.report["outside"]:
        from ..report import outside

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
