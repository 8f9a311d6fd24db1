"""Ranges that `armillary train --trace` records: parts of a step, and exchanges of its own.

Here: which exchange a range begins or waits for, and which part a moment of the host belongs to in
a trace without a device. Not here: collectives that PyTorch carries (`communication.py`). Source:
`armillary_train/profile_ranges.py`, which writes the names."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from .collectives import CommunicationCall, GroupRef
from .kineto import HostOp, Trace
from .steps import PREFIX

_BEGIN = re.compile(r"exchange:begin (\S{1,200}) (all_to_all) (\d{1,18}) (\d{1,18})")
_WAIT = re.compile(r"exchange:wait (\d{1,18})")
_OTHERS = (PREFIX, "Optimizer.")
"""Ranges of PyTorch's own: steps, and optimizers, which are within a part."""
SOURCE = "ranges of armillary train"


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange on one rank: indices into `Trace.ops` of its beginning and of the wait for it."""

    name: str
    begin: int
    wait: int
    call: CommunicationCall


def exchanges(trace: Trace) -> list[Exchange]:
    """The exchanges that a rank both begins and waits for, in the order in which it begins them."""
    begun: dict[int, tuple[int, str, CommunicationCall]] = {}
    found: list[Exchange] = []
    for index, op in enumerate(trace.ops):
        if not op.annotation or not op.name.startswith("exchange:"):
            continue
        if match := _BEGIN.fullmatch(op.name):
            call = CommunicationCall(match[2], int(match[4]), "", GroupRef("default_pg"), SOURCE)
            begun[int(match[3])] = (index, f"{match[1]}.{match[2]}", call)
        elif (match := _WAIT.fullmatch(op.name)) and int(match[1]) in begun:
            first, name, call = begun.pop(int(match[1]))
            found.append(Exchange(name, first, index, call))
    return sorted(found, key=lambda each: each.begin)


def is_exchange(op: HostOp) -> bool:
    """Whether a range begins an exchange or waits for one."""
    return op.annotation and op.name.startswith("exchange:")


class Parts:
    """The innermost range around each moment of a thread, and where that changes."""

    def __init__(self, trace: Trace) -> None:
        self._edges: list[tuple[int, str]] = []
        open_: list[HostOp] = []
        main = _busiest(trace)
        for op in trace.ops:
            if not op.annotation or op.thread != main or op.name.startswith(_OTHERS):
                continue
            self._close(open_, op.start)
            open_.append(op)
            self._edges.append((op.start, op.name))
        self._close(open_, 1 << 63)
        self._starts = [moment for moment, _ in self._edges]

    def _close(self, open_: list[HostOp], moment: int) -> None:
        """Ends the ranges that are over at `moment`."""
        while open_ and open_[-1].end <= moment:
            end = open_.pop().end
            self._edges.append((end, open_[-1].name if open_ else ""))

    def between(self, start: int, end: int) -> list[int]:
        """The moments within a step at which another part begins."""
        return [moment for moment, _ in self._edges if start < moment < end]

    def before(self, moment: int) -> str:
        """The part just before a moment; empty where there is none."""
        place = bisect_right(self._starts, moment - 1) - 1
        name = self._edges[place][1] if place >= 0 else ""
        return "" if name.startswith("exchange:") else name


def _busiest(trace: Trace) -> tuple[str, str] | None:
    """The thread with the most ranges."""
    counts: dict[tuple[str, str], int] = {}
    for op in trace.ops:
        if op.annotation:
            counts[op.thread] = counts.get(op.thread, 0) + 1
    return max(counts, key=lambda thread: counts[thread]) if counts else None
