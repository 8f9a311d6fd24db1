"""`armillary kernel`: time one kernel by itself."""

from __future__ import annotations

import dataclasses
import json as json_text
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__
from . import output
from .options import Json, PlatformName, ReportName, Settings, settings
from .verb_options import takes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..kernels import Shape, Time
    from ..platform import Platform
    from ..report.page import Page
    from ..uncertainty import Interval

SCHEMA = "armillary.kernel/1"

Kind = Annotated[str, typer.Argument(metavar="KIND", help="Kind of kernel: gemm, attention, ...")]
Words = Annotated[
    list[str],
    typer.Argument(metavar="SHAPE...", help="Counts as 8192x8192x8192, and words as NAME=VALUE"),
]


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """Machine and results."""

    platform: PlatformName
    json: Json = None
    report: ReportName = None
    set_: Settings = None


@takes(KernelOptions)
def kernel(kind: Kind, shape: Words, each: KernelOptions) -> None:
    """Time one kernel by itself: product, attention, experts."""
    from ..kernels import one
    from ..kernels.shapes import parse
    from ..platform import Platform

    with output.guard("armillary kernel --help"):
        output.claim({"--json": each.json, "--report": each.report}, each.platform)
        wanted = parse(kind, shape)
        target = Platform.load(each.platform, settings(each.set_))
        found = one(wanted, target)
        interval = found.interval
        for warning in _warnings(target, found):
            output.log(f"warning: {warning}")
        if "-" not in (each.json, each.report):
            typer.echo("\n".join(_lines(wanted, found, target, interval)))
        output.write_json(each.json, _result(wanted, found, target, interval))
        if each.report is not None:
            output.write_page(each.report, _page(wanted, found, target, interval).html())


def _warnings(platform: Platform, time: Time) -> list[str]:
    interval = time.interval
    if interval is None:
        return [
            *platform.warnings,
            "no interval: errors of such kernels left out are not known",
        ]
    if time.basis.how == "outside":
        return [*platform.warnings, time.basis.said]
    wider = [f"no kernels were measured on {platform.name}: the interval is that of a new GPU"]
    return [*platform.warnings, *(wider if interval.outside else [])]


def _words(shape: Shape) -> str:
    return ", ".join(f"{name} {value}" for name, value in dataclasses.asdict(shape).items())


def _lines(shape: Shape, time: Time, platform: Platform, interval: Interval | None) -> list[str]:
    from ..units import TB, TFLOP

    rates = [f"{time.operations / time.seconds / TFLOP:.4g} TFLOPS"] if time.operations else []
    rates += [f"{time.bytes / time.seconds / TB:.3g} TB/s of memory"] if time.bytes else []
    parts = [f"{name} {_us(seconds)}" for name, seconds in time.parts.items()]
    ends = "" if interval is None else " to ".join(map(_us, interval.of(time.seconds)))
    rows = {
        "kernel": f"{shape.kind}: {_words(shape)}",
        "platform": f"{platform.name}, one {time.npu}",
        "time": _us(time.seconds),
        "80 %": ends,
        "reaches": ", ".join(rates),
        "parts": ", ".join(parts),
        "formula": _us(time.formula) if time.formula != time.seconds else "",
        "rests on": time.basis.said,
    }
    return [f"{name:<10}{value}" for name, value in rows.items() if value]


def _page(shape: Shape, time: Time, platform: Platform, interval: Interval | None) -> Page:
    from ..report import kernel as pages

    return pages.page(
        f"{shape.kind} on {platform.name}",
        _words(shape),
        platform.name,
        time,
        interval,
        list(_elsewhere(shape)),
        _warnings(platform, time),
    )


def _elsewhere(shape: Shape) -> Iterator[tuple[str, str, float | None]]:
    """The same kernel on one preset of each NPU."""
    from ..errors import InputError
    from ..kernels import one, origin
    from ..platform import Platform
    from ..platform.presets import presets

    seen: set[str] = set()
    for name in sorted(presets(papers=False), key=lambda name: ("gx-" not in name, len(name))):
        platform = Platform.load(name)
        npu, generation = origin(platform)
        if generation is None or npu in seen:
            continue
        seen.add(npu)
        try:
            yield name, npu, one(shape, platform).seconds
        except InputError:
            yield name, npu, None


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"


def _result(shape: Shape, time: Time, platform: Platform, interval: Interval | None) -> str:
    found = {
        "schema": SCHEMA,
        "version": __version__,
        "kernel": {"kind": shape.kind, **dataclasses.asdict(shape)},
        "platform": platform.describe(),
        "generation": time.generation,
        "time_us": time.seconds * 1e6,
        "basis": {
            "how": time.basis.how,
            "said": time.basis.said,
            "rows": time.basis.rows,
            "outside": list(time.basis.outside),
            "formula_us": time.formula * 1e6,
        },
        "interval": None
        if interval is None
        else {
            "level": interval.level,
            "low_us": interval.low * time.seconds * 1e6,
            "high_us": interval.high * time.seconds * 1e6,
            "labels": dict(interval.labels),
            "extrapolated": list(interval.outside),
        },
        "operations": time.operations,
        "bytes": time.bytes,
        "parts_us": {name: seconds * 1e6 for name, seconds in time.parts.items()},
        "warnings": _warnings(platform, time),
    }
    return json_text.dumps(found, indent=2)
