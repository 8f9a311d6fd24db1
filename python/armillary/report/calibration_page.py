"""A calibration as charts and as a page: measured bus bandwidth against the platform before and
after.

Not here: its words and rows (`calibration.py`), the fit (`calibrate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import counted
from . import calibration, names
from .chart import PALETTE, Chart, tens
from .page import Brief, Page, Section, Table

Found = Mapping[str, Any]

_STATES = {"domain": ["before", "after", "measured"], "range": ["#8c8c8c", PALETTE[0], PALETTE[1]]}
_BYTES = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, ',.4~r') + ' GiB' : datum.value "
    ">= 1048576 ? format(datum.value / 1048576, ',.4~r') + ' MiB' : datum.value >= 1024 ? "
    "format(datum.value / 1024, ',.4~r') + ' KiB' : format(datum.value, ',.4~r') + ' B'"
)
"""Labels of an axis of bytes, in powers of 1024 as nccl-tests has them."""
_APART = {"labelOverlap": "greedy", "labelSeparation": 8}
"""Labels that would touch are left out."""
_MOST = 10
"""Rows of a long table on a terminal."""
_LISTED = 30
"""Kernels up to which a terminal shows each."""


def page(found: Found) -> Page:
    """The page of a calibration, from its JSON."""
    footer = f"Armillary {found['version']}, armillary calibrate -p {found['platform']}"
    files = sorted({str(each["file"]) for each in (*found["points"], *found["kernels"])})
    return Page(
        title=f"Calibration of {found['platform']}",
        sections=list(_sections(found)),
        verdict=calibration.verdict(found),
        lead=f"Calibrated {found['platform']} on {_counts(found)}: "
        f"{', '.join(names.files(files))}.",
        footer=footer,
    )


def _counts(found: Found) -> str:
    """How many measurements there are."""
    points, kernels = len(found["points"]), len(found["kernels"])
    counts = (counted(points, "point"), counted(kernels, "kernel"))
    return " and ".join(said for many, said in zip((points, kernels), counts, strict=True) if many)


def figure(found: Found) -> Chart:
    """The picture of `--plot`: all measured collectives by size; with kernels, fitted over measured
    times."""
    return _against(found) if found["kernels"] else _by_size(found, "calibration", "busbw", None)


def _sections(found: Found) -> Iterator[Section]:
    if found["points"]:
        yield Section("Measured collectives", [*_measured(found), _errors(found["points"])])
        yield Section("Collectives without a measurement", _unmeasured(found))
    if found["kernels"]:
        kernels = found["kernels"]
        yield Section("Kernels", [_against(found), *_kernel_errors(kernels), _kernels(kernels)])
    yield Section("Parameters", [_parameters(found["parameters"])])
    outliers = [point for point in found["points"] if point["outlier"]]
    if outliers:
        yield Section("Outliers", [_outliers(outliers)])
    if found["notes"]:
        yield Section("What the measurements leave open", list(map(_sentence, found["notes"])))


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}{'' if note.endswith(('?', '.')) else '.'}"


def _measured(found: Found) -> Iterator[Chart]:
    """Bandwidth and time of each measured collective and number of ranks."""
    for curve in found["curves"]:
        if curve["measured"]:
            where = f"{curve['collective']}-{curve['ranks']}"
            yield _by_size(found, f"busbw-{where}", "busbw", curve)
            yield _by_size(found, f"time-{where}", "us", curve)


def _by_size(found: Found, name: str, what: str, only: Found | None) -> Chart:
    """Curves of the model before and after, and measured points, by size."""
    curves = [
        each for each in found["curves"] if each["measured"] and (only is None or each == only)
    ]
    rows = [row for curve in curves for row in _curve_rows(curve)]
    places = {(curve["collective"], curve["ranks"]) for curve in curves}
    rows += [
        _measured_row(point)
        for point in found["points"]
        if _place(point) in places and point["bytes"] > 0
    ]
    title = "bus bandwidth" if what == "busbw" else "time"
    where = f": {_label(only)}" if only is not None else ""
    colour = {"field": "state", "type": "nominal", "title": None, "scale": _STATES}
    y_title = "bus bandwidth, GB/s" if what == "busbw" else "time, us"
    y = {"field": what, "type": "quantitative", "title": y_title}
    axes = {
        "x": {
            "field": "bytes",
            "type": "quantitative",
            "title": "size",
            "scale": {"type": "log", "base": 2},
        }
        | {"axis": {"labelExpr": _BYTES, "tickCount": 8, **_APART}},
        "y": y if what == "busbw" else {**y, **tens([row["us"] for row in rows])},
        "color": colour,
    }
    point = {"type": "point", "filled": True, "size": 50, "tooltip": {"content": "data"}}
    views = [
        {
            "transform": [{"filter": "datum.state != 'measured'"}],
            "mark": {"type": "line", "tooltip": True},
        },
        {"transform": [{"filter": "datum.state == 'measured'"}], "mark": point},
    ]
    spec: dict[str, Any] = {"height": 300, "encoding": axes, "layer": views}
    if only is None and len(places) > 1:
        facet = {"field": "log", "type": "nominal", "title": None}
        spec = {"facet": facet, "columns": 2, "spec": {"width": 340, **spec}}
    return Chart(
        name, f"{found['platform']}: {title}, measured, before and after{where}", rows, spec
    )


def _curve_rows(curve: Found) -> Iterator[dict[str, Any]]:
    for state, times in (("before", curve["before_us"]), ("after", curve["after_us"])):
        for size, us in zip(curve["bytes"], times, strict=True):
            busbw = calibration.bus(curve, size, us)
            yield {"bytes": size, "us": us, "busbw": busbw, "state": state, "log": _label(curve)}


def _measured_row(point: Found) -> dict[str, Any]:
    us, size = point["measured_us"], point["bytes"]
    return {
        "bytes": size,
        "us": us,
        "busbw": calibration.bus(point, size, us),
        "state": "measured",
        "log": _label(point),
    }


def _place(each: Found) -> tuple[str, int]:
    return each["collective"], each["ranks"]


def _label(each: Found) -> str:
    return f"{each['collective']} over {each['ranks']:,}"


def _unmeasured(found: Found) -> list[Table | str]:
    others = [curve for curve in found["curves"] if not curve["measured"]]
    rows = calibration.unmeasured(found["curves"])
    if not rows:
        names = ", ".join(_label(curve) for curve in others)
        return [f"All stay as {found['platform']} has them, within half a percent: {names}."]
    note = (
        "Parameters that measured collectives share with these have changed. Those that only these "
        "use have not."
    )
    columns = [name for name in calibration.UNMEASURED if not name.startswith("Busbw")]
    brief = Brief(columns, _MOST)
    return [Table("The largest changes first", calibration.UNMEASURED, rows, note, brief=brief)]


def _errors(points: Sequence[Found]) -> Table:
    note = (
        "After: with the parameters alone; corrections by size then meet what was measured. "
        "Between sizes: each third of the sizes, predicted by a fit without it."
    )
    columns = ("Sizes", "Points", "Error before", "Error after", "Between sizes")
    return Table("Mean error by size", columns, calibration.errors(points), note=note)


def _kernel_errors(kernels: Sequence[Found]) -> Iterator[str]:
    """Mean errors before and after, by kind of kernel."""
    for kind in ("multiplication", "stream"):
        chosen = [kernel for kernel in kernels if kernel["kind"] == kind]
        if chosen:
            before, after = (
                calibration.error(chosen, which) for which in ("given_us", "fitted_us")
            )
            yield f"Mean error of {counted(len(chosen), kind)}: {before:.1f} %, now {after:.1f} %."


def _kernels(kernels: Sequence[Found]) -> Table:
    """Every kernel with its times; outliers come first where there are many."""
    many = len(kernels) > _LISTED
    kernels = sorted(kernels, key=lambda kernel: not kernel["outlier"]) if many else kernels
    brief = Brief(rows=_MOST if many else None)
    times = ("measured_us", "given_us", "fitted_us")
    rows = [
        [
            each["kernel"],
            *(f"{each[which]:.2f} us" for which in times),
            "outlier" if each["outlier"] else "",
        ]
        for each in kernels
    ]
    return Table("Kernels", ("Kernel", "Measured", "Before", "After", ""), rows, brief=brief)


def _parameters(parameters: Sequence[Found]) -> Table | str:
    """All parameters; those that are kept come last, and a terminal leaves them out."""
    if all(each["fitted"] == each["given"] for each in parameters):
        return f"{counted(len(parameters), 'parameter')} as before: none changes."
    rows = []
    kept_last = sorted(parameters, key=lambda each: each["fitted"] == each["given"])
    for each in kept_last:
        unit = each["unit"]
        kept = each["fitted"] == each["given"]
        interval = (
            f"{each['low']:.3g} to {each['high']:.3g} {unit}".strip() if each["found"] else ""
        )
        state = "kept" if kept else "moved" if each["found"] else "changed, not certain alone"
        rows.append(
            [
                each["key"],
                f"{each['given']:.4g} {unit}",
                f"{each['fitted']:.4g} {unit}",
                interval,
                state,
            ]
        )
    brief = Brief(rows=sum(each["fitted"] != each["given"] for each in parameters))
    return Table("Parameters", ("Parameter", "Was", "Is", "95 %", "State"), rows, brief=brief)


def _outliers(outliers: Sequence[Found]) -> Table:
    rows = [
        [
            _label(each),
            f"{each['bytes']:,} B",
            f"{each['measured_us']:.1f} us",
            f"{each['fitted_us']:.1f} us",
        ]
        for each in outliers
    ]
    columns = ("Collective", "Size", "Measured", "After")
    return Table("Outliers", columns, rows, brief=Brief(rows=_MOST))


def _against(found: Found) -> Chart:
    """Fitted over measured times of everything, and the line where they are the same."""
    rows = [
        {
            "what": each.get("kernel") or f"{each['bytes']} bytes",
            "kind": each.get("kind") or each["collective"],
        }
        | {"measured_us": each["measured_us"], "predicted_us": each[which], "state": state}
        for each in (*found["kernels"], *found["points"])
        for which, state in (("given_us", "before"), ("fitted_us", "after"))
    ]
    ends = [find(row["measured_us"] for row in rows) for find in (min, max)]
    scale = {"type": "log"}
    axes = {
        "x": {
            "field": "measured_us",
            "type": "quantitative",
            "title": "measured, us",
            "scale": scale,
        },
        "y": {
            "field": "predicted_us",
            "type": "quantitative",
            "title": "predicted, us",
            "scale": scale,
        },
    }
    spec = {
        "height": 320,
        "layer": [
            {
                "data": {"values": [{"measured_us": end, "predicted_us": end} for end in ends]},
                "mark": {"type": "line", "color": "#888888"},
                "encoding": axes,
            },
            {
                "mark": {"type": "point", "filled": True, "tooltip": {"content": "data"}},
                "encoding": {
                    **axes,
                    "color": {"field": "state", "type": "nominal", "title": None, "scale": _STATES},
                    "shape": {"field": "kind", "type": "nominal", "title": None},
                },
            },
        ],
    }
    return Chart("calibration", f"{found['platform']}: predicted and measured", rows, spec)
