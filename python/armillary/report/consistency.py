"""Whether the parts of a report fit one another: what types alone can't say.

Here: indices of classes and dimensions, lists of one length, numbers that can't be negative.
Not here: names and types of fields (`schema.py`, `reading.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from ..errors import Problem
from ..schema import Activity, Detail, Report

_HINTS = get_type_hints(Activity)
_HELP = "a report as armillary run --json wrote it"


def problems(report: Report, file: str = "") -> list[Problem]:
    """Everything in which a report contradicts itself, with its place; none for a report that a run
    wrote."""
    found = [*_negative(report), *_dimensions(report)]
    if (detail := report["detail"]) is not None:
        found += [*_classes(report, detail), *_dims(report, detail), *_bins(detail)]
    return [Problem(file, place, message, allowed or _HELP) for place, message, allowed in found]


_Found = Iterator[tuple[str, str, str]]
"""Places, messages and what is allowed."""


def _negative(report: Report) -> _Found:
    """Times, counts and shares below zero; a configuration is not looked at."""
    parts: dict[str, Any] = {key: part for key, part in report.items() if key != "config"}
    for place, value in _numbers(parts, ""):
        if value < 0:
            yield place, f"is {value}", "a number that is not negative"


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
