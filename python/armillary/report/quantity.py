"""Quantities for people: a few significant digits and the unit that suits."""

from __future__ import annotations

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
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


def time(ns: float, digits: int = 4) -> str:
    """`12.35 ms`. Below a nanosecond in picoseconds."""
    if ns == 0:
        return "0"
    for scale, unit in _TIMES:
        if ns >= scale:
            return f"{_digits(ns / scale, digits)} {unit}"
    return f"{ns * 1e3:.0f} ps"


def size(count: float) -> str:
    """`1.074 GB`, powers of 1000."""
    for scale, unit in _BYTES:
        if count >= scale:
            return f"{_digits(count / scale, 4)} {unit}"
    return f"{count:.0f} B"


def operations(count: float) -> str:
    """`3.452 PFLOP`, powers of 1000."""
    for scale, unit in _OPERATIONS:
        if count >= scale:
            return f"{_digits(count / scale, 4)} {unit}"
    return f"{count:.0f} FLOP"


def bandwidth(gb_per_s: float) -> str:
    """`450 GB/s`."""
    return f"{gb_per_s:.4g} GB/s"


def share(part: float) -> str:
    """`65.7%`."""
    return f"{part * 100:.1f}%"


def number(count: int) -> str:
    """`1,048,576`."""
    return f"{count:,}"


def counted(count: int, what: str) -> str:
    """`1 rank`, `1,024 ranks`."""
    return f"{number(count)} {what}{'' if count == 1 else 's'}"


def _digits(value: float, digits: int) -> str:
    whole = len(str(int(value)))
    return f"{value:.{max(digits - whole, 0)}f}"
