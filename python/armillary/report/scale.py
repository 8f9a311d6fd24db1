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
        """The largest unit that gives `longest_ns` at least two digits before the point."""
        for ns, unit in TIMES:
            if longest_ns >= 10 * ns:
                return cls(unit, ns)
        return cls("ns", 1.0)

    def calculate(self, field: str, to: str) -> dict[str, Any]:
        """A Vega-Lite transform: the ns of `field` in this unit, as `to`."""
        return {"calculate": f"datum['{field}'] / {self.ns:.0f}", "as": to}

    def axis(self, what: str) -> str:
        """Title of an axis: `time, ms`."""
        return f"{what}, {self.unit}"
