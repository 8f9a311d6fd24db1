"""`armillary calibrate`: parameters of a communication library and of an NPU from logs and tables
of measurements."""

from __future__ import annotations

import json as json_text
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, files
from ..errors import InputError, Problem
from ..platform import Platform
from ..units import PS_PER_US, counted
from . import completion, output
from .options import Json, ReportName, Settings, settings

if TYPE_CHECKING:
    from ..calibrate import BenchFile, Curve, Fit, KernelFit, KernelTable, LinkFit, Log

SCHEMA = "armillary.calibration/1"

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="Results of armillary bench; or output of nccl-tests, rccl-tests or BabelStream, and "
        "tables of matrix multiplications or memory bandwidth.",
    ),
]
PlatformName = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        metavar="NAME|FILE",
        help="The platform to calibrate: a preset or a file. Not with a file of armillary bench, "
        "which becomes a platform of its own.",
        autocompletion=completion.platforms,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the calibrated platform here; - for standard output.",
    ),
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


def calibrate(
    logs: Logs,
    platform: PlatformName = None,
    out: Out = None,
    collective: Collective = None,
    plot: Plot = None,
    report: ReportName = None,
    json: Json = None,
    set_: Settings = None,
) -> None:
    """Fit a platform to measured collectives and kernels.

    Collectives fit its communication library, kernels its NPU."""
    from .. import calibrate as room

    with output.guard():
        inputs = [*logs, *([platform] if platform is not None else [])]
        output.claim({"--json": json, "--output": out, "--plot": plot, "--report": report}, *inputs)
        if plot and not plot.endswith((".svg", ".png")):
            raise InputError(
                [Problem("", "--plot", f"unknown kind of picture: {plot!r}", "a file .svg or .png")]
            )
        given = settings(set_)
        bench = _bench(logs, platform)
        if bench is not None:
            _finish(_of_bench(bench, given, out), plot, report, json)
            return
        if platform is None:
            said = "no platform to calibrate"
            raise InputError(
                [Problem("", "--platform", said, "-p NAME, or a file of armillary bench")]
            )
        tables, logs_ = _read(logs, collective)
        measured = [table for log in logs_ for table in log.tables]
        kernels = [kernel for table in tables for kernel in table.kernels]
        library = room.calibrate(platform, measured, given) if measured else None
        npus = [room.calibrate_kernels(platform, kernels, given)] if kernels else []
        curves = room.curves(platform, given, library, measured) if library else []
        found = _result(platform, library, npus, curves)
        if out:
            _write(platform, given, _settings(library, npus), out, logs)
        _finish(found, plot, report, json, out)


def _finish(
    found: dict[str, object],
    plot: str | None,
    report: str | None,
    json: str | None,
    out: str | None = None,
) -> None:
    """Shows and writes what was found."""
    if plot:
        _draw(found, plot)
    from ..report import calibration_page, words

    if report:
        output.write_page(report, calibration_page.page(found).html())
    output.write_json(json, json_text.dumps(found, indent=2))
    if "-" not in (json, report, out):
        words.show(calibration_page.page(found), output.console())


def _bench(logs: list[str], platform: str | None) -> BenchFile | None:
    """The file of `armillary bench`, if one is given."""
    from ..calibrate import read_bench

    found = [bench for path in logs if (bench := read_bench(path)) is not None]
    if found and (platform is not None or len(logs) > 1):
        what = "a platform" if platform is not None else "other files"
        said = f"given together with {what}, but becomes a platform of its own"
        raise InputError([Problem(found[0].file, "", said, "the file alone")])
    return found[0] if found else None


