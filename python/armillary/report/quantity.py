"""Quantities for people: a few significant digits and the unit that suits.

Here: numbers as text that remembers its number, and the number that a text says. Not here: axes
(`scale.py`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from ..units import GB, PPM, PS_PER_NS, TIMES
from .scale import Scale

_OPERATIONS = (
    (1e24, "YFLOP"),
    (1e21, "ZFLOP"),
    (1e18, "EFLOP"),
    (1e15, "PFLOP"),
    (1e12, "TFLOP"),
    (1e9, "GFLOP"),
    (1e6, "MFLOP"),
)
_BYTES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_UNITS = {"ps": 1e-3, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12}
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
_SAID = re.compile(r"[~<>]?\s*([+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\S*)", re.IGNORECASE)


class Quantity(str):
    """A number as text for people; `value` is the number itself, by which a table sorts."""

    __slots__ = ("value",)
    value: float

    def __new__(cls, text: str, value: float) -> Quantity:
        """The text that stands for `value`."""
        made = super().__new__(cls, text)
        made.value = value
        return made


def value_of(text: str) -> float | None:
    """Number in a text such as `12.35 ms` or `1.2 GB`, times in ns; `None` where there is none.

    Exact for a `Quantity`. Units of a column are comparable; they need not be of this module: `3
    GiB` is 3."""
    if isinstance(text, Quantity):
        return text.value
    found = _SAID.match(text.strip())
    if found is None:
        return None
    number, unit = float(found[1].replace(",", "")), found[2].rstrip(",;:)")
    if unit in _UNITS:
        return number * _UNITS[unit]
    prefix = (
        _PREFIXES.get(unit[:1], 1.0)
        if re.fullmatch(r"[kMGTPEZY](B|FLOP|b|\$)(/s|ps)?", unit)
        else 1.0
    )
    return number * prefix


def time(ns: float, digits: int = 4) -> str:
    """`12.35 ms`. Below a nanosecond in picoseconds."""
    return Quantity(_time(ns, digits), ns)


def _time(ns: float, digits: int) -> str:
    if ns == 0:
        return "0"
    for scale, unit in TIMES:
        if ns >= scale:
            return f"{_digits(ns / scale, digits)} {unit}"
    return f"{ns * PS_PER_NS:.0f} ps"


_WITH_UNIT = re.compile(r"([+-]?)[\d.]+ (\S+)")
_FAMILIES = (TIMES, _BYTES)
_FAR = 0.05
"""Share of a unit below which the usual value of a column has a smaller one."""
_VISIBLE = 0.02
"""Share of the page's unit of time from which a column has that unit."""
_FINEST = 6
"""Digits after the point, at most."""


def in_one_unit(cells: Sequence[str], page: Scale | None = None) -> Sequence[str]:
    """Times, or bytes, of a column in one unit. Small ones keep three digits.

    The unit is that of the largest, or a smaller one where most are far smaller. Times that are a
    visible part of the `page`'s unit have that one. A column that says other things as well stays
    as it is."""
    for family in _FAMILIES:
        names = {unit for _, unit in family}
        found = [cell for cell in cells if isinstance(cell, Quantity) and _unit(cell) in names]
        others = len(cells) - len(found) - sum(cell in ("", "-", "0") for cell in cells)
        if not others and (wanted := _wanted(found, family, page if family is TIMES else None)):
            scale, unit = wanted
            largest = max(abs(cell.value) for cell in found)
            digits = max(4 - len(str(int(largest / scale))), 0)
            return [
                _rescaled(cell, scale, unit, digits)
                if isinstance(cell, Quantity) and _unit(cell) in names
                else cell
                for cell in cells
            ]
    return cells


def _wanted(
    found: Sequence[Quantity], family: Sequence[tuple[float, str]], page: Scale | None
) -> tuple[float, str] | None:
    """The unit that a column's numbers are to have, as size and name; `None` where they have it."""
    units = {_unit(cell) for cell in found}
    if not found:
        return None
    values = [abs(cell.value) for cell in found]
    from statistics import median

    most = min(max(values), median(values) / _FAR)
    if page is not None and most >= _VISIBLE * page.ns:
        return None if units == {page.unit} else (page.ns, page.unit)
    if len(units) == 1:
        return None
    return next((each for each in family if most >= each[0]), family[-1])


def _unit(cell: str) -> str:
    match = _WITH_UNIT.fullmatch(cell)
    return match[2] if match else ""


def _rescaled(cell: Quantity, scale: float, unit: str, digits: int) -> Quantity:
    number = abs(cell.value) / scale
    needed = 2 - math.floor(math.log10(number)) if number else 0
    sign = cell[0] if cell[0] in "+-" else ""
    return Quantity(f"{sign}{number:,.{min(max(digits, needed), _FINEST)}f} {unit}", cell.value)


def size(count: float) -> str:
    """`1.074 GB`, powers of 1000."""
    return _scaled(count, _BYTES, "B")


def operations(count: float) -> str:
    """`3.452 PFLOP`, powers of 1000."""
    return _scaled(count, _OPERATIONS, "FLOP")


def _scaled(count: float, units: tuple[tuple[float, str], ...], plain: str) -> Quantity:
    for scale, unit in units:
        if count >= scale:
            return Quantity(f"{_digits(count / scale, 4)} {unit}", count)
    return Quantity(f"{count:.0f} {plain}", count)


def bandwidth(gb_per_s: float) -> str:
    """`450 GB/s`."""
    return Quantity(f"{gb_per_s:.4g} GB/s", gb_per_s * GB)


def share(part: float) -> str:
    """`65.7%`."""
    return Quantity(f"{part * 100:.1f}%", part * 100)


def configured(key: str, value: object) -> str:
    """A value of a resolved configuration with the unit that its key says: `link_bandwidth`
    50000000000 is `50 GB/s`."""
    if isinstance(value, list):
        return ", ".join(configured(key, each) for each in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if not isinstance(value, int | float):
        return str(value)
    said = next((said for form, said in _CONFIGURED if form.search(key)), None)
    return said(value) if said else f"{value:,}"


def rate(per_second: float) -> str:
    """`0.0412`, `12.3`, `19,649`: three digits or more, without a unit."""
    if per_second < 10:
        return f"{per_second:.3g}"
    return f"{per_second:,.1f}" if per_second < 10_000 else f"{per_second:,.0f}"


def number(count: int) -> str:
    """`1,048,576`."""
    return Quantity(f"{count:,}", count)


_CONFIGURED: tuple[tuple[re.Pattern[str], Callable[[float], str]], ...] = (
    (re.compile(r"bandwidth|_bytes_per_s"), lambda value: bandwidth(value / GB)),
    (re.compile(r"_ps\b"), lambda value: time(value / PS_PER_NS)),
    (re.compile(r"_bytes\b"), size),
    (re.compile(r"flops\b"), lambda value: f"{operations(value)}/s"),
    (re.compile(r"_ppm\b"), lambda value: share(value / PPM)),
)
"""Units by the ends of keys."""


def _digits(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return str(value)
    whole = len(str(int(value)))
    return f"{value:.{max(digits - whole, 0)}f}"
