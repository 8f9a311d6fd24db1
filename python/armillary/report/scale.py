"""One unit of time for all axes of a report, so that charts can be held against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..units import TIMES


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit of time and how many ns it has."""

    unit: str
    ns: float

    @classmethod
    def of(cls, longest_ns: float) -> Scale:
        """The unit in which `longest_ns` is written as text, so that a page has one unit."""
        for ns, unit in TIMES:
            if longest_ns >= ns:
                return cls(unit, ns)
        return cls("ns", 1.0)

    def calculate(self, field: str, to: str) -> dict[str, Any]:
        """A Vega-Lite transform: the ns of `field` in this unit, as `to`."""
        return {"calculate": f"datum['{field}'] / {self.ns:.0f}", "as": to}

    def axis(self, what: str) -> str:
        """Title of an axis: `time, ms`."""
        return f"{what}, {self.unit}"
