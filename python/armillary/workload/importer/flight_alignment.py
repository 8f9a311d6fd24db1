"""Which calls of the flight recorders of all ranks meet, and which ranks are missing.

Here: calls of a group by their number, which is the same on all of its members, and which calls
that were made together share; sends and their receives; the calls that some member had not made
when the dumps were written. A job that hangs waits in one of those. Not here: the dumps
(`flight_recorder.py`), programs (`flight_run.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...errors import InputError, Problem
from ...units import counted
from .flight_recorder import FlightCall
from .groups import Members

_SHOWN = 8
_EQUAL = frozenset({"all_reduce", "broadcast", "reduce"})
"""Collectives whose members have equal sizes."""


@dataclass(frozen=True)
class Missing:
    """A call that some members of its group had not made, although others wait in it."""

    call: str
    bytes: int
    """Bytes of one rank; -1 where the dump does not say."""
    ranks: tuple[int, ...]
    """Ranks that had not made it."""
    waiting: tuple[int, ...]
    last: tuple[str, ...]
    """Last recorded call of each of the first few `ranks`."""
    first: bool
    """Whether a missing rank waits in no other call that is listed."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @property
    def text(self) -> str:
        """For a reader."""
        size = f", {self.bytes:,} bytes" if self.bytes > 0 else ""
        verb = "has" if len(self.ranks) == 1 else "have"
        wait = "waits" if len(self.waiting) == 1 else "wait"
        last = f"; its last call is {self.last[0]}" if len(self.ranks) == 1 else ""
        found = (
            f"{self.call}{size}: {_named(self.ranks)} {verb} not called it, "
            f"{_named(self.waiting)} {wait}{last}"
        )
        return found if self.first else found + ". All missing ranks wait in another call"


@dataclass
class Aligned:
    """Calls of each rank that all members made, and those that were left out."""

    calls: dict[int, list[FlightCall]]
    missing: list[Missing]
    early: int = 0
    """Calls that some member's buffer no longer had."""
    late: int = 0
    """Calls that some member had not made."""


Numbered = dict[int, list[FlightCall]]
"""Collectives of a group on one rank by their numbers."""
Calls = Mapping[int, Sequence[tuple[FlightCall, Members]]]
"""Calls of each rank with the members of their groups, in their order."""


def align(ranks: Calls, files: Mapping[int, str]) -> Aligned:
    """The calls that meet. Raises `InputError` for calls that contradict each other, and for
    messages whose first part is lost."""
    return _Alignment(ranks, files).run()


