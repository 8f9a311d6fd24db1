"""A module of XLA as protobuf: HloModuleProto, alone or in the HloProto that a dump holds.

Here: its fields, to the same instructions as the text gives. Not here: the encoding (`wire.py`).

Fields: xla/service/hlo.proto and xla/xla_data.proto of openxla/xla."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from . import devices
from .module import (
    BUFFER,
    MOST_DEVICES,
    TUPLE,
    Allocations,
    Computation,
    DamagedError,
    Groups,
    Instruction,
    Labels,
    Module,
    Shape,
    Window,
    array,
)
from .wire import Message, fields

_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 13: TUPLE, 14: "opaque", 15: "c64", 16: "bf16", 17: "token",
    18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz",
    24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4", 30: "s1",
    31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu", 34: BUFFER,
}  # fmt: skip
_DEEPEST = 64
_COLLECTIVE = 87
"""Field of the devices of a collective; field 49 in older files."""
_NUMBERS = {"parameter": 9, "get-tuple-element": 13}
_TEXTS = {"fusion": ("kind", 11), "compare": ("direction", 63), "custom-call": ("target", 28)}
"""Attribute and field of an opcode."""


def is_module(data: bytes) -> bool:
    """Whether a file looks like such a message: a name, the name of a computation, computations."""
    try:
        return _module(memoryview(data)) is not None
    except DamagedError:
        return False


def read(data: bytes) -> Module:
    """The module in a file. Raises `DamagedError`."""
    view = memoryview(data)
    inner = _module(view)
    if inner is None:
        raise DamagedError("the file", "holds no module")
    module = _Reader(Message(inner)).module()
    if inner is not view:
        module.memory = _allocations(Message(view).message(3))
    return module


def _module(view: memoryview) -> memoryview | None:
    """The message of the module: all of the file, or its first field."""
    if not len(view) or view[0] != 0x0A:
        return None
    outer = list(_shallow(view))
    if _is_module(outer):
        return view
    first = outer[0][1]
    if len(outer) <= 8 and not isinstance(first, int) and _is_module(list(_shallow(first))):
        return first
    return None


def _shallow(view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    return fields(view)


def _is_module(found: Sequence[tuple[int, int | memoryview]]) -> bool:
    numbers = [number for number, _ in found]
    texts = [value for number, value in found if number in (1, 2)]
    return (
        numbers[:2] == [1, 2]
        and 3 in numbers
        and 6 in numbers
        and all(not isinstance(each, int) and len(each) < 4096 for each in texts)
    )


class _Reader:
    def __init__(self, root: Message) -> None:
        self.root = root
        self.shapes: dict[bytes, Shape] = {}
        self.groups: dict[bytes, Groups] = {}

    def module(self) -> Module:
        root = self.root
        module = Module(root.text(1), [], None)
        module.scheduled = 7 in root
        messages = list(root.messages(3))
        numbers = {message.integer(5): at for at, message in enumerate(messages)}
        if len(numbers) < len(messages):
            raise DamagedError("computations", "several have one id")
        schedule = self._schedule()
        for message in messages:
            order = schedule.get(message.integer(5))
            module.computations.append(self._computation(message, numbers, order))
        module.entry = numbers.get(root.integer(6))
        module.replicas, module.partitions = self._devices()
        module.assigned = self._assigned(module.devices)
        return module

    def _devices(self) -> tuple[int, int]:
        """Replicas and partitions, of the assignment of devices."""
        assigned = self.root.message(15)
        if assigned is None:
            return 1, 1
        counts = max(1, assigned.integer(1)), max(1, assigned.integer(2))
        if counts[0] * counts[1] > MOST_DEVICES:
            said = f"{counts[0]:,} replicas of {counts[1]:,} partitions"
            raise DamagedError("device_assignment", said, f"at most {MOST_DEVICES:,} devices")
        return counts

    def _assigned(self, ranks: int) -> tuple[int, ...]:
        """The device of each rank, where each has another one."""
        assigned = self.root.message(15)
        if assigned is None:
            return ()
        parts = [each.integers(1) for each in assigned.messages(3)]
        # A part has the devices of its replicas, and ranks count parts first.
        found = [number for row in zip(*parts, strict=False) for number in row]
        return tuple(found) if len({*found}) == len(found) == ranks else ()

    def _schedule(self) -> dict[int, list[int]]:
        """Id of a computation -> ids of its instructions in the order in which they run."""
        schedule = self.root.message(7)
        found: dict[int, list[int]] = {}
        for entry in schedule.messages(1) if schedule is not None else ():
            sequence = entry.message(2)
            found[entry.integer(1)] = sequence.integers(1) if sequence is not None else []
        return found

    def _computation(
        self, message: Message, numbers: dict[int, int], order: list[int] | None
    ) -> Computation:
        name = message.text(1)
        parts = list(message.messages(2))
        ids = [part.integer(35) for part in parts]
        if len({*ids}) < len(ids) or not parts:
            raise DamagedError(name, "has no instruction, or several of one id")
        if order is not None:
            by_id = dict(zip(ids, parts, strict=True))
            if sorted(order) != sorted(ids):
                raise DamagedError(name, "has a schedule of other instructions")
            parts, ids = [by_id[each] for each in order], order
        places = {number: at for at, number in enumerate(ids)}
        found = [self._instruction(part, at, places, numbers) for at, part in enumerate(parts)]
        root = places.get(message.integer(6))
        if root is None:
            raise DamagedError(name, "has no root")
        return Computation(name, found, root)

    def _instruction(
        self, part: Message, at: int, places: dict[int, int], numbers: dict[int, int]
    ) -> Instruction:
        name, opcode = part.text(1), part.text(2)
        operands = []
        for each in part.integers(36):
            place = places.get(each, at)
            if place >= at:
                raise DamagedError(name, "takes an instruction that is not before it")
            operands.append(place)
        calls = []
        for each in part.integers(38):
            if each not in numbers:
                raise DamagedError(name, "calls a computation that is not there")
            calls.append(numbers[each])
        shapes = part.views(3)
        if not shapes:
            raise DamagedError(name, "has no shape")
        waits = tuple(places[each] for each in part.integers(37) if each in places)
        found = Instruction(name, opcode, self.shape(shapes[-1], name), tuple(operands))
        found.calls, found.controls = tuple(calls), waits
        found.attributes = self._values(part, name, opcode)
        metadata = part.message(7)
        found.op_name = metadata.text(2)[:512] if metadata is not None else ""
        return found

    def shape(self, view: memoryview, where: str, depth: int = 0) -> Shape:
        """A shape; equal ones are one object."""
        key = bytes(view)
        if key not in self.shapes:
            if depth > _DEEPEST:
                raise DamagedError(where, f"tuples more than {_DEEPEST} deep")
            message = Message(view)
            kind = _TYPES.get(message.integer(2))
            if kind is None:
                raise DamagedError(where, f"unknown type of elements: {message.integer(2)}")
            if kind in (TUPLE, BUFFER):
                parts = tuple(self.shape(each, where, depth + 1) for each in message.views(4))
                self.shapes[key] = Shape(TUPLE, (), parts)
            else:
                layout = message.message(5)
                space = layout.integer(8) if layout is not None else 0
                dims = message.integers(3)
                if any(each < 0 for each in dims):
                    raise DamagedError(where, "has a dimension that is not bounded")
                self.shapes[key] = array(kind, dims, max(0, space), where)
        return self.shapes[key]

    def _values(self, part: Message, name: str, opcode: str) -> dict[str, Any]:
        """Attributes, under the names that the text's have."""
        found = _own(part, opcode)
        if config := part.text(43):
            found["config"] = config
        for field, key in ((14, "dimensions"), (32, "fft")):
            if numbers := part.integers(field):
                found[key] = tuple(_natural(name, numbers))
        for field, key in ((50, "feature_groups"), (58, "batch_groups")):
            if field in part:
                found[key] = max(1, part.integer(field))
        if (window := part.message(15)) is not None:
            found["window"] = tuple(_window(each) for each in window.messages(1))
        if (labels := part.message(16)) is not None:
            found["labels"] = _labels(labels, name)
        return self._collective(part, name, found | _product(part, name))

    def _collective(self, part: Message, name: str, found: dict[str, Any]) -> dict[str, Any]:
        views = part.views(_COLLECTIVE)
        if views:
            found["groups"] = self._listed(views[-1], name)
        elif 49 in part:
            found["groups"] = tuple(tuple(each.integers(1)) for each in part.messages(49))
        if part.integer(26) > 0:
            found["channel"] = True
        if part.integer(71):
            found["global_ids"] = True
        if 52 in part:
            pairs = [(each.integer(1), each.integer(2)) for each in part.messages(52)]
            found["pairs"] = tuple(pairs)
        for group in (*found.get("groups", ()), *found.get("pairs", ())):
            _natural(name, group)
        return found

    def _listed(self, view: memoryview, name: str) -> Groups:
        """Devices of a collective, in any of the three forms."""
        key = bytes(view)
        if key not in self.groups:
            message = Message(view)
            iota, mesh = message.message(2), message.message(3)
            if iota is not None:
                shape = [iota.integer(1), iota.integer(2)]
                table, order = _natural(name, iota.integers(3)), _natural(name, iota.integers(4))
                self.groups[key] = devices.iota(_natural(name, shape), table, order, name)
            elif mesh is not None:
                self.groups[key] = _meshed(mesh, name)
            else:
                self.groups[key] = tuple(tuple(each.integers(1)) for each in message.messages(1))
        return self.groups[key]


