"""`armillary traffic`: latency by load of synthetic traffic, and where the network saturates."""

from __future__ import annotations

import json as json_text
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, backends, files
from ..errors import InputError, Problem
from ..platform import Platform
from ..sizes import byte_count
from ..units import counted
from . import completion, output
from .options import Json, Npus, PlatformName, ReportName, Settings, settings
from .verb_options import takes

if TYPE_CHECKING:
    from ..traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class _Main:
    """Traffic and machine."""

    platform: PlatformName
    pattern: Annotated[list[str] | None, typer.Option(autocompletion=completion.patterns)] = None
    """Sources and destinations: a name, hotspot:NPUS:SHARE, or a file .csv of
    source,destination,weight. Repeat it, or separate names by semicolons, for several. Default:
    uniform."""
    size: Annotated[str | None, typer.Option(metavar="BYTES")] = None
    """Size of a message, such as 64, 64K, 4 KiB or 1 MB. Default: 4 KiB."""
    sizes: Annotated[str | None, typer.Option(metavar="LIST")] = None
    """Sizes that are drawn, each message a flow: web-search, hadoop, storage, or a file .csv of
    bytes,share. Several are separated by commas."""
    loads: Annotated[str | None, typer.Option(metavar="LIST")] = None
    """Loads, separated by commas: shares of the injection bandwidth (0.4 or 40%) or bandwidths of
    an NPU (20 GB/s). Default: ten up to saturation; with --sizes 30%, 50% and 80%."""
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="; ".join(f"{name}: {about}" for name, about in backends.ALL.items())
            + ". Several are separated by commas.",
            autocompletion=completion.backends,
        ),
    ] = None
    npus: Npus = None
    json: Json = None
    report: ReportName = None
    set_: Settings = None


@dataclass(frozen=True, kw_only=True)
class TrafficOptions(_Main):
    """Messages and statistics."""

    congestion_control: Annotated[str | None, typer.Option(metavar="LIST")] = None
    """Congestion controls to compare on the backend packet: new_reno, cubic, dctcp, dcqcn, none.
    Several are separated by commas."""
    saturation: Annotated[bool | None, typer.Option("--saturation/--no-saturation")] = None
    """Find the load at which the network saturates. Default: unless --loads or --sizes is
    given."""
    arrivals: Annotated[str, typer.Option(metavar="poisson|periodic")] = "poisson"
    """Messages at random or equal distances."""
    precision: Annotated[str | None, typer.Option(metavar="SHARE")] = None
    """A point ends when the 95 % confidence interval of its mean latency, or with --sizes of its
    mean slowdown, is this narrow. Default: 2%, with --sizes 5%."""
    tolerance: Annotated[str, typer.Option(metavar="SHARE")] = "1%"
    """How closely the saturation load is bracketed."""
    latency_limit: Annotated[float | None, typer.Option(metavar="FACTOR")] = None
    """The network is saturated when the mean latency is this many times that of a message alone.
    Default: 10; with --sizes it limits the mean slowdown, to 1000."""
    messages_max: Annotated[int | None, typer.Option(metavar="N")] = None
    """Most messages of a point. Default: 300000, with --sizes 10000."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Seed of the random traffic."""
    plot: Annotated[str | None, typer.Option(metavar="FILE")] = None
    """File for a drawing of latency by load (.svg or .png), with --sizes of slowdown by size."""
    flows: Annotated[str | None, typer.Option(metavar="FILE")] = None
    """Write each flow that the slowdowns are of here, with --sizes (.csv or .parquet)."""
    jobs: Annotated[int | None, typer.Option("--workers", "-j", metavar="N", min=1)] = None
    """Number of workers (default: number of cores)."""


@takes(TrafficOptions)
def traffic(each: TrafficOptions) -> None:
    """Find latency by load, and saturation, with synthetic traffic."""
    with output.guard("armillary check"):
        from ..report import traffic as shown
        from ..report import words
        from ..traffic import TrafficInterrupted
        from ..traffic.flow_table import write_flows

        files_ = {"--json": each.json, "--plot": each.plot, "--report": each.report}
        files_["--flows"] = each.flows
        output.claim(files_, each.platform)
        _check_plot(each.plot)
        _check_sizes(each)
        target = Platform.load(each.platform, settings(each.set_, each.npus))
        for warning in target.warnings:
            output.log(f"warning: {warning}")
        warnings, stop = target.warnings, None
        try:
            found = _found(target, each)
        except TrafficInterrupted as stopped:
            found, stop = stopped.found, stopped.stop
            kept = counted(sum(len(curve.points) for curve in found.curves), "point")
            warnings = [*warnings, f"interrupted: {kept} finished"]
        _write(found, target, warnings, (each.json, each.plot, each.report))
        if each.flows is not None:
            write_flows(found, each.flows)
            output.log(f"flows written to {each.flows}")
        if "-" not in (each.json, each.report):
            words.show(shown.page(found), output.console())
        if stop is not None:
            output.interrupted(stop, f"; {kept} finished")


def _check_plot(plot: str | None) -> None:
    if plot and not plot.endswith((".svg", ".png")):
        problem = f"unknown kind of picture: {plot!r}"
        raise InputError([Problem("", "--plot", problem, "a file .svg or .png")])


def _check_sizes(each: TrafficOptions) -> None:
    """Options that need `--sizes`, or don't go with it."""
    problems = []
    if each.sizes is not None and each.size is not None:
        problems.append(Problem("", "--size", "has no meaning with --sizes", "one of the two"))
    if each.flows is not None and each.sizes is None:
        said = "has no meaning without --sizes"
        problems.append(Problem("", "--flows", said, "--sizes, such as --sizes web-search"))
    if each.flows is not None and not each.flows.endswith((".csv", ".parquet")):
        said = f"unknown kind of table: {each.flows!r}"
        problems.append(Problem("", "--flows", said, "a file .csv or .parquet"))
    if problems:
        raise InputError(problems)


def _found(target: Platform, each: TrafficOptions) -> Traffic:
    """Latencies of the traffic that the options ask for. Raises `TrafficInterrupted`."""
    from ..traffic import Pattern, controls, loads_of
    from ..traffic import traffic as run

    names = [part for text in each.pattern or ["uniform"] for part in text.split(";")]
    parsed = [Pattern.parse(name) for name in names]
    with output.progress("load points") as update:
        return run(
            target,
            parsed,
            networks=[name.strip() for name in each.backend.split(",")] if each.backend else (),
            size=byte_count(each.size or "4 KiB", "--size"),
            sizes=[name for name in (each.sizes or "").split(",") if name.strip()],
            congestion_controls=controls.parse(each.congestion_control),
            loads=loads_of(each.loads, target) if each.loads else (),
            saturation=each.saturation,
            arrivals=each.arrivals,
            precision=None if each.precision is None else _share(each.precision, "--precision"),
            tolerance=_share(each.tolerance, "--tolerance"),
            latency_limit=each.latency_limit,
            messages_max=each.messages_max,
            seed=each.seed,
            jobs=each.jobs,
            progress=update,
        )


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
        chart = shown.drawing(found)
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
