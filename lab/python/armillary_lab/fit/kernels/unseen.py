"""Errors of kernels that no fit has seen: of a generation of GPUs, or of whole shapes.

*Generation left out*: the parameters are fitted to the rows of all other generations together, and
predict the generation with its data sheet alone. *Shapes left out*: shapes are dealt into five
parts by a checksum, so that a shape is in one part with all its libraries, versions and formats.
Each part is predicted by a fit to the other four."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from ...measured.kernels.rows import SYSTEMS, Measured
from .search import Problem, Values

_PARTS = 5
Left = Iterator[tuple[Measured, float]]
"""Rows that a fit has not seen, and ln(ours / measured)."""


def generations(rows: Sequence[Measured], keys: Sequence[str], start: Values) -> Left:
    """Each generation, predicted by a fit to the others."""
    for name in dict.fromkeys(map(generation, rows)):
        out = [generation(row) == name for row in rows]
        yield from _left(rows, keys, start, out)


def shapes(rows: Sequence[Measured], keys: Sequence[str], start: Values) -> Left:
    """Each fifth of the shapes, predicted by a fit to the others; all `rows` are of one
    generation."""
    for part in range(_PARTS):
        yield from _left(rows, keys, start, [part_of(row) == part for row in rows])


def generation(row: Measured) -> str:
    """Generation of the GPU of a row."""
    return SYSTEMS[row.system].generation


def part_of(row: Measured) -> int:
    """Part that a row is in, by its counts alone."""
    shape = row.shape
    counts = [(name, getattr(shape, name)) for name in type(shape).__dataclass_fields__]
    text = repr([pair for pair in counts if isinstance(pair[1], int)])
    return zlib.crc32(text.encode()) % _PARTS


def _left(
    rows: Sequence[Measured],
    keys: Sequence[str],
    start: Values,
    out: Sequence[bool],
) -> Left:
    seen = [row for row, left in zip(rows, out, strict=True) if not left]
    unseen = Problem([row for row, left in zip(rows, out, strict=True) if left], keys)
    values = Problem(seen, keys).fit(start)
    yield from zip(unseen.rows, unseen.logs(values).tolist(), strict=True)
