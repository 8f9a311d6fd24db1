"""A module of XLA in memory: computations of instructions with shapes. Data only.

Here: what text and protobuf have in common, so that both give the same workload. Not here: reading
them (`text.py`, `proto.py`), what an instruction costs (`costs.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BITS: Mapping[str, int] = {
    "pred": 8,
    **{f"{sign}{bits}": bits for sign in "su" for bits in (1, 2, 4, 8, 16, 32, 64)},
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128,
    "f8e5m2": 8, "f8e4m3": 8, "f8e4m3fn": 8, "f8e4m3b11fnuz": 8, "f8e3m4": 8,
    "f8e5m2fnuz": 8, "f8e4m3fnuz": 8, "f8e8m0fnu": 8, "f4e2m1fn": 4,
}  # fmt: skip
"""Bits of an element, by its type as XLA writes it."""
TUPLE, TOKEN, OPAQUE, BUFFER = "tuple", "token", "opaque", "b"
OTHER_KINDS = (TOKEN, OPAQUE)
MOST_ELEMENTS = 2**50
"""Elements of an array. A petabyte is more than any NPU has."""
MOST_DEVICES = 2**20
MOST_TRIPS = 10_000_000
"""Runs of a loop that a file may state."""


class DamagedError(ValueError):
    """A fault of a module, and its place."""

    def __init__(self, where: str, said: str, allowed: str = "") -> None:
        super().__init__(said)
        self.where, self.said, self.allowed = where, said, allowed


@dataclass(frozen=True, slots=True)
class Shape:
    """An array, or a tuple of `parts`, or a token. `space` is the memory that holds an array."""

    kind: str
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()
    space: int = 0

    @property
    def is_array(self) -> bool:
        """Whether it has elements itself."""
        return self.kind in BITS

    def arrays(self) -> list[Shape]:
        """All arrays in it, in order."""
        if self.kind not in (TUPLE, BUFFER):
            return [self] if self.is_array else []
        found, waiting = [], list(reversed(self.parts))
        while waiting:
            shape = waiting.pop()
            if shape.parts:
                waiting += reversed(shape.parts)
            elif shape.is_array:
                found.append(shape)
        return found

    @property
    def elements(self) -> int:
        """Elements of all arrays in it."""
        if self.kind in BITS:
            return math.prod(self.dims)
        return sum(math.prod(array.dims) for array in self.arrays())

    @property
    def bytes(self) -> int:
        """Bytes of all arrays in it, without padding."""
        if self.kind in BITS:
            return -(-math.prod(self.dims) * BITS[self.kind] // 8)
        return sum(array.bytes for array in self.arrays())


Groups = tuple[tuple[int, ...], ...]

_NONE: Mapping[str, Any] = {}


@dataclass(slots=True)
class Instruction:
    """One instruction. `operands` and `controls` are places in its computation, `calls` those of
    computations in the module."""

    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...] = ()
    calls: tuple[int, ...] = ()
    controls: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=lambda: _NONE)
    """Everything else: see `ATTRIBUTES`."""
    op_name: str = ""

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - see ATTRIBUTES
        """An attribute."""
        return self.attributes.get(key, default)


ATTRIBUTES: Mapping[str, str] = {
    "number": "of a parameter, or of the element of a tuple",
    "value": "of a constant that is one whole number",
    "lhs_contracting": "dimensions of a product",
    "rhs_contracting": "dimensions of a product",
    "lhs_batch": "dimensions of a product",
    "rhs_batch": "dimensions of a product",
    "ragged": "whether a product has groups of rows",
    "dimensions": "of a reduction, broadcast, concatenation or transposition",
    "window": "Window for each dimension",
    "labels": "Labels of a convolution",
    "feature_groups": "of a convolution",
    "batch_groups": "of a convolution",
    "fft": "lengths of a transform",
    "direction": "of a comparison",
    "kind": "of a fusion",
    "target": "of a custom call",
    "config": "text for the backend",
    "groups": "devices of a collective",
    "pairs": "source and target of messages",
    "channel": "whether it has a channel",
    "global_ids": "whether groups have numbers of devices",
    "frontend": "text of attributes of the front end",
    "host": "whether a message is for the host",
}


@dataclass(frozen=True, slots=True)
class Window:
    """One dimension of a window."""

    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1
    base_dilation: int = 1


@dataclass(frozen=True, slots=True)
class Labels:
    """Dimensions of a convolution: batch, feature, then the spatial ones; of the input, the kernel
    (input and output features first) and the output."""

    inputs: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]


@dataclass(slots=True)
class Computation:
    """A computation: its instructions, each behind its operands, and the place of its result."""

    name: str
    instructions: list[Instruction]
    root: int

    def parameters(self) -> dict[int, int]:
        """Number of each parameter -> its place."""
        return {
            each.get("number", 0): place
            for place, each in enumerate(self.instructions)
            if each.opcode == "parameter"
        }

    def operands(self, instruction: Instruction) -> list[Instruction]:
        """The instructions whose results an instruction takes."""
        return [self.instructions[place] for place in instruction.operands]


@dataclass(slots=True)
class Module:
    """A module: the program of every device of a job."""

    name: str
    computations: list[Computation]
    entry: int | None
    """Place of the computation that runs; none where the file ends before it."""
    replicas: int = 1
    partitions: int = 1
    scheduled: bool = False
    cut: str = ""
    """The computation in which the file ends."""
    memory: Allocations | None = None
    assigned: tuple[int, ...] = ()
    """Number of the device of each rank; empty where the file does not say."""

    @property
    def devices(self) -> int:
        """Ranks of the program."""
        return self.replicas * self.partitions

    def named(self, name: str) -> int | None:
        """Place of a computation."""
        for place, each in enumerate(self.computations):
            if each.name == name:
                return place
        return None


@dataclass(frozen=True, slots=True)
class Allocations:
    """Bytes that a device sets aside for one run of a module."""

    parameters: int
    constants: int
    rest: int
    """Results and everything in between."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.constants + self.rest


def whole(text: str, where: str, most: int = MOST_ELEMENTS) -> int:
    """A whole number from 0 to `most`. Raises `DamagedError`."""
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > most:
        raise DamagedError(where, f"invalid number: {text[:40]!r}", f"0 to {most:,}")
    return int(text)


def array(kind: str, dims: Sequence[int], space: int, where: str) -> Shape:
    """The shape of an array, or of what holds none. Raises `DamagedError`."""
    if kind in OTHER_KINDS:
        return Shape(kind)
    if kind not in BITS:
        raise DamagedError(where, f"unknown type of elements: {kind[:40]!r}", ", ".join(BITS))
    if len(dims) > 64 or math.prod(dims) > MOST_ELEMENTS:
        raise DamagedError(where, f"an array of {len(dims)} dimensions with too many elements")
    return Shape(kind, tuple(dims), (), space)
