"""Sweeps of collectives: predicted times against measured ones."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from armillary.api import collective_us
from armillary.errors import ArmillaryError
from armillary.kernels.tables import Left
from armillary.platform import Platform
from armillary.uncertainty.collectives import Place, place

from ..measured.published import reading
from ..measured.published.file import Row, problem, source
from ..measured.published.machines import Machine, link, of_sweep
from ..measured.published.reading import Part
from ..measured.published.run import Missing
from ..measured.published.sizes import follows
from ..measured.sweeps import SEND, band, repository

OPERATIONS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "reducescatter": "reduce_scatter",
    "sendrecv": SEND,
}
"""Our names of operations, by their letters."""

_TIMES = ("ip_us", "oop_us")
"""In place where it was measured, else out of place; all-to-alls the other way round, since no
library does them in place."""


@dataclass(frozen=True, slots=True)
class Point:
    """A size in bytes as nccl-tests counts them, the measured time and ours, us."""

    size: int
    measured: float
    ours: float
    within: bool
    """Whether the measurement lies in the interval that other sources give."""

    @property
    def log(self) -> float:
        """ln(ours / measured)."""
        return math.log(self.ours / self.measured)

    @property
    def band(self) -> int:
        """Index into `sweeps.BANDS`."""
        return band(self.size)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep and our times."""

    name: str
    operation: str
    gpu: str
    gpus: int
    nodes: int
    grade: str
    source: str
    machine: Machine
    points: tuple[Point, ...]


def predict(measured: Row) -> Sweep | Left:
    """Our times of a sweep, or why there are none."""
    row = Part(measured)
    letters = re.sub(r"[^a-z]", "", row["op"].lower())
    operation = OPERATIONS.get(letters, letters)
    if row.get("grade") == "C":
        return Left("read off a figure or a slide (grade C)")
    times = list(_times(row, _TIMES[::-1] if operation == "all_to_all" else _TIMES))
    if not times:
        return Left("no times, only peaks")
    found = of_sweep(row)
    if isinstance(found, Left):
        return found
    hardware = row["hardware"]
    try:
        follows(row, operation, link(found.gpu))
        reading.check(row, "collectives")
        platform = Platform.load(found.preset, found.settings)
        where = place(platform.describe())
        points = [_point(operation, size, us, platform, where, source(row)) for size, us in times]
    except Missing as missing:
        return Left(str(missing))
    except ArmillaryError as error:
        return Left(f"not predicted: {problem(error)}")
    return Sweep(
        str(row["id"]),
        operation,
        found.gpu,
        hardware["gpus"],
        hardware["nodes"],
        str(row.get("grade", "")),
        source(row),
        found,
        tuple(points),
    )


def _point(
    operation: str, size: int, us: float, platform: Platform, where: Place, left: str
) -> Point:
    ours = predicted_us(operation, size, platform)
    interval = where.interval(operation, size, without=repository(left))
    return Point(size, us, ours, interval.holds(us / ours))


def predicted_us(
    operation: str, size: int, platform: Platform, backend: str | None = None
) -> float:
    """Predicted time of a collective, or of a message through the library, us. A message takes the
    same on every `backend`."""
    if operation != SEND:
        return collective_us(operation, size, platform, backend=backend)
    message = platform._core.library_message(size)
    assert message is not None
    return message / 1e6


def _times(row: Row, columns: tuple[str, ...]) -> Iterator[tuple[int, float]]:
    """Sizes of at least a byte and their times, us. Where only a bandwidth is printed, the time
    follows from it."""
    for point in row["points"]:
        size = point.get("bytes")
        if not size or size < 1:
            continue
        us = next((point[key] for key in columns if point.get(key)), None)
        if us is None:
            rate = point.get("ip_algbw") or point.get("oop_algbw")
            us = size / rate / 1e3 if rate else None
        if us is not None and us > 0:
            yield int(size), float(us)
