"""Whether the parts of a report fit one another: what types alone can't say.

Here: indices of classes and dimensions, lists of one length, numbers that can't be negative.
Not here: names and types of fields (`schema.py`, `reading.py`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from ..blocks import BLOCKS
from ..errors import Problem
from ..schema import Activity, Detail, Report

_HINTS = get_type_hints(Activity)
_MOST_NPUS = 2**31
_HELP = "a report as armillary run --json wrote it"


def problems(report: Report, file: str = "") -> list[Problem]:
    """Everything in which a report contradicts itself, with its place; none for a report that a run
    wrote."""
    found = [*_negative(report), *_machine(report), *_dimensions(report), *_picture(report)]
    if (detail := report["detail"]) is not None:
        found += [*_classes(report, detail), *_dims(report, detail), *_bins(detail)]
        found += _layer_phases(detail)
    return [Problem(file, place, message, allowed or _HELP) for place, message, allowed in found]


LAYOUTS = {"tiers": 0, "grid": 2, "groups": 2, "circle": 1}
"""How a fabric can be drawn, and the least number of coordinates that needs."""


_LARGEST = sys.float_info.max
"""Largest number of a report: larger ones are not numbers of a computer."""
_Found = Iterator[tuple[str, str, str]]
"""Places, messages and what is allowed."""


def _negative(report: Report) -> _Found:
    """Times, counts and shares below zero or beyond any; a configuration is not looked at."""
    parts: dict[str, Any] = {key: part for key, part in report.items() if key != "config"}
    for place, value in _numbers(parts, ""):
        if value < 0:
            yield place, f"is {value}", "a number that is not negative"
        elif value > _LARGEST:
            yield place, "is too large", f"at most {_LARGEST:g}"


def _machine(report: Report) -> _Found:
    """There are ranks, and the blocks of a network are known."""
    if report["ranks"] < 1:
        yield "ranks", f"is {report['ranks']}", "at least 1"
    dims = report["config"]["platform"]["fabric"].get("dims") or []
    for at, dim in enumerate(dims):
        place = f"config.platform.fabric.dims[{at}]"
        if dim["block"] not in BLOCKS:
            yield f"{place}.block", f"unknown block {dim['block'][:40]!r}", ", ".join(BLOCKS)
        if not 1 <= dim["size"] < _MOST_NPUS:
            yield f"{place}.size", f"is {dim['size']}", f"1 to {_MOST_NPUS - 1}"


def _picture(report: Report) -> _Found:
    """A fabric is drawn in a known way, with cells that have places and cables that have ends."""
    picture = report["picture"]
    if picture is None:
        return
    cells, least = picture["cells"], LAYOUTS.get(picture["layout"])
    if least is None or not any(cell["tier"] == 0 for cell in cells):
        yield (
            "picture.layout",
            f"is {picture['layout']!r} of {len(cells)} cells",
            ", ".join(LAYOUTS),
        )
        return
    for at, cell in enumerate(cells):
        wanted = len(cells[0]["at"])
        if least and (len(cell["at"]) < least or len(cell["at"]) != wanted):
            yield f"picture.cells[{at}].at", f"{len(cell['at'])} coordinates", f"{wanted}"
        if len(cell["at"]) > _DEEPEST or any(place > _FARTHEST for place in cell["at"]):
            yield f"picture.cells[{at}].at", "is too far out to be drawn", ""
    for at, cable in enumerate(picture["cables"]):
        if not (0 <= cable["a"] < len(cells) and 0 <= cable["b"] < len(cells)):
            yield f"picture.cables[{at}]", "leads to no cell", f"cells 0 to {len(cells) - 1}"
        if not _BINS.fullmatch(cable["sends"] or ""):
            yield f"picture.cables[{at}].sends", *_NO_BINS


_BINS = re.compile("(?:[0-9a-f]{2}){0,1024}")
_NO_BINS = ("is not a list of percents", "two hexadecimal digits for each bin")

_DEEPEST, _FARTHEST = 64, 4096
"""Coordinates of a cell, and the largest of them."""


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:  # noqa: ANN401
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _numbers(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _numbers(part, f"{place}[{at}]")
    elif isinstance(value, int | float):
        yield place, value


def _dimensions(report: Report) -> _Found:
    """A stacked network has a row for each of its dimensions."""
    platform, rows = report["config"]["platform"], len(report["dimensions"])
    dims = platform["fabric"].get("dims")
    if dims is not None and len(dims) != rows:
        yield (
            "config.platform.fabric.dims",
            f"{len(dims)} dimensions, where the report has {rows}",
            f"{rows}",
        )
    for at, row in enumerate(report["dimensions"]):
        if not _BINS.fullmatch(row["link_sends"] or ""):
            yield f"dimensions[{at}].link_sends", *_NO_BINS


def _classes(report: Report, detail: Detail) -> _Found:
    count = len(report["classes"])
    for part in ("layers", "memory", "gantt"):
        for at, row in enumerate(detail[part]):
            yield from _index(
                f"detail.{part}[{at}].rank_class", row["rank_class"], count, "class of ranks"
            )


def _dims(report: Report, detail: Detail) -> _Found:
    """Dimensions of collectives: those of the network, or the logical ones that they run over."""
    logical = report["config"]["platform"].get("logical")
    count = len(report["dimensions"] if logical is None else logical)
    for at, layer in enumerate(detail["layer_phases"]):
        if (dim := layer["dim"]) is not None:
            yield from _index(f"detail.layer_phases[{at}].dim", dim, count, "dimension")
    for at, row in enumerate(detail["collectives"]):
        for part, found in (("phases", row["phases"]), ("terms", row["terms"])):
            for nth, each in enumerate(found):
                place = f"detail.collectives[{at}].{part}[{nth}].dim"
                yield from _index(place, each["dim"], count, "dimension")


def _index(place: str, value: int, count: int, what: str) -> _Found:
    if value >= count:
        yield (
            place,
            f"is {value}, and there is no such {what}",
            f"0 to {count - 1}" if count else f"no {what} at all",
        )


def _layer_phases(detail: Detail) -> _Found:
    """Means of layers are of one chunk or more."""
    for at, row in enumerate(detail["layer_phases"]):
        if row["count"] < 1:
            yield f"detail.layer_phases[{at}].count", f"is {row['count']}", "at least 1"


def _bins(detail: Detail) -> _Found:
    """Activity and the critical path have the same number of bins everywhere."""
    activity: Mapping[str, Any] = dict(detail["activity"])
    lengths = {
        f"detail.activity.{key}{suffix}": len(bins)
        for key, found in activity.items()
        for suffix, bins in _series(key, found)
    }
    for at, each in enumerate(detail["critical_path"]["over_time"]):
        lengths[f"detail.critical_path.over_time[{at}].ns"] = len(each["ns"])
    most = max(lengths.values(), default=0)
    for place, length in lengths.items():
        if length != most:
            yield place, f"has {length} bins, where others have {most}", f"{most} bins"


def _series(key: str, found: Sequence[Any]) -> Iterator[tuple[str, Sequence[float]]]:
    """A list of numbers, or one of such lists."""
    if _HINTS[key] == list[float]:
        yield "", found
    else:
        yield from ((f"[{at}]", each) for at, each in enumerate(found))
