"""Errors of kernels that no fit has seen: of a generation of GPUs, or of whole shapes.

*Generation left out*: the generation is predicted with its data sheet and the parameters of its
sibling, the generation whose multiprocessors are most alike (`SIBLING`). The two have no measured
kernel in common. Formats that only one generation measured are left aside. *Shapes left out*:
shapes are dealt into five parts by a checksum, so that a shape is in one part with all its
libraries, versions and formats. Each part is predicted by a fit to the other four."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from armillary.kernels import Combine, Dispatch
from armillary.kernels.tables import SYSTEMS, Measured
from armillary.platform import Platform

from ...predict.measured_kernels import Predicted, predict
from .search import Problem, Values

PARTS = 5
"""Parts into which shapes are dealt."""
Left = Iterator[tuple[Measured, float]]
"""Rows that a fit has not seen, and ln(ours / measured)."""


SIBLING = {"ampere": "ada", "ada": "ampere", "hopper": "blackwell", "blackwell": "hopper"}
"""The generation whose multiprocessors multiply most alike: by instructions of a warp, or by those
of several warps that read shared memory."""


def generations(
    rows: Sequence[Measured], of: Callable[[str], Mapping[str, object]]
) -> Iterator[Predicted]:
    """Each row of one kind, predicted with the parameters of the sibling of its generation. `of`
    gives the parameters of a kind that a generation has, as platform files write them."""

    def platform(system: str) -> Platform:
        each = SYSTEMS[system]
        kind = rows[0].shape.kind
        return Platform.load(each.preset, {f"npu.kernels.{kind}": of(SIBLING[each.generation])})

    by: dict[str, set[str]] = {}
    for row in rows:
        by.setdefault(_format(row), set()).add(generation(row))
    shared = [row for row in rows if len(by[_format(row)]) > 1]
    return (found for found in predict(shared, platform) if isinstance(found, Predicted))


def _format(row: Measured) -> str:
    """The format, and for exchanges whether there is a network between the ranks. A generation
    stands for another only where it has measured both."""
    far = isinstance(row.shape, Dispatch | Combine) and row.shape.ep > _NODE
    return str(getattr(row.shape, "format", "")) + " far" * far


_NODE = 8
_WORDS = ("format", "weights", "source", "kernels")


def measured_elsewhere(rows: Sequence[Measured]) -> Callable[[Measured], bool]:
    """Whether another generation measured the format and the library of a row."""
    by: dict[str, set[str]] = {}
    for row in rows:
        by.setdefault(_words(row), set()).add(generation(row))
    return lambda row: len(by[_words(row)]) > 1


def _words(row: Measured) -> str:
    return " ".join(str(getattr(row.shape, name, "")) for name in _WORDS)


def shapes(rows: Sequence[Measured], keys: Sequence[str], start: Values) -> Left:
    """Each fifth of the shapes, predicted by a fit to the others; all `rows` are of one generation.
    Exchanges by a library that was measured with one layer alone are left aside."""
    parts: dict[str, set[int]] = {}
    for row in rows:
        parts.setdefault(_backend(row), set()).add(part_of(row))
    kept = [row for row in rows if len(parts[_backend(row)]) > 1]
    for part in range(PARTS):
        yield from _left(kept, keys, start, [part_of(row) == part for row in kept])


def ranks(rows: Sequence[Measured], keys: Sequence[str], start: Values) -> Left:
    """Exchanges of each number of ranks, predicted by a fit to the other numbers of the same
    library. A number that is alone with its library is left aside."""
    found = {(_backend(row), _ranks(row)) for row in rows}
    for library, number in sorted(found):
        if sum(each == library for each, _ in found) > 1:
            left = [(_backend(row), _ranks(row)) == (library, number) for row in rows]
            mine = [key for key in keys if key.split(".")[1] == library]
            yield from _left(rows, mine, start, left)


def _backend(row: Measured) -> str:
    return str(getattr(row.shape, "backend", ""))


def _ranks(row: Measured) -> int:
    return int(getattr(row.shape, "ep", 0))


def generation(row: Measured) -> str:
    """Generation of the GPU of a row."""
    return SYSTEMS[row.system].generation


def part_of(row: Measured) -> int:
    """Part that a row is in, by its counts alone. Exchanges of experts are dealt by the layer, with
    all their tokens, multiprocessors and ranks."""
    shape = row.shape
    exchange = isinstance(shape, Dispatch | Combine)
    names = ("hidden", "experts", "top_k") if exchange else type(shape).__dataclass_fields__
    counts = [(name, getattr(shape, name)) for name in names]
    text = repr([pair for pair in counts if isinstance(pair[1], int)])
    return zlib.crc32(text.encode()) % PARTS


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
