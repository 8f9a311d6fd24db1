"""How many measurements of left-out sources lie in the intervals that the other sources give, as
rows of a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from armillary.uncertainty import GOAL, LEVEL, Coverage, Intervals, Residual, coverage
from armillary.units import counted

from ..study import StudyRow, limit

WITHIN = f"within {100 * LEVEL:.0f} % intervals"


def rows(
    table: Intervals, what: str, keys: Sequence[Callable[[Residual], str]]
) -> Iterator[StudyRow]:
    """A row of all measurements, one with all factors found without the source, then one of each
    group that one of `keys` makes. `what`: words after "intervals", or none."""
    left_out = list(table.left_out())
    widths = sorted(each.width for _, each in left_out if math.isfinite(each.high))
    middle = math.exp(widths[len(widths) // 2] / 2) if widths else math.nan
    for every in coverage(left_out):
        why = f"{said(every)}; half of the intervals within a factor of {middle:.2f}"
        yield _row(f"{WITHIN}{what}: all", every, why)
    for every in coverage(table.new_sources()):
        yield _row(f"{WITHIN}{what} that no factor of the source took part in", every, said(every))
    for key in keys:
        for each in coverage(left_out, key):
            yield _row(f"{WITHIN}{what}: {each.name}", each, said(each))


def said(of: Coverage) -> str:
    """Sources, and the range that so few of them leave the part, as a phrase. It says if the part
    is not what it should be, and whether the range holds a part that is."""
    found = f"{counted(of.sources, 'source')}; {100 * of.low:.0f} to {100 * of.high:.0f} %"
    if of.met:
        return found
    band = f"{100 * GOAL[0]:.0f} to {100 * GOAL[1]:.0f}"
    return f"{found}; the range {'does not reach' if of.apart else 'reaches'} {band} %"


def _row(setup: str, of: Coverage, why: str) -> StudyRow:
    name = f"{setup} ({of.measurements})"
    return StudyRow(name, "analytical", limit(None, "="), 100 * of.part, "%", why)
