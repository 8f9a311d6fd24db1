"""Quantities for people: a few significant digits and the unit that suits.

Here: numbers as text that remembers its number, and the number that a text says. Not here: axes
(`scale.py`)."""

from __future__ import annotations

import math
import re

from ..units import GB, PS_PER_NS, TIMES

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
    """What a text such as `12.35 ms` or `1.2 GB` says as one number, times in ns; `None` where it
    says no number.

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


def rate(per_second: float) -> str:
    """`0.0412`, `12.3`, `19,649`: three digits or more, without a unit."""
    if per_second < 10:
        return f"{per_second:.3g}"
    return f"{per_second:,.1f}" if per_second < 10_000 else f"{per_second:,.0f}"


def number(count: int) -> str:
    """`1,048,576`."""
    return Quantity(f"{count:,}", count)


def _digits(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return str(value)
    whole = len(str(int(value)))
    return f"{value:.{max(digits - whole, 0)}f}"
