"""Rows of numbers on their way between ranks, and the format of each of their parts.

Here: rows as data, without torch. Not here: formats (`model/messages.py`), conversion
(`number_formats.py`).

Pooled rows of a rank's streams stand side by side. Each of them is a segment with a scale of its
own, so that a large table does not take the bits of a small one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Literal, NamedTuple

from armillary.model.messages import WIDTHS, Format, Messages

from .sharding import Stream, Streams

Way = Literal["rows", "gradients"]
"""Pooled rows, or their gradients."""


class Segment(NamedTuple):
    """Neighbouring columns of a row: `times` times `width` of them."""

    width: int
    format: Format
    times: int = 1

    @property
    def elements(self) -> int:
        """Numbers."""
        return self.width * self.times

    @property
    def bytes(self) -> int:
        """Bytes of a row on the wire."""
        return WIDTHS[self.format].bytes(self.elements, self.times)


class Block(NamedTuple):
    """Rows that look alike."""

    rows: int
    row: tuple[Segment, ...]

    @property
    def elements(self) -> int:
        """Numbers."""
        return self.rows * sum(segment.elements for segment in self.row)

    @property
    def bytes(self) -> int:
        """On the wire."""
        return self.rows * sum(segment.bytes for segment in self.row)


def row(segments: Iterable[tuple[int, Format]]) -> tuple[Segment, ...]:
    """A row of these widths and formats. Neighbours are joined where that changes nothing."""
    found = []
    for (format_, width), same in groupby(
        segments, lambda each: (each[1], 0 if WIDTHS[each[1]].row == 0 else each[0])
    ):
        group = [each for each, _ in same]
        found.append(Segment(width, format_, len(group)) if width else Segment(sum(group), format_))
    return tuple(found)


def direct_row(placement: Streams, rank: int, messages: Messages, way: Way) -> tuple[Segment, ...]:
    """A row of what a rank sends straight to the samples' ranks, or of its gradients."""
    return row(
        (len(each.columns), stream_format(placement, each, messages, way))
        for each in placement.direct(rank)
    )


def stream_format(placement: Streams, stream: Stream, messages: Messages, way: Way) -> Format:
    """Format of the rows of a stream, or of their gradients."""
    if way == "gradients":
        return messages.backward
    cut = placement.planned(stream.feature).scheme in ("row", "table_row")
    return messages.reduce_scatter if cut else messages.forward


def node_part_row(
    placement: Streams, rank: int, messages: Messages, way: Way
) -> tuple[Segment, ...]:
    """A row of what a rank sends within its node to be added up, or of its gradients."""
    return row(
        (len(each.columns), stream_format(placement, each, messages, way))
        for each in placement.node(rank)
    )


def node_sum_row(
    placement: Streams, node: int, messages: Messages, way: Way
) -> tuple[Segment, ...]:
    """A row of what is added up in a node, or of its gradients."""
    format_ = messages.forward if way == "rows" else messages.backward
    return row((width, format_) for width in placement.node_widths(node))


def copied_row(placement: Streams, messages: Messages) -> tuple[Segment, ...]:
    """A row of gradients of copied tables."""
    dims = (placement.tables[placement.table_of[feature]].dim for feature in placement.data)
    return row((dim, messages.backward) for dim in dims)


def blocks(counts: Iterable[int], rows: Iterable[tuple[Segment, ...]]) -> list[list[Block]]:
    """One block for each rank."""
    return [[Block(count, each)] for count, each in zip(counts, rows, strict=True)]
