"""Figures of reference runs: what a file expects, what ours are, and how far they may be off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Case = Mapping[str, Any]
"""A case of a file, with what the file says of all its cases."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a case."""

    name: str
    expected: float
    found: float | None
    """`None` if the network locked up or is saturated."""
    tolerance: float | None
    """Relative; `None` if it is not judged."""
    upto: float | None = None
    """Where what is expected is a range: its upper end."""

    @property
    def ok(self) -> bool:
        """Whether it is within its tolerance."""
        if self.tolerance is None:
            return True
        if self.found is None:
            return False
        least, most = self.expected, self.expected if self.upto is None else self.upto
        slack = self.tolerance
        return least - slack * abs(least) - 1e-12 <= self.found <= most + slack * abs(most) + 1e-12

    @property
    def off(self) -> float:
        """How far `found` is from what is expected, relative; 0 within a range."""
        found = self.expected if self.found is None else self.found
        upto = self.expected if self.upto is None else self.upto
        near = min(max(found, self.expected), upto)
        return found / near - 1 if near else 0.0


def line(row: Figure) -> str:
    """A figure, what is expected, how far it is off."""
    found = "none" if row.found is None else _digits(row.found)
    expected = _digits(row.expected)
    if row.upto is not None:
        expected = f"{expected}-{_digits(row.upto)}"
    off = "" if row.found is None else f"{100 * row.off:+.2f} %"
    text = f"{row.name:<18} expected {expected:>14}  obtained {found:>10}  {off:>10}"
    if row.tolerance is None:
        return text
    allowed = "exact" if row.tolerance == 0 else f"{100 * row.tolerance:.3g} %"
    return f"{text}  allowed {allowed:<6} {'ok' if row.ok else 'BEYOND'}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
