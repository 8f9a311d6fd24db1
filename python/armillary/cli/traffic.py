"""`armillary traffic`: latency by load of synthetic traffic, and where the network saturates."""

from __future__ import annotations

import json as json_text
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, backends, files
from ..errors import InputError, Problem
from ..platform import Platform
from ..units import counted
from . import completion, output
from .options import Json, Npus, PlatformName, ReportName, Settings, byte_count, settings

if TYPE_CHECKING:
    from ..traffic import Traffic

Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern",
        help="Sources and destinations: a name, hotspot:NPUS:SHARE, or a file .csv of "
        "source,destination,weight. Repeat it, or separate names by semicolons, for several. "
        "Default: uniform.",
        autocompletion=completion.patterns,
    ),
]
Backends = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAMES",
        help="; ".join(f"{name}: {about}" for name, about in backends.ALL.items())
        + ". Several are separated by commas.",
        autocompletion=completion.backends,
    ),
]
Size = Annotated[
    str,
    typer.Option(
        "--size", metavar="BYTES", help="Size of a message, such as 64, 64K, 4 KiB or 1 MB."
    ),
]
Loads = Annotated[
    str | None,
    typer.Option(
        "--loads",
        metavar="LIST",
        help="Loads, separated by commas: shares of the injection bandwidth (0.4 or 40%) or "
        "bandwidths of an NPU (20 GB/s). Default: ten up to saturation.",
    ),
]
Saturation = Annotated[
    bool | None,
    typer.Option(
        "--saturation/--no-saturation",
        help="Find the load at which the network saturates. Default: unless --loads is given.",
    ),
]
Arrivals = Annotated[
    str,
    typer.Option(
        "--arrivals", metavar="poisson|periodic", help="Messages at random or equal distances."
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="SHARE",
        help="A point ends when the 95 % confidence interval of its mean latency is this narrow.",
    ),
]
Tolerance = Annotated[
    str,
    typer.Option(
        "--tolerance", metavar="SHARE", help="How closely the saturation load is bracketed."
    ),
]
LatencyLimit = Annotated[
    float,
    typer.Option(
        "--latency-limit",
        metavar="FACTOR",
        help="The network is saturated when the mean latency is this many times that of a message "
        "alone.",
    ),
]
MessagesMax = Annotated[
    int, typer.Option("--messages-max", metavar="N", help="Most messages of a point.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random traffic.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--workers", "-j", metavar="N", min=1, help="Number of workers (default: number of cores)."
    ),
]
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", help="Draw latency by load here (.svg or .png)."),
]


def traffic(
    platform: PlatformName,
    pattern: Patterns = None,
    backend: Backends = None,
    size: Size = "4 KiB",
    loads: Loads = None,
    saturation: Saturation = None,
    arrivals: Arrivals = "poisson",
    precision: Precision = "2%",
    tolerance: Tolerance = "1%",
    latency_limit: LatencyLimit = 10.0,
    messages_max: MessagesMax = 300_000,
    seed: Seed = 0,
    jobs: Jobs = None,
    json: Json = None,
    plot: Plot = None,
    report: ReportName = None,
    npus: Npus = None,
    set_: Settings = None,
) -> None:
    """Find latency by load, and saturation, with synthetic traffic."""
    with output.guard("armillary check"):
        from ..report import traffic as shown
        from ..traffic import Pattern, TrafficInterrupted, loads_of
        from ..traffic import traffic as run

        output.claim({"--json": json, "--plot": plot, "--report": report}, platform)
        if plot and not plot.endswith((".svg", ".png")):
            problem = f"unknown kind of picture: {plot!r}"
            raise InputError([Problem("", "--plot", problem, "a file .svg or .png")])
        names = [part for each in pattern or ["uniform"] for part in each.split(";")]
        parsed = [Pattern.parse(name) for name in names]
        target = Platform.load(platform, settings(set_, npus))
        for warning in target.warnings:
            output.log(f"warning: {warning}")
        warnings, stop = target.warnings, None
        try:
            with output.progress("load points") as update:
                found = run(
                    target,
                    parsed,
                    networks=[name.strip() for name in backend.split(",")] if backend else (),
                    size=byte_count(size, "--size"),
                    loads=loads_of(loads, target) if loads else (),
                    saturation=saturation,
                    arrivals=arrivals,
                    precision=_share(precision, "--precision"),
                    tolerance=_share(tolerance, "--tolerance"),
                    latency_limit=latency_limit,
                    messages_max=messages_max,
                    seed=seed,
                    jobs=jobs,
                    progress=update,
                )
        except TrafficInterrupted as stopped:
            found, stop = stopped.found, stopped.stop
            kept = counted(sum(len(curve.points) for curve in found.curves), "point")
            warnings = [*warnings, f"interrupted: {kept} finished"]
        _write(found, target, warnings, (json, plot, report))
        if "-" not in (json, report):
            for part in shown.terminal(found):
                output.console().print(part)
        if stop is not None:
            output.interrupted(stop, f"; {kept} finished")


def _write(
    found: Traffic,
    target: Platform,
    warnings: list[str],
    to: tuple[str | None, str | None, str | None],
) -> None:
    """Writes the JSON, the drawing and the page."""
    from ..report import traffic as shown

    json, plot, report = to
    head = found.as_dict()
    whole = {
        "schema": head.pop("schema"),
        "version": __version__,
        **head,
        "config": {"platform": target.describe()},
        "warnings": warnings,
    }
    output.write_json(json, json_text.dumps(whole, indent=2))
    if plot is not None:
        chart = shown.latencies(found)
        if plot.endswith(".png"):
            Path(plot).write_bytes(chart.png())
        else:
            files.write_text(plot, chart.svg())
        output.log(f"drawing written to {plot}")
    if report is not None:
        output.write_page(report, shown.page(found, warnings).html())


def _share(text: str, option: str) -> float:
    """`2%` or `0.02`. Raises `InputError`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*(%?)", text.strip())
    if found is None:
        raise InputError([Problem("", option, f'invalid share: "{text}"', "such as 2% or 0.02")])
    return float(found[1]) / (100 if found[2] else 1)