def _own(part: Message, opcode: str) -> dict[str, Any]:
    """Attributes that only some opcodes have."""
    if opcode == "constant":
        value = _scalar(part)
        return {} if value is None else {"value": value}
    if opcode in ("send", "recv"):
        return {"host": bool(part.integer(47)), "frontend": _frontend(part)}
    if opcode in _NUMBERS:
        return {"number": part.integer(_NUMBERS[opcode])}
    if opcode in _TEXTS:
        key, field = _TEXTS[opcode]
        return {key: part.text(field)[:256]}
    return {}


def _product(part: Message, name: str) -> dict[str, Any]:
    """Dimensions of a product."""
    ragged = part.message(90)
    dot = part.message(30) or (ragged.message(1) if ragged is not None else None)
    found: dict[str, Any] = {} if ragged is None else {"ragged": True}
    if dot is not None:
        keys = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
        for field, key in enumerate(keys, 1):
            if numbers := dot.integers(field):
                found[key] = tuple(_natural(name, numbers))
    return found


def _natural(where: str, numbers: Sequence[int]) -> Sequence[int]:
    if any(each < 0 or each > 2**50 for each in numbers):
        raise DamagedError(where, f"invalid numbers: {list(numbers)[:4]}", "0 and more")
    return numbers


def _meshed(message: Message, name: str) -> Groups:
    mesh = message.message(1)
    if mesh is None or mesh.integers(2):
        said = "has groups of a mesh whose devices are in an order of their own"
        raise DamagedError(name, said, devices.ALLOWED)
    sizes = _natural(name, [axis.integer(2) for axis in mesh.messages(1)])
    chosen: list[tuple[int, tuple[int, int] | None]] = []
    for axis in message.messages(2):
        part = axis.message(2)
        number = axis.integer(1)
        if not 0 <= number < len(sizes):
            raise DamagedError(name, f"unknown axis of a mesh: {number}")
        chosen.append((number, (part.integer(1), part.integer(2)) if part is not None else None))
    return devices.meshed(sizes, chosen, name)


