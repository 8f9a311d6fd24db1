"""Whether the recorded ranks' collectives meet, and what sizes they agree on.

Here: the k-th call on a group on one rank is the k-th on every other. Kinds and counts must agree;
sizes may differ where a collective is uneven (an all-to-all by splits): then each member gets the
mean, which keeps the total (of a rooted one the largest, for only the root may have data). A size
that only some ranks know holds for all. Not here: ranks that were not recorded (`spread.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...errors import InputError, Problem
from .collectives import CommunicationCall
from .groups import Members


@dataclass
class Placed:
    """A call of one rank with its group's members, in the order of issue."""

    call: CommunicationCall
    members: Members
    item: int
    """Index of the timeline's item, -1 for a host operator's call."""


@dataclass
class Uneven:
    """A collective whose members handed in different sizes."""

    kind: str
    least: int
    most: int
    mean: int


@dataclass
class Agreed:
    """Sizes settled; what was uneven, and how many calls have no size anywhere."""

    uneven: list[Uneven] = field(default_factory=list)
    borrowed: int = 0
    """Calls that took their size from another rank."""


def agree(calls: dict[int, list[Placed]], files: dict[int, str]) -> Agreed:
    """Settles sizes in `calls` (by rank) in place. Raises `InputError` naming the first
    disagreement of each group."""
    groups: dict[Members, dict[int, list[Placed]]] = {}
    for rank, placed in calls.items():
        for entry in placed:
            if entry.call.kind not in ("send", "recv"):
                groups.setdefault(entry.members, {}).setdefault(rank, []).append(entry)
    agreed, problems = Agreed(), []
    for members, by_rank in groups.items():
        present = {rank: by_rank.get(rank, []) for rank in calls if rank in members}
        fault = _disagreement(members, present, files)
        if fault:
            problems.append(fault)
            continue
        for row in zip(*present.values(), strict=True):
            _settle(row, agreed)
    if problems:
        raise InputError(problems)
    return agreed


def _disagreement(
    members: Members, present: dict[int, list[Placed]], files: dict[int, str]
) -> Problem | None:
    group = (
        f"group of {len(members)} ({members[0]}..{members[-1]})"
        if len(members) > 8
        else f"group {list(members)}"
    )
    first, *others = present
    help_ = "traces of one run and one step; --step N for another step"
    for rank in others:
        left, right = present[first], present[rank]
        for k, (a, b) in enumerate(zip(left, right, strict=False)):
            if a.call.kind != b.call.kind and "unknown" not in (a.call.kind, b.call.kind):
                said = f"call {k} is {a.call.kind} on rank {first} and {b.call.kind} on rank {rank}"
                return Problem(files[rank], group, said, help_)
        if len(left) != len(right):
            said = (
                f"rank {first} calls it {len(left)} times in the step, rank {rank} "
                f"{len(right)} times"
            )
            return Problem(files[rank], group, said, help_)
    return None


def _settle(row: tuple[Placed, ...], agreed: Agreed) -> None:
    sizes = [entry.call.bytes for entry in row if entry.call.bytes >= 0]
    if not sizes:
        return
    rooted = row[0].call.kind in ("broadcast", "reduce", "scatter", "gather")
    mean = max(sizes) if rooted else -(-sum(sizes) // len(sizes))
    if min(sizes) != max(sizes):
        agreed.uneven.append(Uneven(row[0].call.kind, min(sizes), max(sizes), mean))
    kind = next(entry.call.kind for entry in row if entry.call.bytes >= 0)
    for entry in row:
        agreed.borrowed += entry.call.bytes < 0
        entry.call = replace(entry.call, bytes=mean, kind=kind)
