"""`armillary calibrate`: parameters of a communication library and of an NPU from logs and tables
of measurements."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, files
from ..errors import InputError, Problem
from ..platform import Platform
from . import output
from .options import Json, PlatformName, Settings, settings

if TYPE_CHECKING:
    from ..calibrate import Curve, Fit, KernelFit, KernelTable, Log

SCHEMA = "armillary.calibration/1"

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="Output of nccl-tests, rccl-tests or BabelStream; tables of matrix multiplications "
        "or memory bandwidth.",
    ),
]
Out = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the calibrated platform here."),
]
Collective = Annotated[
    str | None,
    typer.Option(
        "--collective",
        help="The collective that was timed, if neither the logs nor their names say it.",
    ),
]
Plot = Annotated[
    str | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw the measurements and the model before and after calibration (.svg or .png).",
    ),
]
Page = Annotated[
    str | None,
    typer.Option("--report", metavar="FILE", help="Write the calibration as one HTML page here."),
]


def calibrate(
    logs: Logs,
    platform: PlatformName,
    out: Out = None,
    collective: Collective = None,
    plot: Plot = None,
    report: Page = None,
    json: Json = None,
    set_: Settings = None,
) -> None:
    """Fit a platform to measured collectives and kernels.

    Collectives fit its communication library, kernels its NPU."""
    from .. import calibrate as room

    with output.guard():
        output.claim(
            {"--json": json, "--output": out, "--plot": plot, "--report": report}, *logs, platform
        )
        if plot and not plot.endswith((".svg", ".png")):
            raise InputError(
                [Problem("", "--plot", f"unknown kind of picture: {plot!r}", "a file .svg or .png")]
            )
        tables, logs_ = _read(logs, collective)
        given = settings(set_)
        measured = [table for log in logs_ for table in log.tables]
        kernels = [kernel for table in tables for kernel in table.kernels]
        library = room.calibrate(platform, measured, given) if measured else None
        npu = room.calibrate_kernels(platform, kernels, given) if kernels else None
        curves = room.curves(platform, given, library, measured) if library else []
        found = _result(platform, library, npu, curves)
        if out:
            _write(platform, given, _settings(library, npu), out, logs)
        if plot:
            _draw(found, plot)
        if report:
            from ..report import calibration_page

            calibration_page.page(found).write(report)
            output.log(f"report written to {report}")
        output.write_json(json, json_text.dumps(found, indent=2))
        if json != "-":
            from ..report import calibration

            calibration.show(found, output.console())


def _read(paths: list[str], collective: str | None) -> tuple[list[KernelTable], list[Log]]:
    """Every file, by what it holds; what was read is logged."""
    from .. import calibrate as room

    tables: list[KernelTable] = []
    logs: list[Log] = []
    for path in paths:
        table = room.read_kernels(path)
        if table is not None:
            tables.append(table)
            output.log(f"{path}: {_counted(table)}; {table.skipped} rows skipped")
            continue
        logs.append(room.read(path, collective))
        output.log(_read_line(logs[-1]))
    return tables, logs


def _counted(table: KernelTable) -> str:
    shapes = sum(kernel.shape is not None for kernel in table.kernels)
    streams = len(table.kernels) - shapes
    parts = (
        f"{shapes} matrix multiplications" if shapes else "",
        f"{streams} streams over memory" if streams else "",
    )
    return ", ".join(filter(None, parts))


def _read_line(log: Log) -> str:
    tables = ", ".join(f"{t.collective} over {t.ranks} ({len(t.points)} sizes)" for t in log.tables)
    return f"{log.file}: {tables}; {log.skipped} lines skipped"


def _settings(library: Fit | None, npu: KernelFit | None) -> dict[str, object]:
    return {**(library.settings if library else {}), **(npu.settings if npu else {})}


def _result(
    platform: str, library: Fit | None, npu: KernelFit | None, curves: Sequence[Curve]
) -> dict[str, object]:
    fits = [fit for fit in (library, npu) if fit is not None]
    keys = ("key", "unit", "given", "fitted", "low", "high", "found")
    parameters = [{key: getattr(p, key) for key in keys} for fit in fits for p in fit.parameters]
    for each in parameters:
        each["high"] = each["high"] if each["found"] else None
        each["low"] = each["low"] if each["found"] else None
    notes = (library.notes() if library else []) + (list(npu.open) if npu else [])
    nodes = list(library.nodes) if library else []
    return {
        "schema": SCHEMA,
        "version": __version__,
        "platform": platform,
        "nodes": nodes,
        "parameters": parameters,
        "points": _points(library) if library else [],
        "curves": [asdict(curve) for curve in curves],
        "kernels": _kernels(npu) if npu else [],
        "notes": notes,
    }


def _points(fit: Fit) -> list[dict[str, object]]:
    return [
        {
            "file": r.table.file,
            "collective": r.table.collective,
            "ranks": r.table.ranks,
            "bytes": r.size,
            "measured_us": r.measured_us,
            "given_us": r.given_us,
            "fitted_us": r.fitted_us,
            "between_us": r.between_us,
            "outlier": r.outlier,
        }
        for r in fit.residuals
    ]


def _kernels(fit: KernelFit) -> list[dict[str, object]]:
    return [
        {
            "file": r.kernel.file,
            "kind": "multiplication" if r.kernel.shape else "stream",
            "kernel": r.kernel.what,
            "measured_us": r.kernel.measured_us,
            "given_us": r.given_us,
            "fitted_us": r.fitted_us,
            "outlier": r.outlier,
        }
        for r in fit.residuals
    ]


def _write(
    platform: str, given: dict[str, str], found: dict[str, object], out: str, logs: list[str]
) -> None:
    names = ", ".join(Path(path).name for path in logs)
    parts = {"library": "library", "npu": "NPU"}
    what = " and ".join(
        words for key, words in parts.items() if any(each.startswith(f"{key}.") for each in found)
    )
    source = f"{platform}, its {what} calibrated on {names}"
    made = Platform.load(platform, {**given, **found, "name": Path(out).stem, "source": source})
    files.write_text(out, made.to_yaml())
    output.log(f"platform written to {out}")


def _draw(found: dict[str, object], plot: str) -> None:
    from ..report import calibration_page

    chart = calibration_page.figure(found)
    if plot.endswith(".png"):
        Path(plot).write_bytes(chart.png())
    else:
        files.write_text(plot, chart.svg())