def _scalar(part: Message) -> int | None:
    """The value of a constant that is one whole number or one truth value."""
    literal = part.message(8)
    if literal is None:
        return None
    for field in (2, 4, 5, 6, 7):
        numbers = literal.integers(field)
        if len(numbers) == 1:
            return numbers[0]
    return None


def _frontend(part: Message) -> str:
    """Attributes of the front end, as the text has them."""
    attributes = part.message(68)
    entries = attributes.messages(1) if attributes is not None else ()
    return "{" + ",".join(f"{entry.text(1)}={entry.text(2)}" for entry in entries) + "}"


def _window(message: Message) -> Window:
    return Window(
        max(0, message.integer(1)),
        max(1, message.integer(2)),
        message.integer(3),
        message.integer(4),
        max(1, message.integer(5)),
        max(1, message.integer(6)),
    )


def _labels(message: Message, name: str) -> Labels:
    found = []
    for firsts, spatial in (((7, 8), 11), ((3, 4), 6), ((9, 10), 12)):
        numbers = [*(message.integer(field) for field in firsts), *message.integers(spatial)]
        found.append(tuple(_natural(name, numbers)))
    return Labels(*found)


def _allocations(message: Message | None) -> Allocations | None:
    """Bytes that the assignment of buffers sets aside; those of single threads are none of it."""
    if message is None or 3 not in message:
        return None
    sizes = [0, 0, 0]
    for each in message.messages(3):
        size = max(0, each.integer(2))
        if not each.integer(3):
            sizes[0 if each.integer(5) else 1 if each.integer(12) else 2] += size
    return Allocations(*sizes)
