"""`armillary explain`: why a step, or an operation of it, takes its time, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
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
from .verb_options import takes

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


@dataclass(frozen=True, kw_only=True)
class _Main:
    """Results."""

    json: Json = None
    report: ReportName = None
    stragglers: Annotated[bool, typer.Option("--stragglers")] = False
    """Say what stragglers cost in recorded steps: RESULT is their trace (.parquet)."""
    no_what_if: NoWhatIf = False
    seconds: Annotated[float, typer.Option(metavar="S", min=0.0)] = 20.0
    """Approximate time limit for simulating helpful changes."""


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(_Main):
    """Machine and simulation of a workload."""

    platform: Annotated[
        str | None,
        typer.Option("--platform", "-p", metavar="P", autocompletion=completion.platforms),
    ] = None
    """Preset or platform file, for a workload."""
    npus: Npus = None
    set_: Settings = None
    groups: Groups = None
    passes: Passes = 1
    backend: BackendName = None


@takes(ExplainOptions)
def explain(
    what: What, node: Node = None, *, options: models.Options, each: ExplainOptions
) -> None:
    """Explain what takes the time of a step, and what would help.

    RESULT may be a model with its options, as for run: armillary explain llama-3-70b --tp 8 -p
    dgx-h100."""
    with output.guard("armillary check" if each.platform else ""):
        output.claim(
            {"--json": each.json, "--report": each.report}, what, each.platform, each.groups
        )
        if each.stragglers:
            _stragglers(what, node, each, options)
            return
        if each.platform is None:
            result, again = _read(what, each, options)
        else:
            read = partial(models.source, what, options, groups=each.groups, passes=each.passes)
            result, again = _run(
                *models.on(each.platform, each.set_, each.npus, what, options, read), each.backend
            )
        _explain(result, node, None if each.no_what_if else again, each)


def _stragglers(what: str, node: str | None, each: ExplainOptions, options: models.Options) -> None:
    """Says what stragglers cost in the steps of a trace."""
    import json

    from .. import __version__
    from ..explain.straggler_page import page
    from ..explain.stragglers import stragglers
    from ..report import words

    given = {
        "NODE": node is not None,
        "--platform": each.platform is not None,
        "--no-what-if": each.no_what_if,
        **_of_workloads(each, options),
    }
    wrong = [
        Problem("", name, "has no meaning with --stragglers", "without it")
        for name, value in given.items()
        if value
    ]
    if wrong:
        raise InputError(wrong)
    with output.progress("steps", clock=False):
        found = stragglers(what)
    document = found.as_dict()
    whole = {"schema": document.pop("schema"), "version": __version__, **document}
    output.write_json(each.json, json.dumps(whole, indent=2))
    if each.report is not None:
        output.write_page(each.report, page(found).html())
    if "-" not in (each.json, each.report):
        words.show(page(found), output.console())


def _explain(
    result: Report, node: str | None, again: Again | Unrepeatable | None, each: ExplainOptions
) -> None:
    """Explains a result, and writes what was found."""
    from ..explain import ExplanationInterrupted
    from ..explain import explain as explained

    stop = None
    try:
        with output.progress("what would help", clock=False) as update:
            found = explained(result, node, again=again, seconds=each.seconds, progress=update)
    except ExplanationInterrupted as stopped:
        found, stop = stopped.found, stopped.stop
    output.write_explanation(found, each.json, each.report, stop)


def _read(
    what: str, each: ExplainOptions, options: models.Options
) -> tuple[Report, Again | Unrepeatable]:
    """A result of a file, and what repeats its run."""
    from ..report import reading

    _no_run(each, options)
    _require_result(what)
    result = reading.read(what)
    if each.no_what_if:
        from ..repeat import Unrepeatable

        return result, Unrepeatable("--no-what-if")
    from .. import api

    return result, api.rerun(result)


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


def _no_run(each: ExplainOptions, options: models.Options) -> None:
    """Refuses options that would change the run of a result."""
    wrong = [
        Problem("", name, "is for a workload, not for a result", "-p P as well")
        for name, value in _of_workloads(each, options).items()
        if value
    ]
    if wrong:
        raise InputError(wrong)


def _of_workloads(each: ExplainOptions, options: models.Options) -> dict[str, object]:
    """Values of the options that only workloads have."""
    return {
        "--set": each.set_,
        "--npus": each.npus,
        "--groups": each.groups,
        "--passes": each.passes != 1,
        "--backend": each.backend,
        **{flag(name): True for name in options},
    }
