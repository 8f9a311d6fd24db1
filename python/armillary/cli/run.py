"""`armillary run`: simulate a workload on a platform and show where the time goes."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import api
from ..platform import Platform
from ..workload import load
from . import output
from .options import (
    Backend,
    BackendName,
    Groups,
    Json,
    NoFold,
    NoWhatIf,
    Npus,
    Passes,
    PlatformName,
    Ranks,
    ReportName,
    Seed,
    Settings,
    Timeline,
    rank_list,
    settings,
)

WorkloadName = Annotated[
    str,
    typer.Argument(metavar="WORKLOAD", help="Chakra traces: a directory, prefix, or prefix.%d.et; or a text workload."),
]


def run(
    workload: WorkloadName,
    platform: PlatformName,
    backend: BackendName = Backend.analytical,
    groups: Groups = None,
    json: Json = None,
    no_fold: NoFold = False,
    no_what_if: NoWhatIf = False,
    npus: Npus = None,
    set_: Settings = None,
    seed: Seed = 0,
    passes: Passes = 1,
    report: ReportName = None,
    timeline: Timeline = None,
    ranks: Ranks = None,
) -> None:
    """Simulate a workload: where the step time goes."""
    with output.guard():
        output.claim({"--json": json, "--report": report, "--timeline": timeline}, workload, platform, groups)
        detail = json is not None or report is not None
        target = Platform.load(platform, settings(set_, npus))
        source = load(workload, target, groups, passes)
        picked = rank_list(ranks, source.ranks)
        with output.progress("simulating") as update:
            result = api.simulate(
                source,
                target,
                backend=backend,
                fold=not no_fold,
                seed=seed,
                detail=detail,
                timeline=timeline,
                ranks=picked,
                progress=update,
            )
        with output.progress("what would help", clock=False) as update:
            verdict = result.verdict(what_if=report is not None and not no_what_if, progress=update).sentence
        if json != "-":
            from ..report import breakdown, summary

            peak: int | None = target.describe()["npu"]["peak_flops"]
            facts = summary.rates(source.summary, result.report["step_time_ns"], peak) if source.summary else ()
            title = f"{workload} on {target.name}, {backend}"
            breakdown.show(result.report, title, output.console(), [verdict, *facts])
        output.write_json(json, result.to_json())
        if report is not None:
            result.html(report, what_if=not no_what_if)
            output.log(f"report written to {report}")
        if timeline is not None and result.timeline is not None:
            output.log(_told(timeline, result.timeline))


def _told(path: str, timeline: dict[str, int]) -> str:
    """What a timeline shows, and where to look at it."""
    shown, simulated = timeline["shown"], timeline["simulated"]
    part = "" if shown == simulated else f", {shown} of {simulated:,} simulated ranks (--ranks picks others)"
    return f"timeline written to {path}{part}; https://ui.perfetto.dev opens it"
