"""`armillary import`: recorded runs and compiled modules as a workload, and how much it covers.

Not here: tables of measured kernels as a platform (`import_kernels.py`)."""

from __future__ import annotations

import json as json_text
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, documents
from ..errors import InputError, Problem
from ..units import PS_PER_MS, counted
from . import completion, forms, output
from .options import Json

if TYPE_CHECKING:
    from ..explain import Listing
    from ..report.page import Page, Table
    from ..workload.importer import Coverage, Imported
    from ..workload.xla import ModuleCoverage

SCHEMA = "armillary.import/1"
_SHOWN = 16
"""Ranks in the table; --json has all."""


class AllToAll(StrEnum):
    """Choices for all-to-alls over all ranks where the copy has more ranks."""

    refuse = "refuse"
    keep = "keep"
    repeat = "repeat"


class Format(StrEnum):
    """How the workload is written."""

    compact = "compact"
    chakra = "chakra"


Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...|TABLE...",
        help="Execution and Kineto traces of one run, dumps of its flight recorders, SQLite "
        "exports of Nsight Systems, or profiles of XLA: files, directories, archives. Or a task "
        "graph, a strategy or measured operators of FlexFlow, or a module of XLA (HLO). Or tables "
        "of measured kernels: .csv, .csv.gz.",
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR|FILE",
        help="Write the workload into this directory; or the platform with the measured kernels, "
        "or the table of a strategy (.csv, .json), to this file.",
    ),
]
PlatformToMeasure = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        metavar="NAME|FILE",
        help="With tables: the platform whose GPU was measured, a preset or a file.",
        autocompletion=completion.platforms,
    ),
]
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="NAME",
        help="With tables: take the rows of this GPU (default: the platform's).",
    ),
]
StepNumber = Annotated[
    int | None,
    typer.Option(
        "--step",
        metavar="N",
        help="ProfilerStep, or NVTX range such as step 3, to import (default: a steady one that "
        "every rank has).",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option("--ranks", metavar="N", min=1, help="Extend the recorded ranks to this number."),
]
Across = Annotated[
    AllToAll,
    typer.Option(
        "--all-to-all",
        help=(
            "With --ranks, for all-to-alls: keep a rank's bytes, repeat in each copy of the run, "
            "or refuse."
        ),
    ),
]
Members = Annotated[
    str | None,
    typer.Option(
        "--groups", metavar="FILE", help='Members of process groups, {"name": [0, 1], ...}.'
    ),
]
Skew = Annotated[
    bool,
    typer.Option("--skew", help="Start ranks at their recorded offsets, not together."),
]
Entry = Annotated[
    str | None,
    typer.Option(
        "--entry",
        metavar="NAME",
        help="With a module of XLA: the computation to take, such as the body of a loop (default: "
        "the module's entry).",
    ),
]
TripCounts = Annotated[
    list[str] | None,
    typer.Option(
        "--trip-count",
        metavar="NAME=N",
        help="With a module of XLA: how often a loop runs that does not say so itself; repeatable.",
    ),
]
Fuse = Annotated[
    bool,
    typer.Option(
        "--fuse", help="With a module of XLA: fuse kernels and combine collectives as a GPU would."
    ),
]
Combine = Annotated[
    float | None,
    typer.Option(
        "--combine-mb",
        metavar="MB",
        help="With --fuse: the size up to which collectives are combined (default: 31.5).",
    ),
]
As = Annotated[
    Format,
    typer.Option("--format", help="compact: one file for each program; chakra: one for each rank."),
]


def import_(  # noqa: PLR0913 - options of a verb
    traces: Traces,
    out: Out,
    step: StepNumber = None,
    ranks: Ranks = None,
    all_to_all: Across = AllToAll.refuse,
    groups: Members = None,
    skew: Skew = False,
    entry: Entry = None,
    trip_count: TripCounts = None,
    fuse: Fuse = False,
    combine_mb: Combine = None,
    format_: As = Format.compact,
    platform: PlatformToMeasure = None,
    gpu: Gpu = None,
    json: Json = None,
) -> None:
    """Make a workload from recorded runs and modules of XLA.

    Or make a platform from tables of measured kernels (.csv, .csv.gz), with -p; or a table from a
    strategy or measured operators of FlexFlow, with -o TABLE.csv."""
    with output.guard():
        of_traces = {
            "--step": step is not None,
            "--ranks": ranks is not None,
            "--all-to-all": all_to_all is not AllToAll.refuse,
            "--groups": groups is not None,
            "--skew": skew,
            "--entry": entry is not None,
            "--trip-count": bool(trip_count),
            "--fuse": fuse,
            "--combine-mb": combine_mb is not None,
            "--format": format_ is not Format.compact,
        }
        of_tables = {"--platform": platform is not None, "--gpu": gpu is not None}
        if _are_tables(traces, [key for key, given in of_traces.items() if given], of_tables):
            from .import_kernels import import_kernels

            import_kernels(traces, platform, gpu, out, json)
            return
        if (listing := _listing(traces)) is not None:
            given = [key for key, is_given in of_traces.items() if is_given]
            _write_listing(listing, traces, given, out, json)
            return
        output.claim({"--json": json}, *traces, folders={"--output": out})
        forms.check(format_.value, None, out)
        from ..workload.importer import import_traces

        with output.progress("importing", clock=False) as update:
            imported = import_traces(
                traces,
                step=step,
                ranks=ranks,
                all_to_all=all_to_all.value,
                skew=skew,
                groups=_groups(groups),
                entry=entry,
                trip_counts=_trip_counts(trip_count or []),
                fuse=fuse,
                combine_mb=combine_mb,
                progress=(lambda share, _word: update(share, 0.0)) if update else None,
            )
        forms.write(imported.workload, out, format_.value, None)
        if json != "-":
            _show(imported, out)
        head = {"schema": SCHEMA, "version": __version__, "output": out}
        output.write_json(json, json_text.dumps({**head, **imported.as_dict()}, indent=2))


def _are_tables(paths: list[str], of_traces: list[str], of_tables: dict[str, bool]) -> bool:
    """Whether the files are tables of measured kernels. Raises `InputError` for tables next to
    traces, and for options of the others."""
    from ..kernels.imported import is_table

    tables = [path for path in paths if is_table(path)]
    if tables and len(tables) < len(paths):
        said = "a table next to traces"
        raise InputError([Problem(tables[0], "", said, "tables alone, or traces alone")])
    wrong = of_traces if tables else [key for key, given in of_tables.items() if given]
    if wrong:
        said = f"has no effect on {'tables of kernels' if tables else 'traces'}"
        allowed = "without it" if tables else "without it; tables of kernels are .csv or .csv.gz"
        raise InputError([Problem("", key, said, allowed) for key in wrong])
    return bool(tables)


def _listing(paths: list[str]) -> Listing | None:
    """The table of a single file that is not a workload; none for anything else."""
    from ..explain import Listing, contents

    found = contents(paths[0]) if len(paths) == 1 else None
    return found if isinstance(found, Listing) else None


def _write_listing(
    listing: Listing, paths: list[str], given: list[str], out: str, json: str | None
) -> None:
    """Writes a table as CSV or JSON, by the ending of its file."""
    if given:
        said, allowed = "has no effect on a table", "without it"
        raise InputError([Problem("", key, said, allowed) for key in given])
    if not out.endswith((".csv", ".json")):
        said = f"is the name of a workload: {listing.page.title} has a table and no work"
        raise InputError(
            [Problem("", f"--output {out}", said, "a name that ends in .csv or .json")]
        )
    output.claim({"--output": out, "--json": json}, *paths)
    text = json_text.dumps({**listing.data, "version": __version__}, indent=2)
    if json != "-":
        from ..report import words

        words.show(listing.page, output.console())
    if out.endswith(".csv"):
        output.write_csv(out, listing.to_csv())
    else:
        output.write_json(out, text)
    output.write_json(json, text)


def _trip_counts(words: list[str]) -> dict[str, int]:
    """The words of `--trip-count`. Raises `InputError` for one that is not a name and a number."""
    found: dict[str, int] = {}
    for word in words:
        name, _, number = word.removeprefix("%").rpartition("=")
        if not name or not number.isascii() or not number.isdigit() or len(number) > 7:
            said = "is not a name and a whole number"
            allowed = "such as while.11=24, at most 9,999,999"
            raise InputError([Problem("", f"--trip-count {word}", said, allowed)])
        found[name] = int(number)
    return found


def _groups(path: str | None) -> dict[str, list[int]] | None:
    """The file of `--groups`. Raises `InputError` for one that is not a mapping from names to
    ranks."""
    if path is None:
        return None
    allowed = '{"name": [0, 1], ...}'
    value = documents.parse_json(documents.read_text(path, allowed), path, allowed)
    lists = isinstance(value, dict) and all(
        isinstance(members, list) and members and all(isinstance(rank, int) for rank in members)
        for members in value.values()
    )
    if not lists:
        raise InputError(
            [Problem(path, "", "is not a mapping from group names to lists of ranks", allowed)]
        )
    return {str(name): members for name, members in value.items()}


def _show(imported: Imported, out: str) -> None:
    from ..report import words

    words.show(_page(imported, out), output.console())


def _page(imported: Imported, out: str) -> Page:
    """How much of the recordings the workload covers, and what is left out."""
    from ..report.page import Page, Section

    workload = imported.workload
    counts = (counted(workload.ranks, "rank"), counted(workload.programs, "program"))
    changed = [f"{name}, {count:,}{time}: {why}" for name, count, time, why in _omissions(imported)]
    sections = [Section("Covered of each step", [_table(imported)])] if imported.ranks else []
    if imported.module is not None:
        changed += [f"{why}: {count:,}" for why, count in imported.module.left_out.items()]
        sections.append(Section("Covered of each rank", [_module_table(imported.module)]))
    lists = {"Left out or changed": changed, "Notes": list(imported.notes)}
    sections += [Section(title, lines) for title, lines in lists.items() if lines]
    return Page(
        f"{', '.join(counts)}, {counted(workload.operations, 'operation')} in {out}", sections
    )


def _table(imported: Imported) -> Table:
    """All ranks together first, where there are several."""
    from ..report.page import Brief, Table

    whole = [imported.total] if imported.total is not None and len(imported.ranks) > 1 else []
    heads = ("rank", "step", "ms", "replay", "device", "kernels", "launches", "collectives")
    rows = [_row(entry) for entry in (*whole, *imported.ranks)]
    return Table("Covered of each step", heads, rows, brief=Brief(rows=_SHOWN))


def _module_table(module: ModuleCoverage) -> Table:
    """Instructions that a rank runs, by kind."""
    from ..report.page import Table

    heads = ("kind", "count", "operations", "transcendentals", "bytes")
    found = [*sorted(module.computed.items()), *sorted(module.collectives.items())]
    rows = [
        [
            kind.replace("_", "-"),
            f"{row.count:,}",
            f"{row.operations:,}",
            f"{row.transcendentals:,}",
            f"{row.bytes:,}",
        ]
        for kind, row in found
    ]
    total = (sum(row.count for _, row in found), module.operations, module.transcendentals)
    rows.insert(0, ["all", *(f"{each:,}" for each in total), f"{module.bytes:,}"])
    return Table("Covered of each rank", heads, rows)


def _row(entry: Coverage) -> list[str]:
    """Shares explained, of those in the step."""
    return [
        "all" if entry.rank < 0 else str(entry.rank),
        "whole" if entry.step < 0 else str(entry.step),
        f"{entry.recorded_ps / PS_PER_MS:,.3f}",
        f"{entry.deviation:+.2%}" if entry.replayed_ps >= 0 else "",
        f"{entry.device_share:.1%}",
        f"{entry.kernels:,}",
        f"{entry.launch_share:.1%}",
        f"{entry.sized} of {entry.collectives}",
    ]


def _omissions(imported: Imported) -> list[tuple[str, int, str, str]]:
    whole = imported.total
    found = whole.omissions if whole else ()
    return [
        (o.what, o.count, f" ({o.time_ps / PS_PER_MS:,.3f} ms)" if o.time_ps else "", o.why)
        for o in found
    ]