def _of_bench(bench: BenchFile, given: dict[str, str], out: str | None) -> dict[str, object]:
    """The platform of the machine that was measured."""
    from .. import calibrate as room

    if out == "-":
        said = "the platform and its matrix products are two files"
        raise InputError([Problem("", "--output -", said, "a file")])
    output.log(
        f"{bench.file}: {counted(len(bench.kernels), 'kernel')}, "
        f"{counted(len(bench.collectives), 'collective')} over "
        f"{counted(bench.processes, 'process')}"
    )
    with tempfile.TemporaryDirectory() as folder:
        base = str(Path(folder) / "base.yml")
        files.write_text(base, bench.base().to_yaml())
        npus = [room.calibrate_kernels(base, group, given) for group in bench.groups]
        settings_: dict[str, object] = dict(given)
        for npu in npus:
            settings_ |= npu.settings
        links = None
        if bench.collectives:
            links = room.calibrate_links(Platform.load(base, settings_), bench.collectives)
            settings_ |= links.settings
        added = _framework_us(bench, Platform.load(base, settings_))
        settings_["npu.compute.kernel_overhead"] = f"{added:.3f} us"
        if out:
            table = Path(out).with_suffix(".gemm.csv")
            files.write_text(table, bench.gemm_table(added))
            settings_ |= {"npu.compute.model": "measured", "npu.compute.table": str(table)}
            source = f"armillary calibrate, from {Path(bench.file).name} of armillary bench"
            named = {"name": Path(out).stem, "source": source}
            text = Platform.load(base, {**settings_, **named}).to_yaml()
            files.write_text(out, _next_to(text, table))
            output.log(f"platform written to {out}, its matrix products to {table}")
    name = Path(out).stem if out else "this machine"
    return _result(name, None, npus, [], links, notes=_notes_of(bench))


def _notes_of(bench: BenchFile) -> list[str]:
    """Notes on the measurements that a file of `armillary bench` lacks. A group of kernels says
    nothing of its own gaps: another group, or the table of products, fills them."""
    if bench.processes > 1:
        return []
    return ["one process: the platform has one NPU, and no collective was measured"]


def _next_to(text: str, table: Path) -> str:
    """A platform file that names the table next to it by its name, so that both can be moved."""
    whole, name = (
        json_text.dumps(each, ensure_ascii=False) for each in (str(table.absolute()), table.name)
    )
    return text.replace(whole, name)


def _framework_us(bench: BenchFile, platform: Platform) -> float:
    """Time that the framework adds to each kernel, in us."""
    from ..workload.program import Program

    bare = platform.changed({"npu.compute.kernel_overhead": "0 us"})

    def elementwise_us(size: int) -> float:
        program = Program()
        program.compute("activation", [], operations=0, bytes=size, kernel="elementwise")
        ((_, time_ps),) = bare.times(program)
        return time_ps / PS_PER_US

    return bench.overhead_us(elementwise_us)


def _read(paths: list[str], collective: str | None) -> tuple[list[KernelTable], list[Log]]:
    """Every file, by what it holds; what was read is logged."""
    from .. import calibrate as room

    tables: list[KernelTable] = []
    logs: list[Log] = []
    for path in paths:
        table = room.read_kernels(path)
        if table is not None:
            tables.append(table)
            output.log(f"{path}: {_counted(table)}; {counted(table.skipped, 'row')} skipped")
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
    return f"{log.file}: {tables}; {counted(log.skipped, 'line')} skipped"


def _settings(library: Fit | None, npus: Sequence[KernelFit]) -> dict[str, object]:
    found: dict[str, object] = dict(library.settings) if library else {}
    for npu in npus:
        found |= npu.settings
    return found


def _result(
    platform: str,
    library: Fit | None,
    npus: Sequence[KernelFit],
    curves: Sequence[Curve],
    links: LinkFit | None = None,
    *,
    notes: list[str] | None = None,
) -> dict[str, object]:
    fits = [fit for fit in (library, *npus, links) if fit is not None]
    collectives = library or links
    keys = ("key", "unit", "given", "fitted", "low", "high", "found")
    parameters = [{key: getattr(p, key) for key in keys} for fit in fits for p in fit.parameters]
    for each in parameters:
        each["high"] = each["high"] if each["found"] else None
        each["low"] = each["low"] if each["found"] else None
    if notes is None:
        notes = library.notes() if library else []
        notes += [note for npu in npus for note in npu.open]
    nodes = list(library.nodes) if library else []
    return {
        "schema": SCHEMA,
        "version": __version__,
        "platform": platform,
        "nodes": nodes,
        "parameters": parameters,
        "points": _points(collectives) if collectives else [],
        "curves": [asdict(curve) for curve in curves],
        "kernels": [row for npu in npus for row in _kernels(npu)],
        "notes": notes,
    }


def _points(fit: Fit | LinkFit) -> list[dict[str, object]]:
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
    output.write_platform(out, made.to_yaml())


def _draw(found: dict[str, object], plot: str) -> None:
    from ..report import calibration_page

    chart = calibration_page.figure(found)
    if plot.endswith(".png"):
        Path(plot).write_bytes(chart.png())
    else:
        files.write_text(plot, chart.svg())
