"""`armillary goodput`: what of the time of a job trains and is kept, while its nodes fail."""

from __future__ import annotations

import json as json_text
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__
from ..errors import InputError, Problem
from . import output
from .options import Json, ReportName
from .verb_options import takes

if TYPE_CHECKING:
    from ..goodput import Job

_Time = typer.Option(metavar="TIME")


@dataclass(frozen=True, kw_only=True)
class _Main:
    """Nodes and checkpoints."""

    nodes: Annotated[int, typer.Option(metavar="N")]
    """Nodes that the job needs. [required]"""
    mtbf: Annotated[str, _Time]
    """Mean time between failures of one node, such as 238d. [required]"""
    checkpoint: Annotated[str, _Time] = "60s"
    """Time for which a checkpoint stops the training."""
    interval: Annotated[str | None, _Time] = None
    """Training between two checkpoints. Default: the best one is found."""
    restart: Annotated[str, _Time] = "5min"
    """From when a failure is noticed until training goes on: processes, loading."""
    spares: Annotated[int, typer.Option(metavar="N")] = 0
    """Nodes that take the place of failed ones at once."""
    repair: Annotated[str, _Time] = "0s"
    """Mean time of a repair. The job waits for one where no spare is left; with 0s it never
    waits."""
    days: Annotated[float, typer.Option(metavar="D")] = 30.0
    """Time that is looked at."""
    json: Json = None
    report: ReportName = None


@dataclass(frozen=True, kw_only=True)
class GoodputOptions(_Main):
    """Failures and runs."""

    law: Annotated[str, typer.Option(metavar="LAW")] = "exponential"
    """Law of the time between failures of the cluster: exponential, weibull:SHAPE, or
    gamma:VARIATION (standard deviation over mean)."""
    gaps: Annotated[str | None, typer.Option(metavar="FILE")] = None
    """Recorded times between failures of a cluster, one a line, instead of a law. Their mean is
    that of --mtbf and --nodes."""
    observed: Annotated[int, typer.Option(metavar="N")] = 0
    """Failures from which --mtbf was counted: how uncertain it is. Default: it is exact."""
    detect: Annotated[str, _Time] = "60s"
    """From a failure until it is noticed."""
    write: Annotated[str, _Time] = "0s"
    """After a checkpoint, time until it can be loaded: it is written while training goes on."""
    step: Annotated[str | None, _Time] = None
    """Time of a training step, as armillary run states it, for the effective one."""
    runs: Annotated[int, typer.Option(metavar="N")] = 1000
    """Number of simulated runs."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Seed of failures and repairs."""


@takes(GoodputOptions)
def goodput(each: GoodputOptions) -> None:
    """Find the goodput of a job whose nodes fail."""
    with output.guard():
        from ..goodput import goodput as found_of
        from ..report import goodput as shown
        from ..report import words

        output.claim({"--json": each.json, "--report": each.report}, each.gaps)
        job = _job(each)
        with output.progress("simulating", clock=False) as update:
            found = found_of(job, runs=each.runs, seed=each.seed, progress=update)
        document = found.as_dict()
        whole = {"schema": document.pop("schema"), "version": __version__, **document}
        output.write_json(each.json, json_text.dumps(whole, indent=2))
        page = shown.page(found)
        if each.report is not None:
            output.write_page(each.report, page.html())
        if "-" not in (each.json, each.report):
            words.show(page, output.console())


def _job(each: GoodputOptions) -> Job:
    """The job that the options state. Raises `InputError`."""
    from ..goodput import Job
    from ..goodput.words import gaps, law, seconds

    name, shape = law(each.law)
    if each.gaps is not None and each.law != "exponential":
        said = "is given with --law"
        raise InputError([Problem("", "--gaps", said, "one of the two")])
    return Job(
        nodes=each.nodes,
        mtbf_s=seconds(each.mtbf, "--mtbf"),
        law="recorded" if each.gaps is not None else name,
        shape=shape,
        gaps=gaps(each.gaps) if each.gaps is not None else (),
        observed=each.observed,
        step_s=0.0 if each.step is None else seconds(each.step, "--step"),
        checkpoint_s=seconds(each.checkpoint, "--checkpoint"),
        write_s=seconds(each.write, "--write"),
        interval_s=None if each.interval is None else seconds(each.interval, "--interval"),
        detect_s=seconds(each.detect, "--detect"),
        restart_s=seconds(each.restart, "--restart"),
        spares=each.spares,
        repair_s=seconds(each.repair, "--repair"),
        days=each.days,
    )
