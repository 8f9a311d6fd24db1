"""Numbers with units as text, exactly: `25 GB/s` is a number and a unit, and 25e9 bytes a second.
KiB is 1024 bytes, kB 1000."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

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


def number_text(value: float | Fraction) -> str:
    """Six significant digits, without exponent: `37.5`."""
    return format(Decimal(f"{float(value):.6g}"), "f")
