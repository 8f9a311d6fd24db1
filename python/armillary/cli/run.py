"""`armillary run`: simulate a workload on a platform and show where the time goes."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import api, files
from ..platform import Platform
from ..workload import load
from . import output
from .options import Backend, BackendName, Groups, Json, NoFold, Npus, Passes, PlatformName, Seed, Settings, settings

WorkloadName = Annotated[
    str,
    typer.Argument(metavar="WORKLOAD", help="Chakra traces: a directory, prefix, or prefix.%d.et; or a text workload."),
]
ReportName = Annotated[
    str | None, typer.Option("--report", metavar="FILE", help="Write the report as one HTML page here.")
]


def run(
    workload: WorkloadName,
    platform: PlatformName,
    backend: BackendName = Backend.analytical,
    groups: Groups = None,
    json: Json = None,
    no_fold: NoFold = False,
    npus: Npus = None,
    set_: Settings = None,
    seed: Seed = 0,
    passes: Passes = 1,
    report: ReportName = None,
) -> None:
    """Simulate a workload: where the step time goes."""
    with output.guard():
        output.require_writable(json)
        if report is not None:
            files.require_writable(report)
        detail = json is not None or report is not None
        target = Platform.load(platform, settings(set_, npus))
        source = load(workload, target, groups, passes)
        with output.progress("simulating") as update:
            result = api.simulate(
                source, target, backend=backend, fold=not no_fold, seed=seed, detail=detail, progress=update
            )
        if json != "-":
            from ..report import breakdown, summary

            peak: int | None = target.describe()["npu"]["peak_flops"]
            facts = summary.rates(source.summary, result.report["step_time_ns"], peak) if source.summary else ()
            breakdown.show(result.report, f"{workload} on {target.name}, {backend}", output.console(), facts)
        output.write_json(json, result.to_json())
        if report is not None:
            result.html(report)
            output.log(f"report written to {report}")
