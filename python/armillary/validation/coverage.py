"""How many measurements of left-out sources lie in the intervals that the other sources give, as
rows of a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ..study import StudyRow, limit
from ..uncertainty import LEVEL, Intervals, Residual


def rows(
    table: Intervals, what: str, keys: Sequence[Callable[[Residual], str]], sure: int
) -> Iterator[StudyRow]:
    """A row of all measurements, then one of each group that one of `keys` makes. `what`: words
    after "intervals", or none; `sure`: fewest measurements of a group that say much."""
    widths = [each.width for _, each in table.left_out() if math.isfinite(each.high)]
    middle = math.exp(sorted(widths)[len(widths) // 2] / 2) if widths else math.nan
    for key in (lambda _: "all", *keys):
        for each in table.coverage(key):
            small = "; few measurements" if each.measurements < sure else ""
            why = f"{each.sources} sources{small}"
            if each.name == "all":
                why += f"; half of the intervals within a factor of {middle:.2f}"
            yield StudyRow(
                f"within {100 * LEVEL:.0f} % intervals{what}: {each.name} ({each.measurements})",
                "analytical",
                limit(None, "="),
                100 * each.part,
                "%",
                why,
            )
