"""`armillary compare`: what moved between results, and why; or one workload on several networks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import backends
from ..errors import InputError, Problem
from . import completion, models, output
from .options import Groups, Json, Npus, Passes, ReportName, Settings

if TYPE_CHECKING:
    from ..explain.explanation import Explanation

Results = Annotated[
    list[str],
    typer.Argument(
        metavar="A B [C...]",
        help="Results of `armillary run --json`; the first one is compared with the others, which "
        "may be logs of training. With --backends one workload, as for run.",
    ),
]
Backends = Annotated[
    str | None,
    typer.Option(
        "--backends",
        metavar="LIST",
        help="Simulate one workload with each of these network models and compare the steps, such "
        "as analytical,link,flow,packet,external:COMMAND.",
    ),
]
Causes = Annotated[
    bool,
    typer.Option(
        "--causes/--no-causes",
        help="With --backends: simulate packet again without losses, windows and headers, to see "
        "how much time each explains.",
    ),
]
PlatformOfLadder = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        metavar="P",
        help="With --backends: preset or platform file.",
        autocompletion=completion.platforms,
    ),
]


def compare(
    results: Results,
    backends_: Backends = None,
    causes: Causes = True,
    platform: PlatformOfLadder = None,
    groups: Groups = None,
    json: Json = None,
    npus: Npus = None,
    passes: Passes = 1,
    report: ReportName = None,
    set_: Settings = None,
    *,
    options: models.Options,
) -> None:
    """Compare results: what changed between them, and why.

    Results after the first one may be logs of training. With --backends, simulate one workload on
    several network models instead: armillary compare llama-3-8b --tp 8 -p dgx-h100 --backends
    analytical,link,flow."""
    with output.guard():
        from .. import api
        from ..explain import ExplanationInterrupted

        output.claim({"--json": json, "--report": report}, *results, platform, groups)
        found: Explanation
        stop = None
        if backends_ is None:
            _only_with_backends(
                {
                    "--platform": platform,
                    "--groups": groups,
                    "--npus": npus,
                    "--set": set_,
                    "--no-causes": None if causes else False,
                },
                options,
            )
            found = api.compare(*results)
        else:
            on = (platform, npus, set_)
            try:
                found = _ladder(results, (backends_, causes), on, (groups, passes), options)
            except ExplanationInterrupted as stopped:
                found, stop = stopped.found, stopped.stop
        output.write_explanation(found, json, report, stop)


def _only_with_backends(given: dict[str, object], options: models.Options) -> None:
    """Refuses what means nothing for files of results."""
    names = [name for name, value in given.items() if value is not None]
    names += [f"--{name.replace('_', '-')}" for name in options]
    if names:
        allowed = "these options with --backends only"
        raise InputError([Problem("", name, "has no effect on results", allowed) for name in names])


def _ladder(
    named: list[str],
    asked: tuple[str, bool],
    target: tuple[str | None, int | None, list[str] | None],
    read: tuple[str | None, int],
    options: models.Options,
) -> Explanation:
    """One workload on several network models."""
    from .. import api

    listed, causes = asked
    platform, npus, set_ = target
    groups, passes = read
    problems = []
    if len(named) != 1:
        problems.append(
            Problem("", "--backends", f"{len(named)} workloads", "one workload, as for run")
        )
    if platform is None:
        problems.append(Problem("", "--platform", "is missing", "a preset or a platform file"))
    if platform is None or problems:
        raise InputError(problems)
    networks = backends.split(listed)
    source = partial(models.source, named[0], options, groups=groups, passes=passes)
    workload, on = models.on(platform, set_, npus, named[0], options, source)
    name = models.title(Path(named[0]).name, options)
    title = f"{name} on {on.name}, {len(networks)} network models"
    return api.ladder(workload, on, networks, title=title, causes=causes, progress=output.progress)
