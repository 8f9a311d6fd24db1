"""`armillary check`: everything wrong with the input, without simulating."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from .. import __version__, backends, first_bytes
from ..errors import InputError, Problem, flag
from ..units import counted
from . import completion, models, output
from .options import BackendName, Groups, Json, Npus, Passes, Settings, settings

if TYPE_CHECKING:
    from ..explain import Explanation
    from ..platform import Platform
    from ..workload import Workload

SCHEMA = "armillary.check/1"
CONFORMANCE = "armillary.conformance/1"

Input = TypeVar("Input")

WorkloadName = Annotated[
    str | None,
    typer.Argument(
        metavar="WORKLOAD",
        help="Traces, a text workload or a recording; leave it out to check a platform alone.",
    ),
]

PlatformToCheck = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        metavar="P",
        help="Preset (see `armillary platform list`) or platform file. With --backend "
        "external:COMMAND alone it may be left out: three small networks are used. A recording "
        "may be checked without one.",
        autocompletion=completion.platforms,
    ),
]


def check(
    workload: WorkloadName = None,
    platform: PlatformToCheck = None,
    backend: BackendName = None,
    groups: Groups = None,
    json: Json = None,
    npus: Npus = None,
    set_: Settings = None,
    passes: Passes = 1,
    *,
    options: models.Options,
) -> None:
    """List all problems of the input, without simulating.

    Of a snapshot of PyTorch's memory, dumps of NCCL's inspector, a strategy or measured operators
    of FlexFlow, or requests for serve, print what it holds. WORKLOAD may be a model with its
    options, as for run. Without one, --backend external:COMMAND runs the conformance suite of
    network backends on that simulator."""
    from .. import api
    from ..explain import contents
    from ..platform import Platform
    from ..workload import is_model
    from ..workload.fit import near, too_large

    with output.guard():
        output.claim({"--json": json}, workload, platform, groups)
        if workload is None and backends.is_external(backend):
            _conformance(str(backend), platform, settings(set_, npus), json)
            return
        held = None if workload is None else contents(workload) or _requests(workload, platform)
        if held is not None:
            on = {"--platform": platform, "--set": set_, "--npus": npus, "--backend": backend}
            _refuse({**on, **_of_source(options, groups, passes)}, "the file alone")
            _show(held, json)
            return
        alone: dict[str, object] = {"--set": set_, "--npus": npus, "--backend": backend}
        _look(workload, platform, alone)
        problems, warnings = list[Problem](), list[str]()
        if passes != 1 and workload is None:
            problems.append(
                Problem("", f"--passes {passes}", "there is no workload", "a text workload as well")
            )
        target = (
            _attempt(lambda: Platform.load(platform, settings(set_, npus)), problems)
            if platform
            else None
        )
        notes = list[str]()
        source = (
            _attempt(
                lambda: _workload(workload, options, platform, target, groups, passes, notes),
                problems,
            )
            if workload
            else None
        )
        if platform and target and source and workload and is_model(workload):
            made, given = source, settings(set_, npus)
            target = (
                target
                if "npus" in given
                else _attempt(lambda: api.sized(platform, made, given), problems)
            )
        if target and source:
            found, warnings = api.findings(source, target, backend=backend)
            problems += found + too_large(source.summary, target)
            warnings += near(source.summary, target)
        elif target:
            found, unknown = target.findings()
            problems += found
            warnings = [*target.warnings, *unknown]
        warnings = [*notes, *warnings]
        if target and target._core.kernel_table() is not None:
            from ..kernels import measured_kernels

            _attempt(lambda: measured_kernels(target), problems)
        for warning in warnings:
            output.log(f"warning: {warning}")
        head = {
            "schema": SCHEMA,
            "version": __version__,
            "workload": workload,
            "platform": platform,
        }
        output.write_json(
            json,
            json_text.dumps(
                {
                    **head,
                    "warnings": warnings,
                    "problems": [asdict(problem) for problem in problems],
                },
                indent=2,
            ),
        )
        output.show_problems(problems, limit=None)
        if problems:
            raise typer.Exit(output.WRONG)
        if json != "-":
            typer.echo("no problem found")


def _look(workload: str | None, platform: str | None, alone: dict[str, object]) -> None:
    """Refuses texts of other programs that are not workloads, with the command for them, and what
    needs a platform that is not given."""
    if workload and (known := first_bytes.known_text(first_bytes.of(workload))):
        raise InputError([Problem(workload, "", f"is {known[0]}", known[1])])
    if platform is None and not (workload and models.kind_of_recording(workload)):
        why = f", and {workload} is not the file of a recording" if workload else ""
        allowed = "a preset or a platform file; a recording is checked without one, too"
        raise InputError([Problem("", "--platform", f"is missing{why}", allowed)])
    if platform is None:
        _refuse(alone, "these options with --platform only")


def _show(held: Explanation, json: str | None) -> None:
    """Prints the content of a file, and writes it as JSON."""
    if json != "-":
        from ..report import words

        words.show(held.page, output.console())
    output.write_json(json, json_text.dumps({**held.data, "version": __version__}, indent=2))


def _requests(path: str, platform: str | None) -> Explanation | None:
    """The content of a file of requests; `None` for another file, or with a platform."""
    from .. import documents
    from ..serve.traces import is_load, read_load

    if platform is not None or not documents.is_file(path) or not is_load(path):
        return None
    from ..explain import Explanation
    from ..report.requests import described

    # Times are not needed here, and some files have none.
    try:
        load = read_load(path)
    except InputError:
        load = read_load(path, concurrency=1)
    return Explanation(*described(load, path))


def _refuse(given: dict[str, object], allowed: str) -> None:
    """Refuses options that mean nothing for a recording."""
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise InputError(
            [Problem("", name, "has no effect on a recording", allowed) for name in names]
        )


def _of_source(options: models.Options, groups: str | None, passes: int) -> dict[str, object]:
    """Options that say how a workload is made, by their flags."""
    given: dict[str, object] = {flag(option): value for option, value in options.items()}
    return given | {"--groups": groups, "--passes": None if passes == 1 else passes}


def _workload(
    name: str,
    options: models.Options,
    platform: str | None,
    target: Platform | None,
    groups: str | None,
    passes: int,
    notes: list[str],
) -> Workload:
    """The workload of that name; a recording, the only one without a platform, is imported, and its
    notes are added."""
    if platform is not None:
        try:
            return models.source(name, options, target, groups, passes)
        except models.RecordedError:
            pass
    from ..workload.importer import import_traces

    allowed = "the recording without them; armillary import has options of its own"
    _refuse(_of_source(options, groups, passes), allowed)
    imported = import_traces([name])
    notes += imported.notes
    return imported.workload


def _conformance(
    backend: str, platform: str | None, given: dict[str, str], json: str | None
) -> None:
    """Runs the conformance suite on a simulator, prints what it found, and exits with 1 where a
    rule was broken."""
    from .. import api
    from ..platform import Platform

    networks = (
        [Platform.load(platform, given)]
        if platform
        else [
            Platform(name, bandwidth="12.5 GB/s", latency="500 ns", settings=given)
            for name in api.CONFORMANCE_NETWORKS
        ]
    )
    rows: list[dict[str, object]] = []
    for network in networks:
        with output.progress(f"conformance suite, {network.name}", clock=True):
            found = api.check_backend(network, backend)
        for each in found:
            rows.append({"network": network.name, **asdict(each)})
            if json != "-":
                verdict = f"VIOLATION: {each.violation}" if each.violation else "ok"
                count = counted(each.messages, "message")
                typer.echo(f"{network.name:<18} {each.traffic:<30} {count:<12} {verdict}")
    head = {"schema": CONFORMANCE, "version": __version__, "backend": backend, "findings": rows}
    output.write_json(json, json_text.dumps(head, indent=2))
    wrong = sum(row["violation"] is not None for row in rows)
    if json != "-":
        typer.echo(f"{len(rows) - wrong} of {len(rows)} kinds of traffic broke no rule")
    if wrong:
        raise typer.Exit(1)


def _attempt(read: Callable[[], Input], problems: list[Problem]) -> Input | None:
    """The value; for a bad file nothing, with its problems added, so that all files are
    reported."""
    try:
        return read()
    except InputError as error:
        problems += error.problems
        return None
