"""Inputs of each step of a module, and the size of its result: data, and how it is found.

Not here: kernels that become one (`fusing.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import costs
from .module import Computation, Instruction, Module

_SLICES = ("slice", "dynamic-slice")
VIEWS = frozenset({"reshape", "transpose", "copy"})
"""Instructions that give the same elements in another order."""
UPDATE = "dynamic-update-slice"
Key = tuple[int, int]
"""A value that no step makes, such as a parameter: its computation and its place there."""


@dataclass(frozen=True, slots=True)
class Input:
    """A value that a step takes: the steps that make it, or what else it is, and the bytes that
    are read of it."""

    steps: tuple[int, ...]
    key: Key
    bytes: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Inputs and the bytes of the result of a step. Of an update in place, only the new part is
    read and written."""

    opcode: str
    bytes: int
    inputs: tuple[Input, ...]
    across: bool = False
    """Whether it reduces other dimensions than the last one, the columns of a matrix."""


def flow(
    module: Module,
    place: int,
    computation: Computation,
    instruction: Instruction,
    values: Sequence[tuple[int, ...]],
) -> Flow:
    """The flow of an instruction; `values` are the steps that make each operand."""
    opcode, operands = instruction.opcode, computation.operands(instruction)
    sizes = [each.shape.bytes for each in operands]
    written = instruction.shape.bytes
    if opcode in _SLICES and sizes:
        sizes[0] = min(sizes[0], written)
    elif opcode == UPDATE and len(sizes) > 1:
        sizes[0], written = 0, sizes[1]
    elif opcode == "fusion" and instruction.calls:
        written, read = costs.fused_flow(module, instruction)
        sizes = [read.get(number, size) for number, size in enumerate(sizes)]
    inputs = tuple(
        Input(steps, (place, number), size)
        for number, operand, steps, size in zip(
            instruction.operands, operands, values, sizes, strict=True
        )
        if steps or operand.opcode not in ("constant", "partition-id", "replica-id")
    )
    across = opcode == "reduce" and bool(operands)
    if across:
        last = len(operands[0].shape.dims) - 1
        across = last not in instruction.get("dimensions", ())
    return Flow(opcode, written, inputs, across)
