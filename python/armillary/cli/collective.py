"""`armillary collective`: time a collective over a range of sizes, in the columns of nccl-tests."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from .. import __version__, api, nccl, run_warnings
from ..platform import Platform
from ..uncertainty import Interval
from ..uncertainty.collectives import BANDS, band
from ..units import counted
from . import completion, output
from .options import (
    BackendName,
    Json,
    NoFold,
    Npus,
    PlatformName,
    ReportName,
    Settings,
    settings,
)

SCHEMA = "armillary.collective/1"

Kind = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTIVE", help=", ".join(nccl.OPERATIONS), autocompletion=completion.collectives
    ),
]
First = Annotated[
    str, typer.Option("-b", "--minbytes", help="Smallest size; K, M, G are powers of 1024.")
]
Last = Annotated[str, typer.Option("-e", "--maxbytes", help="Largest size.")]
Factor = Annotated[
    int | None,
    typer.Option("-f", "--stepfactor", help="Factor from one size to the next."),
]
Step = Annotated[
    str, typer.Option("-i", "--stepbytes", help="Bytes added from one size to the next.")
]
DataType = Annotated[str, typer.Option("-d", "--datatype", help=", ".join(nccl.TYPES))]
Root = Annotated[
    int,
    typer.Option("-r", "--root", min=0, help="Root rank of broadcast, reduce, gather, scatter."),
]


def collective(
    kind: Kind,
    platform: PlatformName,
    first: First = "32M",
    last: Last = "32M",
    factor: Factor = None,
    step: Step = "1M",
    dtype: DataType = "float",
    root: Root = 0,
    backend: BackendName = None,
    json: Json = None,
    no_fold: NoFold = False,
    npus: Npus = None,
    report: ReportName = None,
    set_: Settings = None,
) -> None:
    """Time a collective over a range of sizes, as nccl-tests does."""
    with output.guard("armillary check"):
        output.claim({"--json": json, "--report": report}, platform)
        name = nccl.operation(kind)
        nccl.element_bytes(dtype)
        ends = nccl.size_bytes(first, "-b"), nccl.size_bytes(last, "-e")
        wanted = nccl.sizes(*ends, factor, nccl.size_bytes(step, "-i"))
        target = Platform.load(platform, settings(set_, npus))
        network = backend or target.backend
        nccl.root_rank(root, target.npus)
        for warning in target.warnings:
            output.log(f"warning: {warning}")
        show = _nothing if "-" in (json, report) else _print
        show(
            f"# armillary {__version__}: simulated {name} over {counted(target.npus, 'NPU')} of "
            f"{target.name}, {network}\n#\n"
        )
        show(nccl.header(target.has_library) + "\n")

        rows: list[nccl.CollectiveRow] = []
        with output.until_stopped(lambda: bool(rows and (json or report))) as stops:
            for size in wanted:
                with output.progress(f"{size} bytes") as update:
                    options = {"backend": network, "dtype": dtype}
                    rows.append(
                        api.collective_row(
                            name,
                            size,
                            target,
                            root=root,
                            fold=not no_fold,
                            progress=update,
                            **options,
                        )
                    )
                show(nccl.line(rows[-1]) + "\n")
        show(nccl.footer(rows) + "\n")
        intervals = {} if stops else _intervals(name, rows, target)
        show("".join(f"# {line}\n" for line in _described(intervals)))
        config = {
            "collective": name,
            "backend": network,
            "root": root,
            "fold": not no_fold,
            "platform": target.describe(),
        }
        kept = f"{counted(len(rows), 'size')} finished"
        of_runs = run_warnings.distinct(each for row in rows for each in row.warnings)
        show("".join(f"# warning: {line}\n" for line in of_runs if line not in target.warnings))
        warnings = list(dict.fromkeys([*target.warnings, *of_runs]))
        warnings += [f"interrupted: {kept}"] if stops else []
        output.write_json(json, _result(rows, config, warnings, intervals))
        if report is not None:
            from ..report import collective as pages

            page = pages.page(rows, name, target.name, target.npus, network, warnings)
            output.write_page(report, page.html())
        for stop in stops:
            output.interrupted(stop, f"; {kept} and written")


def _print(text: str) -> None:
    """Each line as soon as it is known, to pipes as well."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _nothing(_text: str) -> None:
    """Standard output belongs to the JSON or the page."""


def _intervals(
    kind: str, rows: list[nccl.CollectiveRow], platform: Platform
) -> dict[str, Interval]:
    """The interval of each size band that rows are in."""
    found: dict[str, Interval] = {}
    for row in rows:
        name = BANDS[band(row.size)]
        if row.high_us and name not in found:
            interval = api.collective_interval(kind, row.size, platform)
            if interval is not None:
                found[name] = interval
    return found


def _described(intervals: dict[str, Interval]) -> Iterator[str]:
    """Lines below the table."""
    if not intervals:
        return
    level = next(iter(intervals.values())).level
    yield f"{100 * level:.0f} % intervals, as factors of the time:"
    for name, each in intervals.items():
        yield f"  {name}: {each.low:.2f}..{each.high:.2f} ({each.sources:.0f} sources)"
        if each.outside:
            yield f"    extrapolated: {', '.join(each.outside)}"


def _result(
    rows: list[nccl.CollectiveRow],
    config: dict[str, object],
    warnings: list[str],
    intervals: dict[str, Interval],
) -> str:
    head = {"schema": SCHEMA, "version": __version__, "config": config, "warnings": warnings}
    found: dict[str, object] = {**head, "rows": [row.as_dict() for row in rows]}
    if intervals:
        found["intervals"] = {
            name: {
                "level": each.level,
                "low": each.low,
                "high": each.high,
                "sources": each.sources,
                "labels": dict(each.labels),
                "extrapolated": list(each.outside),
            }
            for name, each in intervals.items()
        }
    return json_text.dumps(found, indent=2)
