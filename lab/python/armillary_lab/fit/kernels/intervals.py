"""Intervals of single kernels.

Kernels on GPUs that were measured have the errors of the presets there: thousands of rows that
one or two hundred parameters describe. Others have the errors of left-out generations.

`python -m armillary_lab.fit.kernels KIND --intervals` writes the kind's part of
`python/armillary/uncertainty/data/kernels.json`, and prints how many left-out kernels lie within
the intervals that the other GPUs (or generations) give."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from armillary.kernels import origin
from armillary.kernels.tables import SYSTEMS, Measured
from armillary.platform import Platform
from armillary.uncertainty.kernels import BANDS, MEASURED, OTHER, band, ends
from armillary.uncertainty.tables import DATA

from ...predict.measured_kernels import Predicted
from .unseen import generation

_DIGITS = 3
_LEAST = 3
"""GPUs or generations that an interval needs, where a kind has that number; else two."""
_FILE = DATA / "kernels.json"


def groups(
    found: Iterable[Predicted], key: Callable[[Measured], str]
) -> dict[str, dict[str, list[float]]]:
    """ln(measured / predicted) by band of the predicted time, and by GPU or generation."""
    by: dict[str, dict[str, list[float]]] = {name: {} for name in BANDS}
    for each in found:
        by[band(each.ours * 1e-6)].setdefault(key(each.row), []).append(-each.log)
    return by


def part(by: Mapping[str, Mapping[str, list[float]]]) -> dict[str, tuple[float, float, int]]:
    """Ends of the interval, and the number of groups behind them, by band."""
    found = {}
    least = min(_LEAST, max(2, len({group for each in by.values() for group in each})))
    for name, each in by.items():
        if len(each) >= least:
            low, high = ends(each.values())
            found[name] = (round(low, _DIGITS), round(high, _DIGITS), len(each))
    return found


def coverage(by: Mapping[str, Mapping[str, list[float]]]) -> Iterator[tuple[str, str, int, float]]:
    """Band, group, measurements, and the part of them within the interval of the other groups."""
    for name, each in by.items():
        for left, logs in each.items():
            others = [group for other, group in each.items() if other != left]
            if others:
                low, high = (math.log(end) for end in ends(others))
                inside = sum(low <= log <= high for log in logs)
                yield name, left, len(logs), inside / len(logs)


def of_kind(
    presets: Iterable[Predicted], left_out: Iterable[Predicted]
) -> tuple[dict[str, object], list[str]]:
    """The intervals of a kind, and lines on their coverage."""
    known = groups(presets, lambda row: row.system)
    other = groups(left_out, generation)
    lines = [
        f"  {what}, {name}, {left}: {100 * inside:.0f} % of {count} within"
        for what, by in ((MEASURED, known), (OTHER, other))
        for name, left, count, inside in coverage(by)
    ]
    return {MEASURED: part(known), OTHER: part(other)}, lines


def write(kind: str, found: Mapping[str, object], systems: Iterable[str]) -> None:
    """Puts the intervals of a kind into the file of the package."""
    kept = json.loads(_FILE.read_text(encoding="utf-8")) if _FILE.is_file() else {}
    names = {origin(Platform.load(SYSTEMS[name].preset))[0] for name in systems}
    gpus = {name.partition("-")[0] for name in names} | set(kept.get("gpus", ()))
    kinds = dict(sorted({**kept.get("kinds", {}), kind: found}.items()))
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in kinds.items())
    text = f'{{"gpus": {json.dumps(sorted(gpus))}, "kinds": {{\n{lines}\n}}}}\n'
    _FILE.write_text(text, encoding="utf-8")
