"""Names for the parts of a step, which profiles record.

Here: ranges of time with a name, and those of exchanges with what an import needs of them. Not
here: the profiler (`run/profiler.py`), what an import makes of ranges (`workload/importer`).

A part has the name of the operation that stands for it in a generated workload
(`workload/dlrm_flow.py`), so that a recorded step and a predicted one can be compared part by part.
An exchange has two ranges: where this rank begins it, and where it waits for the others.

A step has about 80 ranges. They are recorded either by PyTorch's profiler, together with all
operators, or by themselves (`stamped`): the profiler makes a step of small kernels 10 to 20 %
longer, and a range by itself takes 0.5 us."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Self

import torch

Range = AbstractContextManager[object]

_OFF: Range = nullcontext()

Stamp = tuple[str, int, int]
"""Name, beginning and end in ns since 1970."""

_NAMES = {
    "indices": "indices.forward",
    "rows": "embedding.forward",
    "gradients": "embedding.input_gradient",
    "row_sums": "embedding.row_sums",
    "mlp_gradients": "mlp.weight_gradient",
    "other": "meeting",
}
"""Kind of messages -> the operation after which they are sent."""


class _Switch:
    """Whether ranges are recorded in this process."""

    on = False
    stamps: list[Stamp] | None = None
    """Where ranges go that PyTorch's profiler does not record."""


@contextmanager
def recorded() -> Iterator[None]:
    """Makes ranges within, for PyTorch's profiler; outside they cost next to nothing."""
    _Switch.on = True
    try:
        yield
    finally:
        _Switch.on = False


@contextmanager
def stamped(into: list[Stamp]) -> Iterator[None]:
    """Adds ranges within to `into`, without the profiler."""
    _Switch.stamps = into
    try:
        with recorded():
            yield
    finally:
        _Switch.stamps = None


class _Stamped:
    """A range that records itself."""

    __slots__ = ("begin", "name", "stamps")

    def __init__(self, name: str, stamps: list[Stamp]) -> None:
        self.name, self.stamps, self.begin = name, stamps, 0

    def __enter__(self) -> Self:
        self.begin = time.time_ns()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stamps.append((self.name, self.begin, time.time_ns()))


def step(number: int) -> Range:
    """The range of a step, named as PyTorch's own profiler names it."""
    return _range(f"ProfilerStep#{number}") if _Switch.on else _OFF


def part(name: str) -> Range:
    """The range of a part of the step."""
    return _range(name) if _Switch.on else _OFF


def begins(kind: str, number: int, count: int) -> Range:
    """The range in which this rank begins its exchange `number` and hands in `count` bytes."""
    if not _Switch.on:
        return _OFF
    name = _NAMES.get(kind, kind)
    return _range(f"exchange:begin {name} all_to_all {number} {count}")


def waits(number: int) -> Range:
    """The range in which this rank waits for the other ranks' parts of its exchange `number`."""
    return _range(f"exchange:wait {number}") if _Switch.on else _OFF


def _range(name: str) -> Range:
    stamps = _Switch.stamps
    return torch.profiler.record_function(name) if stamps is None else _Stamped(name, stamps)
