"""Conversions between units, by name, and numbers with units as text.

Text is exact: `25 GB/s` is a number and a unit, and 25e9 bytes a second. KiB is 1024 bytes, kB
1000. Reports hold nanoseconds, the core picoseconds, nccl-tests microseconds. Decimal prefixes: a
GB has 1e9 bytes."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

NS_PER_US, NS_PER_MS, NS_PER_S = 1e3, 1e6, 1e9
TIMES = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "us"), (1.0, "ns"))
"""Units of time for people, the longest first: ns in one, and its name."""
PS_PER_NS, PS_PER_US, PS_PER_MS, PS_PER_S = 1e3, 1e6, 1e9, 1e12
US_PER_NS, US_PER_MS, US_PER_S = 1e-3, 1e3, 1e6
S_PER_PS, S_PER_NS = 1e-12, 1e-9
MB, GB, TB = 1e6, 1e9, 1e12
GFLOP, TFLOP = 1e9, 1e12
BYTES_PER_US = 1e3
"""Bytes in a microsecond at 1 GB/s."""
PPM = 1e6
"""Parts per million, in which the core keeps efficiencies and factors."""

_NUMBER = re.compile(
    r"\s*([+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,2})?)\s*([A-Za-z][A-Za-z/]*)\s*"
)
_DECIMAL = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def _units() -> dict[str, tuple[str, Fraction]]:
    """Unit -> what it measures and how many of the base unit it is."""
    found = {"s": ("s", Fraction(1)), "b/s": ("B/s", Fraction(1, 8))}
    found |= {
        f"{prefix}s": ("s", Fraction(1, 10**digits))
        for prefix, digits in (("m", 3), ("u", 6), ("n", 9), ("p", 12))
    }
    for prefix, digits in _DECIMAL.items():
        scale = Fraction(10**digits)
        found |= {
            f"{prefix}B": ("B", scale),
            f"{prefix}B/s": ("B/s", scale),
            f"{prefix}b/s": ("B/s", scale / 8),
        }
        found |= {f"{prefix}FLOPS": ("FLOPS", scale), f"{prefix}FLOP/s": ("FLOPS", scale)}
    for power, prefix in enumerate("KMGTPE", 1):
        found |= {
            f"{prefix}iB": ("B", Fraction(1024**power)),
            f"{prefix}iB/s": ("B/s", Fraction(1024**power)),
        }
    return found


UNITS = _units()


def split(text: str) -> tuple[Fraction, str] | None:
    """Number and unit of `25 GB/s`; nothing for other text."""
    match = _NUMBER.fullmatch(text)
    return (Fraction(Decimal(match[1])), match[2]) if match and match[2] in UNITS else None


def base(text: str) -> Fraction | None:
    """Bytes, seconds, bytes a second or FLOPS; nothing for other text."""
    found = split(text)
    return None if found is None else found[0] * UNITS[found[1]][1]


def counted(count: int, noun: str) -> str:
    """`1 rank`, `1,024 ranks`, `2 classes`, `3 entries`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith(("s", "x", "ch", "sh")):
        noun += "es"
    elif noun.endswith("y") and noun[-2] not in "aeiou":
        noun = f"{noun[:-1]}ies"
    else:
        noun += "s"
    return f"{count:,} {noun}"


def number_text(value: float | Fraction) -> str:
    """Six significant digits, without exponent: `37.5`."""
    return format(Decimal(f"{float(value):.6g}"), "f")
