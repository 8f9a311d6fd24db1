"""`armillary explain`: why a step, or an operation of it, takes its time, and what would help."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, Problem, flag
from . import completion, models, output
from .options import (
    BackendName,
    Groups,
    Json,
    NoWhatIf,
    Npus,
    Passes,
    ReportName,
    Settings,
)

if TYPE_CHECKING:
    from ..platform import Platform
    from ..repeat import Again, Unrepeatable
    from ..schema import Report
    from ..workload import Workload

What = Annotated[
    str,
    typer.Argument(
        metavar="RESULT",
        help="A result of `armillary run --json`; or a workload with -p, which is run first.",
    ),
]
Node = Annotated[
    str | None,
    typer.Argument(
        metavar="NODE",
        help=(
            "An operation: id, rank:id, name, kind, or a pattern of names (default: the whole "
            "step)."
        ),
    ),
]
PlatformName = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        metavar="P",
        help="Preset or platform file, for a workload.",
        autocompletion=completion.platforms,
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        "--seconds",
        metavar="S",
        min=0.0,
        help="Approximate time limit for simulating helpful changes.",
    ),
]


def explain(  # noqa: PLR0913 - typer reads its options here
    what: What,
    node: Node = None,
    platform: PlatformName = None,
    backend: BackendName = None,
    groups: Groups = None,
    json: Json = None,
    no_what_if: NoWhatIf = False,
    npus: Npus = None,
    passes: Passes = 1,
    report: ReportName = None,
    seconds: Seconds = 20.0,
    set_: Settings = None,
    *,
    options: models.Options,
) -> None:
    """Explain what takes the time of a step, and what would help.

    RESULT may be a model with its options, as for run: armillary explain llama-3-70b --tp 8 -p
    dgx-h100."""
    from .. import api
    from ..explain import ExplanationInterrupted
    from ..explain import explain as explained
    from ..repeat import Unrepeatable
    from ..report import reading

    with output.guard("armillary check" if platform else ""):
        output.claim({"--json": json, "--report": report}, what, platform, groups)
        if platform is None:
            _no_run(set_, npus, groups, options)
            _require_result(what)
            result = reading.read(what)
            again: Again | Unrepeatable
            again = Unrepeatable("--no-what-if") if no_what_if else api.rerun(result)
        else:
            read = partial(models.source, what, options, groups=groups, passes=passes)
            result, again = _run(*models.on(platform, set_, npus, what, options, read), backend)
        stop = None
        try:
            with output.progress("what would help", clock=False) as update:
                wanted = None if no_what_if else again
                found = explained(result, node, again=wanted, seconds=seconds, progress=update)
        except ExplanationInterrupted as stopped:
            found, stop = stopped.found, stopped.stop
        output.write_explanation(found, json, report, stop)


def _run(source: Workload, target: Platform, backend: str | None) -> tuple[Report, Again]:
    """The report of a run, and what repeats it."""
    from .. import api

    with output.progress("simulating") as update:
        result = api.simulate(source, target, backend=backend, detail=True, progress=update)
    return result.report, result.again


def _require_result(what: str) -> None:
    """Refuses a workload or model without the platform that it is to run on."""
    from ..workload import is_model

    if Path(what).is_dir() or is_model(what):
        raise InputError(
            [Problem(what, "", "is a workload, not a result", "-p P as well, to run it first")]
        )


def _no_run(
    set_: list[str] | None, npus: int | None, groups: str | None, options: models.Options
) -> None:
    """Refuses options that would change the platform of a result."""
    given = {
        "--set": set_,
        "--npus": npus,
        "--groups": groups,
        **{flag(name): True for name in options},
    }
    wrong = [
        Problem("", name, "is for a workload, not for a result", "-p P as well")
        for name, value in given.items()
        if value
    ]
    if wrong:
        raise InputError(wrong)
