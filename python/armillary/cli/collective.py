"""`armillary collective`: time a collective over a range of sizes, in the columns of nccl-tests."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, nccl
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
from .verb_options import takes

if TYPE_CHECKING:
    from ..platform import Platform
    from ..uncertainty import Interval

SCHEMA = "armillary.collective/1"

Kind = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTIVE", help=", ".join(nccl.OPERATIONS), autocompletion=completion.collectives
    ),
]


@dataclass(frozen=True, kw_only=True)
class _Main:
    """Machine and results."""

    platform: PlatformName
    npus: Npus = None
    backend: BackendName = None
    json: Json = None
    report: ReportName = None
    set_: Settings = None
    no_fold: NoFold = False


@dataclass(frozen=True, kw_only=True)
class CollectiveOptions(_Main):
    """Sizes and data, as nccl-tests names them."""

    first: Annotated[str, typer.Option("-b", "--minbytes")] = "32M"
    """Smallest size; K, M, G are powers of 1024."""
    last: Annotated[str, typer.Option("-e", "--maxbytes")] = "32M"
    """Largest size."""
    factor: Annotated[int | None, typer.Option("-f", "--stepfactor")] = None
    """Factor from one size to the next."""
    step: Annotated[str, typer.Option("-i", "--stepbytes")] = "1M"
    """Bytes added from one size to the next."""
    dtype: Annotated[
        str, typer.Option("-d", "--datatype", help=f"Type of the data: {', '.join(nccl.TYPES)}")
    ] = "float"
    root: Annotated[int, typer.Option("-r", "--root", min=0)] = 0
    """Root rank of broadcast, reduce, gather, scatter."""


@takes(CollectiveOptions)
def collective(kind: Kind, each: CollectiveOptions) -> None:
    """Time a collective over a range of sizes, as nccl-tests does."""
    from .. import run_warnings
    from ..platform import Platform

    with output.guard("armillary check"):
        output.claim({"--json": each.json, "--report": each.report}, each.platform)
        name = nccl.operation(kind)
        nccl.element_bytes(each.dtype)
        sizes = _sizes(each)
        target = Platform.load(each.platform, settings(each.set_, each.npus))
        network = each.backend or target.backend
        nccl.root_rank(each.root, target.npus)
        for warning in target.warnings:
            output.log(f"warning: {warning}")
        show = _nothing if "-" in (each.json, each.report) else _print
        show(
            f"# armillary {__version__}: simulated {name} over {counted(target.npus, 'NPU')} of "
            f"{target.name}, {network}\n#\n"
        )
        show(nccl.header(target.has_library) + "\n")

        rows: list[nccl.CollectiveRow] = []
        with output.until_stopped(lambda: bool(rows and (each.json or each.report))) as stops:
            for size in sizes:
                rows.append(_row(name, size, target, network, each))
                show(nccl.line(rows[-1]) + "\n")
        show(nccl.footer(rows) + "\n")
        intervals = {} if stops else _intervals(name, rows, target)
        show("".join(f"# {line}\n" for line in _described(intervals)))
        config = {
            "collective": name,
            "backend": network,
            "root": each.root,
            "fold": not each.no_fold,
            "platform": target.describe(),
        }
        kept = f"{counted(len(rows), 'size')} finished"
        of_runs = run_warnings.distinct(found for row in rows for found in row.warnings)
        show("".join(f"# warning: {line}\n" for line in of_runs if line not in target.warnings))
        warnings = list(dict.fromkeys([*target.warnings, *of_runs]))
        warnings += [f"interrupted: {kept}"] if stops else []
        output.write_json(each.json, _result(rows, config, warnings, intervals))
        if each.report is not None:
            from ..report import collective as pages

            page = pages.page(rows, name, target.name, target.npus, network, warnings)
            output.write_page(each.report, page.html())
        for stop in stops:
            output.interrupted(stop, f"; {kept} and written")


def _sizes(each: CollectiveOptions) -> Iterator[int]:
    """The sizes that are timed."""
    ends = nccl.size_bytes(each.first, "-b"), nccl.size_bytes(each.last, "-e")
    return nccl.sizes(*ends, each.factor, nccl.size_bytes(each.step, "-i"))


def _row(
    name: str, size: int, target: Platform, network: str, each: CollectiveOptions
) -> nccl.CollectiveRow:
    """The time of one size."""
    from .. import api

    with output.progress(f"{size} bytes") as update:
        return api.collective_row(
            name,
            size,
            target,
            root=each.root,
            fold=not each.no_fold,
            progress=update,
            backend=network,
            dtype=each.dtype,
        )


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
    from .. import api
    from ..uncertainty.collectives import BANDS, band

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
