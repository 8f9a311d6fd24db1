"""Attention of a captured model under context parallelism: each rank its part of the sequence.

Here: from a captured kernel on a rank to the steps of its exchange. Not here: the exchanges
(`attention.py`)."""

from __future__ import annotations

from ..capture.records import Operation
from .attention import AttentionSizes, Core, fused
from .parallelism import Parallelism
from .script import Script, Scripts, named


def exchanged(each: Operation, par: Parallelism, prefix: str) -> Script:
    """The steps of one pass of a kernel with the sizes of a rank. It reads queries, keys and
    values first."""
    queries, keys, values = each.reads[:3]
    result = each.reads[-1] if each.backward else each.writes[0]
    sizes = AttentionSizes(queries.bytes, result.bytes, keys.bytes + values.bytes)
    unmasked = not each.name.startswith("attention")
    whole = Core(sizes, each.flops, each.flops, par.cp, unmasked)
    forward, backward = fused(whole, par.cp_comm_type)
    return named(Scripts(forward, backward, (), ()), prefix)[int(each.backward)]
