"""Which part of the model a moment of the host belongs to: the outermost annotation around it.

Here: annotations that people and optimizers put into a run (`record_function`). Not here: steps,
and messages, which PyTorch marks by annotations too (`steps.py`, `communication.py`). Model: an
annotation on the thread itself counts before one on another: PyTorch's backward thread works while
the thread that called it stands inside its annotation."""

from __future__ import annotations

from bisect import bisect_right

from .kineto import HostOp, Thread, Trace
from .steps import PREFIX

_NOT_PARTS = (PREFIX, "nccl:", "gloo:", "mpi:", "DistributedDataParallel.")


class Annotations:
    """The outermost annotations of a trace, by thread and over all of them."""

    def __init__(self, trace: Trace) -> None:
        parts = [op for op in trace.ops if op.annotation and not op.name.startswith(_NOT_PARTS)]
        by_thread: dict[Thread, list[HostOp]] = {}
        for op in parts:
            by_thread.setdefault(op.thread, []).append(op)
        self._by_thread = {thread: _Outermost(ops) for thread, ops in by_thread.items()}
        self._all = _Outermost(parts)

    def at(self, thread: Thread, moment: int) -> str:
        """Name of the part that `thread` works on at `moment`; empty where that is unknown."""
        own = self._by_thread.get(thread)
        return (own.at(moment) if own else "") or self._all.at(moment)


class _Outermost:
    """Annotations that no other contains; `ops` by start."""

    def __init__(self, ops: list[HostOp]) -> None:
        self.ops: list[HostOp] = []
        for op in ops:
            if not self.ops or op.end > self.ops[-1].end:
                self.ops.append(op)
        self.starts = [op.start for op in self.ops]

    def at(self, moment: int) -> str:
        place = bisect_right(self.starts, moment) - 1
        # The earlier one of two that overlap is the outer one.
        around = [
            op for op in self.ops[max(place - 1, 0) : place + 1] if op.start <= moment < op.end
        ]
        return around[0].name if around else ""
