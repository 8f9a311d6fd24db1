"""Names for the parts of a step, which profiles record.

Here: ranges of time with a name, and those of exchanges with what an import needs of them. Not
here: the profiler (`recording.py`), what an import makes of ranges (`workload/importer`).

A part has the name of the operation that stands for it in a generated workload
(`workload/dlrm_flow.py`), so that a recorded step and a predicted one can be compared part by part.
An exchange has two ranges: where this rank begins it, and where it waits for the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

Range = AbstractContextManager[object]

_OFF: Range = nullcontext()

_NAMES = {
    "indices": "indices.forward",
    "rows": "embedding.forward",
    "gradients": "embedding.input_gradient",
    "row_sums": "embedding.row_sums",
    "mlp_gradients": "mlp.weight_gradient",
    "other": "meeting",
}
"""What is sent -> the operation after which it is sent."""


class _Switch:
    """Whether a profile is under way in this process."""

    on = False


@contextmanager
def recorded() -> Iterator[None]:
    """Makes ranges within; outside they cost next to nothing."""
    _Switch.on = True
    try:
        yield
    finally:
        _Switch.on = False


def part(name: str) -> Range:
    """The range of a part of the step."""
    return torch.profiler.record_function(name) if _Switch.on else _OFF


def begins(kind: str, number: int, count: int) -> Range:
    """The range in which this rank begins its exchange `number` and hands in `count` bytes."""
    if not _Switch.on:
        return _OFF
    name = _NAMES.get(kind, kind)
    return torch.profiler.record_function(f"exchange:begin {name} all_to_all {number} {count}")


def waits(number: int) -> Range:
    """The range in which this rank waits for the other ranks' parts of its exchange `number`."""
    return torch.profiler.record_function(f"exchange:wait {number}") if _Switch.on else _OFF