class _Alignment:
    def __init__(self, ranks: Calls, files: Mapping[int, str]) -> None:
        self.ranks, self.files = ranks, files
        self.kept = {rank: set[int]() for rank in ranks}
        self.cut = {rank for rank, calls in ranks.items() if calls[0][0].record > 0}
        """Ranks whose buffer no longer has their first calls."""
        self.aligned = Aligned({}, [])

    def run(self) -> Aligned:
        groups: dict[Members, dict[int, Numbered]] = {}
        for rank, calls in self.ranks.items():
            for call, members in calls:
                if not call.is_message:
                    own = groups.setdefault(members, {}).setdefault(rank, {})
                    own.setdefault(call.sequence, []).append(call)
        for members, by_rank in groups.items():
            self._collectives([rank for rank in members if rank in self.ranks], by_rank)
        self._messages()
        self.aligned.missing = _ordered(self.aligned.missing)
        for rank, calls in self.ranks.items():
            kept = [call for call, _ in calls if call.record in self.kept[rank]]
            self.aligned.calls[rank] = kept
        if not any(self.aligned.calls.values()):
            found = [each.text for each in self.aligned.missing[:_SHOWN]]
            said = "; ".join(["no call was made by all members of its group", *found])
            known = "dumps of every rank of one run, written at the same time"
            raise InputError([Problem("", "entries", said, known)])
        return self.aligned

    def _collectives(self, present: Sequence[int], by_rank: Mapping[int, Numbered]) -> None:
        """One group's calls, by their numbers."""
        if any(rank not in by_rank and rank in self.cut for rank in present):
            self.aligned.early += sum(
                len(calls) for own in by_rank.values() for calls in own.values()
            )
            return
        newest = {rank: max(by_rank.get(rank, (0,))) for rank in present}
        first, until = max(min(calls) for calls in by_rank.values()), min(newest.values())
        made = {
            number: {rank: by_rank[rank].get(number, []) for rank in present}
            for number in range(first, until + 1)
        }
        # Calls that were made together may be cut, by the buffer and by the end of the job.
        if made and self.cut.intersection(present) and _differ(made[first]):
            del made[first]
            first += 1
        if made and _differ(made[until]):
            counts = {rank: len(calls) for rank, calls in made.pop(until).items()}
            waiting = [rank for rank in present if counts[rank] == max(counts.values())]
            call = by_rank[waiting[0]][until][min(counts.values())]
            until -= 1
        elif until < max(newest.values()):
            waiting = [rank for rank in present if newest[rank] > until]
            later = by_rank[waiting[0]]
            call = later[min(number for number in later if number > until)][0]
        else:
            waiting = []
        if waiting:
            absent = tuple(rank for rank in present if rank not in waiting)
            self._miss(call, absent, tuple(waiting))
        for rank, own in by_rank.items():
            for number, calls in own.items():
                if number > until:
                    self.aligned.late += len(calls)
                elif number < first:
                    self.aligned.early += len(calls)
                else:
                    self.kept[rank].update(call.record for call in calls)
        for number, by_member in made.items():
            self._meet(by_member, number)

    def _meet(self, calls: Mapping[int, Sequence[FlightCall]], number: int) -> None:
        """Raises `InputError` where members made different calls."""
        (one, first), *others = calls.items()
        for rank, second in others:
            if len(first) != len(second):
                said = (
                    f"has {counted(len(second), 'call')} with the number {number:,} of a group, "
                    f"and rank {one} has {len(first)}"
                )
                raise InputError([Problem(self.files[rank], "entries", said, "whole dumps")])
            for ours, theirs in zip(first, second, strict=True):
                self._compare((one, ours), (rank, theirs))

    def _compare(self, first: tuple[int, FlightCall], second: tuple[int, FlightCall]) -> None:
        (one, ours), (rank, theirs) = first, second
        kinds = (ours.call.kind, theirs.call.kind)
        sizes = (ours.call.bytes, theirs.call.bytes)
        if kinds[0] != kinds[1]:
            said = f"is {ours.name} on rank {one} and {theirs.name} on rank {rank}"
        elif kinds[0] in _EQUAL and min(sizes) >= 0 and sizes[0] != sizes[1]:
            said = f"has {sizes[0]:,} bytes on rank {one} and {sizes[1]:,} on rank {rank}"
        else:
            return
        where = f"collective {ours.sequence:,} of group {ours.label}"
        allowed = "calls that all ranks of a group make alike; this job hangs or goes wrong"
        raise InputError([Problem(self.files[rank], where, said, allowed)])

    def _messages(self) -> None:
        """Sends with their receives: the first with the first, and so on."""
        for (_, source, target), calls in self._ways().items():
            for rank in {source, target} & self.cut:
                said = "no longer has its first calls, and messages can't be paired without them"
                allowed = "a dump with a larger TORCH_FR_BUFFER_SIZE, or one of an earlier step"
                raise InputError([Problem(self.files[rank], "entries", said, allowed)])
            sends, receives = calls.get("send", []), calls.get("recv", [])
            pairs = min(len(sends), len(receives))
            for rank, ours in ((source, sends), (target, receives)):
                if rank in self.kept:
                    self.kept[rank].update(call.record for call in ours[:pairs])
            self.aligned.late += len(sends) + len(receives) - 2 * pairs
            if len(sends) != len(receives):
                sent = len(sends) > pairs
                waiting, absent = (source, target) if sent else (target, source)
                if absent in self.ranks:
                    self._miss((sends if sent else receives)[pairs], (absent,), (waiting,))

    def _ways(self) -> dict[tuple[Members, int, int], dict[str, list[FlightCall]]]:
        """Messages by group, source and target, sends and receives apart."""
        found: dict[tuple[Members, int, int], dict[str, list[FlightCall]]] = {}
        for rank, calls in self.ranks.items():
            for call, members in calls:
                if not call.is_message:
                    continue
                if call.call.peer >= len(members):
                    said = f"names member {call.call.peer} of a group of {len(members)}"
                    allowed = "one of its members"
                    raise InputError([Problem(self.files[rank], call.title, said, allowed)])
                peer = members[call.call.peer]
                way = (rank, peer) if call.call.kind == "send" else (peer, rank)
                found.setdefault((members, *way), {}).setdefault(call.call.kind, []).append(call)
        return found

    def _miss(self, call: FlightCall, absent: Members, waiting: Members) -> None:
        last = tuple(self.ranks[rank][-1][0].title for rank in absent[:_SHOWN])
        self.aligned.missing.append(
            Missing(call.title, call.call.bytes, absent, waiting, last, True)
        )


def _differ(calls: Mapping[int, Sequence[FlightCall]]) -> bool:
    """Whether ranks made different numbers of calls."""
    return len({len(own) for own in calls.values()}) > 1


def _ordered(missing: list[Missing]) -> list[Missing]:
    """First the calls with a missing rank that waits nowhere else: it is to be looked at."""
    waiting = {rank for each in missing for rank in each.waiting}
    found = [replace(each, first=not waiting.issuperset(each.ranks)) for each in missing]
    return sorted(found, key=lambda each: (not each.first, -len(each.waiting), each.call))


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > _SHOWN:
        return f"{counted(len(ranks), 'rank')} ({ranks[0]}, {ranks[1]}, ...)"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
