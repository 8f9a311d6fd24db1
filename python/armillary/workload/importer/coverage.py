"""Which parts of a recording are in the programs, and which are not, with the reason. Data only;
times in picoseconds.

Here: the counts of one rank and their sum. A share is of device time (kernels, copies, fills) or of
counts; explained means placed in the program with a known launch, for collectives placed with a
known size. Nothing is left out silently."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Omission:
    """Operations that were left out or changed, and the reason."""

    what: str
    count: int
    time_ps: int
    why: str


@dataclass(frozen=True)
class Coverage:
    """One rank. Device operations are kernels, copies and fills; `step_*` are those of the imported
    step."""

    rank: int
    file: str
    device: str
    step: int
    span_ps: int
    recorded_ps: int
    """The step time to be replayed."""
    skew_ps: int
    """How much later than the first rank's this rank's step began."""
    replayed_ps: int
    """The step time of the program with every duration as recorded, -1 where that was not
    simulated."""
    lag_before_ps: int
    lag_after_ps: int
    operations: int
    """Nodes of the program."""
    device_ops: int
    device_ps: int
    step_ops: int
    step_ps: int
    kernels: int
    launched_ops: int
    """Operations of the step whose launching call is known."""
    launched_ps: int
    collectives: int
    sized: int
    messages: int
    host_ops: int
    matched_ops: int
    """Operators of the execution trace matched with Kineto's."""
    matched_by: str
    waits_recorded: int
    waits_inferred: int
    dropped: int
    host_ps: int
    waited_ps: int
    late_ps: int
    overlapped_ps: int
    omissions: tuple[Omission, ...] = ()

    @property
    def deviation(self) -> float:
        """How far the replayed step is from the recorded one, as a share of it; 0 where it was not
        simulated."""
        return (
            self.replayed_ps / self.recorded_ps - 1
            if self.replayed_ps >= 0 and self.recorded_ps
            else 0.0
        )

    @property
    def device_share(self) -> float:
        """Share of the step's device time with a known launch; 1 for a step without device work."""
        return self.launched_ps / self.step_ps if self.step_ps else 1.0

    @property
    def launch_share(self) -> float:
        """Share of the step's device operations with a known launch."""
        return self.launched_ops / self.step_ops if self.step_ops else 1.0

    @property
    def sized_share(self) -> float:
        """Share of the step's collectives with a known size."""
        return self.sized / self.collectives if self.collectives else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain data with the shares, for JSON."""
        shares = {
            "device": self.device_share,
            "launches": self.launch_share,
            "collectives": self.sized_share,
        }
        return {**asdict(self), "deviation": self.deviation, "shares": shares}


_SUMMED = [
    "operations",
    "device_ops",
    "device_ps",
    "step_ops",
    "step_ps",
    "kernels",
    "launched_ops",
    "launched_ps",
    "collectives",
    "sized",
    "messages",
    "host_ops",
    "matched_ops",
    "waits_recorded",
    "waits_inferred",
    "dropped",
    "host_ps",
    "waited_ps",
    "late_ps",
    "overlapped_ps",
]


def total(parts: Iterable[Coverage]) -> Coverage:
    """All ranks together; times of the longest step, rank -1."""
    rows = list(parts)
    slowest = max(rows, key=lambda row: row.recorded_ps)
    sums = {name: sum(getattr(row, name) for row in rows) for name in _SUMMED}
    values = {field.name: getattr(slowest, field.name) for field in fields(Coverage)}
    return Coverage(**{**values, **sums, "rank": -1, "file": "", "omissions": _merged(rows)})


def _merged(rows: Iterable[Coverage]) -> tuple[Omission, ...]:
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in rows:
        for entry in row.omissions:
            count, time = found.get((entry.what, entry.why), (0, 0))
            found[entry.what, entry.why] = (count + entry.count, time + entry.time_ps)
    return tuple(Omission(what, count, time, why) for (what, why), (count, time) in found.items())
