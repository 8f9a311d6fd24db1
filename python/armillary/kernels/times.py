"""Times of kernels on a platform: by the formulas, or from the kernels that were measured."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..platform import Platform
from ..uncertainty import LEVEL, Interval
from ..uncertainty.kernels import interval
from .interpolated import Found, How, Measured
from .measured_file import MeasuredFile, Numbers, Rows, Words, fields, parts, read_measured
from .shapes import KINDS, Shape, encoded


@dataclass(frozen=True, slots=True)
class Basis:
    """The origin of a time."""

    how: How
    said: str
    """The same in words."""
    rows: int = 0
    """Measured kernels that it rests on."""
    outside: tuple[str, ...] = ()
    """Numbers of the shape outside of the measured range, with the range."""


@dataclass(frozen=True, slots=True)
class Time:
    """Time of a kernel by itself.

    `seconds` is the time, `operations` are floating-point operations, `bytes` those that must be
    read from memory or written to it, and `parts` are the seconds of each part alone by the
    formula; parts may overlap."""

    seconds: float
    operations: float
    bytes: float
    parts: dict[str, float]
    npu: str
    """Name of the NPU."""
    generation: str
    """Generation of GPUs whose measured kernels the parameters are fitted to."""
    formula: float
    """Seconds by the formula, which are `seconds` where nothing was measured."""
    basis: Basis
    interval: Interval | None
    """`None` where the errors of such kernels are not known."""


def seconds(shapes: Sequence[Shape], platform: Platform) -> list[float]:
    """Seconds that each kernel takes by itself on one NPU of the platform, in order.

    Raises:
        InputError: a kernel whose time the platform does not say, or a wrong file of measured ones.
    """
    found = platform._core.kernel_times(encoded(shapes))
    table = measured_kernels(platform)
    if table is None:
        return found
    times = [table.time(shape, ours) for shape, ours in zip(shapes, found, strict=True)]
    return [
        ours if time is None else time.us / 1e6 for time, ours in zip(times, found, strict=True)
    ]


def one(shape: Shape, platform: Platform) -> Time:
    """Time of a kernel by itself on one NPU of the platform.

    Raises:
        InputError: the platform does not say it, or its file of measured kernels is wrong.
    """
    formula, operations, bytes, named = platform._core.kernel_parts(encoded([shape]))
    npu, generation = origin(platform)
    table = measured_kernels(platform)
    found = None if table is None else table.time(shape, formula)
    time = formula if found is None else found.us / 1e6
    usual = interval(shape.kind, npu, time)
    if table is None:
        basis = Basis("formula", f"measured kernels of {generation}, by a formula")
    elif found is None:
        basis = Basis("formula", f"formula: {table.name} has no {shape.kind} with these words")
    else:
        basis = Basis(found.how, table.said(found), found.rows, found.outside)
        usual = table.interval(shape, found) or usual
    return Time(time, operations, bytes, dict(named), npu, generation or "", formula, basis, usual)


def origin(platform: Platform) -> tuple[str, str | None]:
    """Name of the NPU, and the generation of GPUs whose measured kernels its parameters are fitted
    to; `None` for a platform without them."""
    return platform._core.kernel_origin()


class Table:
    """The measured kernels of a platform."""

    def __init__(self, path: str, file: MeasuredFile, platform: Platform) -> None:
        self.name = Path(path).name
        self._platform = platform
        self._rows = {each.key: each for each in file.kernels}
        self._groups: dict[tuple[str, Words], Measured] = {}

    def time(self, shape: Shape, ours: float) -> Found | None:
        """The time of a kernel that takes `ours` seconds by the formula; `None` where no measured
        kernel has its words."""
        words, numbers = parts(shape)
        group = self._group(shape.kind, words)
        return None if group is None else group.time(numbers, 1e6 * ours)

    def interval(self, shape: Shape, found: Found) -> Interval | None:
        """The interval of a time that was found."""
        words, numbers = parts(shape)
        group = self._group(shape.kind, words)
        ends = None if group is None else group.interval(numbers)
        if ends is None:
            return None
        low, high, count = ends
        labels = {"kind": shape.kind, "table": self.name}
        return Interval(low, high, LEVEL, float(count), labels, found.outside)

    def said(self, found: Found) -> str:
        """The origin of a time in words."""
        rows = f"{found.rows} row{'s' * (found.rows > 1)} of {self.name}"
        if found.how == "measured":
            return f"measured: {'the median of ' if found.rows > 1 else ''}{rows}"
        if found.how == "interpolated":
            return f"interpolated between {rows}"
        return f"outside the measured {', '.join(found.outside)}: the nearest {rows}"

    def _group(self, kind: str, words: Words) -> Measured | None:
        key = kind, words
        rows = self._rows.get(key)
        if rows is None:
            return None
        if key not in self._groups:
            self._groups[key] = Measured(rows, functools.partial(formula_us, self._platform, rows))
        return self._groups[key]


def formula_us(platform: Platform, rows: Rows, numbers: Sequence[Numbers]) -> list[float]:
    """Times by the formula of kernels with the kind and words of `rows`, us; NaN where it has
    none."""
    names = fields(rows.kind)[1]
    shapes = [
        KINDS[rows.kind](**rows.words, **dict(zip(names, each, strict=True))) for each in numbers
    ]
    try:
        times = platform._core.kernel_times(encoded(shapes))
    except InputError:
        times = [_alone(platform, shape) for shape in shapes]
    return [1e6 * time if 0 < time < math.inf else math.nan for time in times]


def _alone(platform: Platform, shape: Shape) -> float:
    try:
        return platform._core.kernel_times(encoded([shape]))[0]
    except InputError:
        return math.nan


def measured_kernels(platform: Platform) -> Table | None:
    """The measured kernels of a platform; `None` where it names no file of them.

    Raises:
        InputError: the file is wrong.
    """
    path = platform._core.kernel_table()
    if path is None:
        return None
    try:
        stat = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return Table(path, read_measured(path), platform)
    return Table(path, _read(path, stat.st_mtime_ns, stat.st_size), platform)


@functools.lru_cache(maxsize=4)
def _read(path: str, _changed: int, _size: int) -> MeasuredFile:
    return read_measured(path)
