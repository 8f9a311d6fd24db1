"""Our times of measured kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from armillary.errors import ArmillaryError
from armillary.kernels import seconds
from armillary.kernels.tables import SYSTEMS, Left, Measured
from armillary.platform import Platform


@dataclass(frozen=True, slots=True)
class Predicted:
    """A measured kernel, and our time of it in us."""

    row: Measured
    ours: float

    @property
    def log(self) -> float:
        """ln(ours / measured)."""
        return math.log(self.ours / self.row.us)


Platforms = Callable[[str], Platform]


def shipped_platform(system: str) -> Platform:
    """The preset of a system."""
    return Platform.load(SYSTEMS[system].preset)


def predict(
    rows: Iterable[Measured], platform: Platforms = shipped_platform
) -> Iterator[Predicted | Left]:
    """Our time of each kernel, or why there is none; GPU by GPU."""
    by: dict[str, list[Measured]] = {}
    for row in rows:
        by.setdefault(row.system, []).append(row)
    for system, mine in by.items():
        target = platform(system)
        try:
            times = seconds([row.shape for row in mine], target)
        except ArmillaryError:
            yield from (_alone(row, target) for row in mine)
        else:
            yield from (Predicted(row, 1e6 * time) for row, time in zip(mine, times, strict=True))


def _alone(row: Measured, platform: Platform) -> Predicted | Left:
    try:
        return Predicted(row, 1e6 * seconds([row.shape], platform)[0])
    except ArmillaryError as error:
        return Left(str(error).splitlines()[0])
