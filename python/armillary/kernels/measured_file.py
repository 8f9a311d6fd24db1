"""The file of a platform's measured kernels, which `npu.kernels.measured` names.

`armillary import` writes it: JSON, and in it one group for each kind of kernel and each choice of
its words (formats, libraries), with the numbers of each shape and the measured time in columns.
Repeated measurements are rows of their own."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from ..declared import Note, Within, Wrong, open_source, read
from ..errors import InputError
from .shapes import KINDS, Shape

SCHEMA: Literal["armillary.measured_kernels/1"] = "armillary.measured_kernels/1"
_WHAT = "a file of measured kernels, as armillary import writes it"
_Number = Annotated[int, Within(0, 10**18)]
_Us = Annotated[float, Within(1e-3, 1e9)]

Words = tuple[tuple[str, str], ...]
"""Parts of a shape that are words, in the order of its fields."""
Numbers = tuple[int, ...]
"""Parts of a shape that are numbers, in the order of its fields."""


@functools.cache
def fields(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of a shape that are words, and those that are numbers."""
    each = dataclasses.fields(KINDS[kind])
    words = tuple(field.name for field in each if "str" in str(field.type))
    return words, tuple(field.name for field in each if field.name not in words)


def parts(shape: Shape) -> tuple[Words, Numbers]:
    """The words of a shape, and its numbers."""
    words, numbers = fields(shape.kind)
    return (
        tuple((name, getattr(shape, name)) for name in words),
        tuple(getattr(shape, name) for name in numbers),
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """Measured kernels of one kind with the same words."""

    kind: Literal[
        "allreduce", "attention", "combine", "dispatch", "experts", "gemm", "mla", "stream"
    ]
    words: Mapping[str, str]
    numbers: Mapping[str, tuple[_Number, ...]]
    """Columns, one for each number of the shape."""
    us: tuple[_Us, ...]
    """Measured times."""

    def __post_init__(self) -> None:
        words, numbers = fields(self.kind)
        for key, names, given in (
            ("words", words, self.words),
            ("numbers", numbers, self.numbers),
        ):
            if set(given) != set(names):
                has = ", ".join(sorted(given)[:20]) or "none"
                raise Wrong(f"has {has}", ", ".join(names) or "none", key)
        for name, column in self.numbers.items():
            if len(column) != len(self.us):
                said = f"has {len(column)} values for {len(self.us)} times"
                raise Wrong(said, "a value for each time", "numbers", name)
        if not self.us:
            raise Wrong("is empty", "at least one time", "us")

    @property
    def key(self) -> tuple[str, Words]:
        """Kind and words."""
        return self.kind, tuple((name, self.words[name]) for name in fields(self.kind)[0])

    def times(self) -> Iterator[tuple[Numbers, float]]:
        """The numbers of each row, and its time in us."""
        columns = [self.numbers[name] for name in fields(self.kind)[1]]
        yield from zip(zip(*columns, strict=True), self.us, strict=True)


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """Measured kernels of one NPU."""

    schema: Literal["armillary.measured_kernels/1"]
    npu: str
    """Name of the NPU."""
    source: Note
    """Files that the rows come from."""
    kernels: tuple[Rows, ...]

    def __post_init__(self) -> None:
        seen: set[tuple[str, Words]] = set()
        for at, each in enumerate(self.kernels):
            if each.key in seen:
                raise Wrong("has the kind and the words of an earlier one", "", "kernels", at)
            seen.add(each.key)


def read_measured(path: str | os.PathLike[str]) -> MeasuredFile:
    """The file at `path`.

    Raises:
        InputError: it is none, with every problem in it.
    """
    source = open_source(path, _WHAT)
    found = read(MeasuredFile, source)
    source.finish()
    if found is None:
        raise InputError([])
    return found


def made(npu: str, source: str, kernels: Iterable[tuple[Shape, float]]) -> MeasuredFile:
    """A file of measured kernels, each with its time in us. The order of the kernels does not
    matter."""
    groups: dict[tuple[str, Words], list[tuple[Numbers, float]]] = defaultdict(list)
    for shape, us in kernels:
        words, numbers = parts(shape)
        groups[shape.kind, words].append((numbers, us))
    rows: list[Rows] = []
    for (kind, words), times in sorted(groups.items()):
        times.sort()
        columns = zip(*(numbers for numbers, _ in times), strict=True)
        named = dict(zip(fields(kind)[1], columns, strict=True))
        rows.append(Rows(kind, dict(words), named, tuple(us for _, us in times)))  # type: ignore[arg-type]
    return MeasuredFile(SCHEMA, npu, source, tuple(rows))


def as_json(file: MeasuredFile) -> str:
    """The text of a file: each column in a line of its own, the same for the same kernels."""
    groups: list[str] = []
    for each in file.kernels:
        columns = [f"   {json.dumps(name)}: {_list(each.numbers[name])}" for name in each.numbers]
        groups.append(
            f'  {{"kind": {json.dumps(each.kind)},\n   "words": {json.dumps(dict(each.words))},\n'
            f'   "numbers": {{\n' + ",\n".join(columns) + "},\n"
            f'   "us": {_list(each.us)}}}'
        )
    head = [
        f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in (("schema", file.schema), ("npu", file.npu), ("source", file.source))
    ]
    return "{\n" + ",\n".join(head) + ',\n "kernels": [\n' + ",\n".join(groups) + "\n ]\n}\n"


def _list(values: tuple[float, ...]) -> str:
    return json.dumps(list(values), separators=(",", ":"))
