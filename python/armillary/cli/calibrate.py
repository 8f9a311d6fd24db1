"""`armillary calibrate`: parameters of a communication library from logs of nccl-tests."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, files
from ..platform import Platform
from . import output
from .options import Json, PlatformName, Settings, settings

if TYPE_CHECKING:
    from ..calibrate import Fit, Log

SCHEMA = "armillary.calibration/1"

Logs = Annotated[list[str], typer.Argument(metavar="LOG...", help="Output of nccl-tests or rccl-tests.")]
Out = Annotated[str | None, typer.Option("-o", "--out", metavar="FILE", help="Write the calibrated platform here.")]
Collective = Annotated[
    str | None, typer.Option("--collective", help="What the logs timed, where neither they nor their names say so.")
]
Plot = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw measured and fitted times here (.svg or .png).")
]


def calibrate(
    logs: Logs,
    platform: PlatformName,
    out: Out = None,
    collective: Collective = None,
    plot: Plot = None,
    json: Json = None,
    set_: Settings = None,
) -> None:
    """Fit a platform's communication library to measured collectives."""
    from .. import calibrate as room

    with output.guard():
        for path in (json, out, plot):
            output.require_writable(path)
        read = [room.read(path, collective) for path in logs]
        for log in read:
            output.log(_told(log))
        given = settings(set_)
        fit = room.calibrate(platform, [table for log in read for table in log.tables], given)
        found = _result(fit)
        if out:
            _write(fit, given, out, logs)
        if plot:
            _draw(found, plot)
        output.write_json(json, json_text.dumps(found, indent=2))
        if json != "-":
            from ..report import calibration

            calibration.show(found, output.console())


def _told(log: Log) -> str:
    tables = ", ".join(f"{t.collective} over {t.ranks} ({len(t.points)} sizes)" for t in log.tables)
    return f"{log.file}: {tables}; {log.skipped} lines skipped"


def _result(fit: Fit) -> dict[str, object]:
    keys = ("key", "unit", "given", "fitted", "low", "high", "found")
    points = [
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
    parameters = [{key: getattr(p, key) for key in keys} for p in fit.parameters]
    for each in parameters:
        each["high"] = each["high"] if each["found"] else None
        each["low"] = each["low"] if each["found"] else None
    head = {"schema": SCHEMA, "version": __version__, "platform": fit.platform, "nodes": list(fit.nodes)}
    return {**head, "parameters": parameters, "points": points, "notes": fit.notes()}


def _write(fit: Fit, given: dict[str, str], out: str, logs: list[str]) -> None:
    names = ", ".join(Path(path).name for path in logs)
    source = f"{fit.platform}, its library calibrated on {names}"
    made = Platform.load(fit.platform, {**given, **fit.settings, "name": Path(out).stem, "source": source})
    files.write_text(out, made.to_yaml())
    output.log(f"platform written to {out}")


def _draw(found: dict[str, object], plot: str) -> None:
    from ..report import calibration

    chart = calibration.chart(found)
    if plot.endswith(".png"):
        Path(plot).write_bytes(chart.png())
    else:
        files.write_text(plot, chart.svg())
