"""How often the body of a `while` runs.

    known_trip_count     what the compiler wrote into the loop
    i = first; i < last; i += step
                         the pattern, where the three are constants

Here: whole numbers through copies, tuples and small fusions. Not here: the body (`programs.py`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .module import MOST_TRIPS, Computation, DamagedError, Instruction, Module

_KNOWN = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,19})"?')
_SAME = ("copy", "bitcast", "convert", "reshape", "opt-barrier", "add-dependency")
_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}
_LONGEST = 4096
"""Instructions that are followed from one number."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number: `added` to nothing, or to what is at a place of the loop's variables."""

    added: int
    variable: int = -1


def trips(module: Module, computation: Computation, loop: Instruction) -> int | None:
    """Runs of a loop's body; none where they are not known. Raises `DamagedError`."""
    match = _KNOWN.search(loop.get("config", ""))
    if match is not None:
        count: int | None = int(match[1])
    elif len(loop.calls) == 2 and loop.operands:
        count = _pattern(module, computation, loop)
    else:
        count = None
    if count is not None and count > MOST_TRIPS:
        raise DamagedError(loop.name, f"runs {count:,} times", f"at most {MOST_TRIPS:,}")
    return count


def _pattern(module: Module, computation: Computation, loop: Instruction) -> int | None:
    """Runs of a loop that counts from a constant to another one."""
    body, condition = (module.computations[place] for place in loop.calls)
    test = _test(module, condition)
    if test is None:
        return None
    direction, left, right = test
    if left.variable < 0:
        direction, left, right = _FLIPPED[direction], right, left
    first = _first(module, computation, loop, left.variable)
    step = _step(module, body, left.variable)
    start: int | None = 0
    if right.variable >= 0:
        still = _step(module, body, right.variable) == 0
        start = _first(module, computation, loop, right.variable) if still else None
    if first is None or start is None or not step:
        return None
    return _count(direction, first + left.added, start + right.added, step)


def _count(direction: str, first: int, last: int, step: int) -> int | None:
    if direction == "NE":
        count, rest = divmod(last - first, step)
        return count if not rest and count >= 0 else None
    if direction in ("GT", "GE"):
        first, last, step = -first, -last, -step
    if direction in ("LE", "GE"):
        last += 1
    if step <= 0:
        return None if first < last else 0
    return max(0, -(-(last - first) // step))


def _test(module: Module, condition: Computation) -> tuple[str, Value, Value] | None:
    """Direction and sides of the comparison that a condition ends with."""
    found = condition.instructions[condition.root]
    outer: tuple[Value | None, ...] | None = None
    inner = condition
    for _ in range(4):
        if found.opcode == "compare" and len(found.operands) == 2:
            sides = [_number(module, inner, place, outer) for place in found.operands]
            direction = found.get("direction")
            left, right = sides
            if direction not in _FLIPPED or left is None or right is None:
                return None
            return direction, left, right
        if found.opcode not in ("fusion", "call") or not found.calls:
            return None
        outer = tuple(_number(module, inner, place, outer) for place in found.operands)
        inner = module.computations[found.calls[0]]
        found = inner.instructions[inner.root]
    return None


def _first(module: Module, computation: Computation, loop: Instruction, at: int) -> int | None:
    """The value of a loop's variable before its first run."""
    start = computation.instructions[loop.operands[0]]
    while start.opcode in _SAME and start.operands:
        start = computation.instructions[start.operands[0]]
    if start.opcode != "tuple" or not 0 <= at < len(start.operands):
        return None
    found = _number(module, computation, start.operands[at], None)
    return found.added if found is not None and found.variable < 0 else None


def _step(module: Module, body: Computation, at: int) -> int | None:
    """How much a run of the body adds to a variable."""
    root = body.instructions[body.root]
    if root.opcode != "tuple" or not 0 <= at < len(root.operands):
        return None
    found = _number(module, body, root.operands[at], None)
    return found.added if found is not None and found.variable == at else None


def _number(
    module: Module, inner: Computation, place: int, outer: tuple[Value | None, ...] | None
) -> Value | None:
    """The number at a place: a constant, a variable of the loop, or a sum of both. `outer` are the
    operands of the fusion that the computation belongs to."""
    added = 0
    for _ in range(_LONGEST):
        each = inner.instructions[place]
        found = _known(inner, each, outer)
        if found is not None:
            return Value(added + found.added, found.variable)
        if each.opcode in _SAME and each.operands:
            place = each.operands[0]
        elif each.opcode == "get-tuple-element" and each.operands:
            source, number = inner.instructions[each.operands[0]], each.get("number", 0)
            if source.opcode != "tuple" or number >= len(source.operands):
                return None
            place = source.operands[number]
        elif each.opcode in ("add", "subtract") and len(each.operands) == 2:
            constant, place = _split(inner, each, outer)
            if constant is None:
                return None
            added += constant
        elif each.opcode == "fusion" and each.calls and outer is None:
            outer = tuple(
                _number(module, inner, operand, ()) or _variable(inner, operand)
                for operand in each.operands
            )
            inner = module.computations[each.calls[0]]
            place = inner.root
        else:
            return None
    return None


def _known(
    inner: Computation, each: Instruction, outer: tuple[Value | None, ...] | None
) -> Value | None:
    """The number that an instruction says itself: a constant, or a variable of the loop."""
    number = each.get("number", 0)
    if each.opcode == "constant" and each.get("value") is not None:
        return Value(each.get("value"))
    if each.opcode == "parameter" and outer is not None:
        return outer[number] if number < len(outer) else None
    if each.opcode == "get-tuple-element" and each.operands and outer is None:
        source = inner.instructions[each.operands[0]]
        return Value(0, number) if source.opcode == "parameter" else None
    return None


def _variable(inner: Computation, place: int) -> Value | None:
    """A variable of the loop, taken from the tuple of all of them."""
    for _ in range(_LONGEST):
        each = inner.instructions[place]
        if each.opcode in _SAME and each.operands:
            place = each.operands[0]
            continue
        if each.opcode != "get-tuple-element" or not each.operands:
            return None
        source = inner.instructions[each.operands[0]]
        return Value(0, each.get("number", 0)) if source.opcode == "parameter" else None
    return None


def _split(
    inner: Computation, each: Instruction, outer: tuple[Value | None, ...] | None
) -> tuple[int | None, int]:
    """The constant of a sum or a difference, and the place of the other side."""
    sides = [_constant(inner, place, outer) for place in each.operands]
    sign = -1 if each.opcode == "subtract" else 1
    if sides[1] is not None:
        return sign * sides[1], each.operands[0]
    if sides[0] is not None and sign > 0:
        return sides[0], each.operands[1]
    return None, each.operands[0]


def _constant(inner: Computation, place: int, outer: tuple[Value | None, ...] | None) -> int | None:
    for _ in range(_LONGEST):
        each = inner.instructions[place]
        if each.opcode in _SAME and each.operands:
            place = each.operands[0]
            continue
        if each.opcode == "parameter" and outer is not None:
            number = each.get("number", 0)
            found = outer[number] if number < len(outer) else None
            return found.added if found is not None and found.variable < 0 else None
        value = each.get("value") if each.opcode == "constant" else None
        return value if isinstance(value, int) else None
    return None
