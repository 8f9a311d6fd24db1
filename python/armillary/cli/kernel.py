"""`armillary kernel`: time one kernel by itself."""

from __future__ import annotations

import dataclasses
import json as json_text
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__
from . import output
from .options import Json, PlatformName, Settings, settings
from .verb_options import takes

if TYPE_CHECKING:
    from ..kernels import Shape, Time
    from ..platform import Platform

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
    set_: Settings = None


@takes(KernelOptions)
def kernel(kind: Kind, shape: Words, each: KernelOptions) -> None:
    """Time one kernel by itself: product, attention, experts."""
    from ..kernels import one
    from ..kernels.shapes import parse
    from ..platform import Platform

    with output.guard("armillary kernel --help"):
        output.claim({"--json": each.json}, each.platform)
        wanted = parse(kind, shape)
        target = Platform.load(each.platform, settings(each.set_))
        found = one(wanted, target)
        if each.json != "-":
            typer.echo("\n".join(_lines(wanted, found, target)))
        output.write_json(each.json, _result(wanted, found, target))


def _lines(shape: Shape, time: Time, platform: Platform) -> list[str]:
    from ..units import TB, TFLOP

    words = ", ".join(f"{name} {value}" for name, value in dataclasses.asdict(shape).items())
    rates = [f"{time.operations / time.seconds / TFLOP:.4g} TFLOPS"] if time.operations else []
    rates += [f"{time.bytes / time.seconds / TB:.3g} TB/s of memory"] if time.bytes else []
    parts = [f"{name} {_us(seconds)}" for name, seconds in time.parts.items()]
    rows = {
        "kernel": f"{shape.kind}: {words}",
        "platform": f"{platform.name}, one {time.npu}",
        "time": _us(time.seconds),
        "reaches": ", ".join(rates),
        "parts": ", ".join(parts),
        "rests on": f"measured kernels of {time.generation}",
    }
    return [f"{name:<10}{value}" for name, value in rows.items() if value]


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"


def _result(shape: Shape, time: Time, platform: Platform) -> str:
    found = {
        "schema": SCHEMA,
        "version": __version__,
        "kernel": {"kind": shape.kind, **dataclasses.asdict(shape)},
        "platform": platform.describe(),
        "generation": time.generation,
        "time_us": time.seconds * 1e6,
        "operations": time.operations,
        "bytes": time.bytes,
        "parts_us": {name: seconds * 1e6 for name, seconds in time.parts.items()},
        "warnings": platform.warnings,
    }
    return json_text.dumps(found, indent=2)
