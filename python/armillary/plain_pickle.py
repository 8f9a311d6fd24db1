"""Pickles of other programs as plain data. Nothing in them is ever called.

Here: the few operations that describe dictionaries, lists, numbers, texts and objects of known
classes. An object becomes a `Thing` with its name and its values. Not here: what they mean
(`workload/importer/flight_recorder.py`, and the checkpoints of the trainer).

`pickle.load` calls whatever a file names: https://docs.python.org/3/library/pickle.html"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from types import UnionType
from typing import Any

_MOST = 2**22
"""Operations of a pickle."""
_DAMAGED = "is damaged"
_MARK = object()
_ORDERED = "collections", "OrderedDict"
STORED = "", "stored"
"""The name of what is stored outside of the pickle; its arguments say where."""


class RefusedError(ValueError):
    """The pickle is damaged, or has more than plain data."""


@dataclass(slots=True, eq=False)
class Thing:
    """An object, or a name that stands for itself, such as a type of numbers."""

    name: tuple[str, str]
    """Module of the object, and its class or function there."""
    arguments: tuple[Any, ...] = ()
    state: Any = None

    def get(self, key: str) -> Any:  # noqa: ANN401
        """A field; `None` if it has no such field."""
        return self.state.get(key) if isinstance(self.state, dict) else None


class Ordered(dict[Any, Any]):
    """A dictionary whose class is `OrderedDict`."""


@dataclass(slots=True)
class _Machine:
    """The stack and the memory of a pickle."""

    names: Set[tuple[str, str]]
    stack: list[Any] = field(default_factory=list)
    memory: dict[int, Any] = field(default_factory=dict)

    def pop(self) -> Any:  # noqa: ANN401
        if not self.stack or self.stack[-1] is _MARK:
            raise RefusedError(_DAMAGED)
        return self.stack.pop()

    def top(self, kind: type | UnionType) -> Any:  # noqa: ANN401
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise RefusedError(_DAMAGED)
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        found = []
        while (each := self._any()) is not _MARK:
            found.append(each)
        return found[::-1]

    def _any(self) -> Any:  # noqa: ANN401
        if not self.stack:
            raise RefusedError(_DAMAGED)
        return self.stack.pop()

    def push_name(self, module: Any, name: Any) -> None:  # noqa: ANN401
        if not isinstance(module, str) or not isinstance(name, str):
            raise RefusedError(_DAMAGED)
        if (module, name) not in self.names:
            raise RefusedError(f"names {f'{module}.{name}'[:100]!r}, which is not loaded")
        self.stack.append(Thing((module, name)))

    def make(self) -> None:
        """An object of a class and its arguments."""
        arguments = self.pop()
        named = self.pop()
        if not isinstance(arguments, tuple) or not isinstance(named, Thing):
            raise RefusedError(_DAMAGED)
        plain_ = named.name == _ORDERED and not arguments
        self.stack.append(Ordered() if plain_ else Thing(named.name, arguments))

    def build(self) -> None:
        """Gives the object on the stack its state. That of a dictionary is not needed."""
        state = self.pop()
        target = self.top(Thing | Ordered)
        if isinstance(target, Thing):
            target.state = state

    def store(self) -> None:
        """Something that is not in the pickle."""
        where = self.pop()
        if not isinstance(where, tuple):
            raise RefusedError(_DAMAGED)
        self.stack.append(Thing(STORED, where))

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict)
        if len(items) % 2 or not all(isinstance(key, str | int | Thing) for key in items[::2]):
            raise RefusedError(_DAMAGED)
        target.update(zip(items[::2], items[1::2], strict=True))

    def recall(self, place: int) -> None:
        if place not in self.memory:
            raise RefusedError(_DAMAGED)
        self.stack.append(self.memory[place])

    def remember(self, place: int) -> None:
        self.memory[place] = self.top(object)


def _tuple(count: int) -> Callable[[_Machine, Any], None]:
    def push(machine: _Machine, _: Any) -> None:  # noqa: ANN401
        found = [machine.pop() for _ in range(count)]
        machine.stack.append(tuple(found[::-1]))

    return push


def _push(value: Callable[[Any], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, argument: machine.stack.append(value(argument))


_NOTHING: Callable[[_Machine, Any], None] = lambda _machine, _argument: None  # noqa: E731
_OPERATIONS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), _NOTHING),
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINUNICODE", "BINUNICODE", "BINFLOAT"),
        _push(lambda argument: argument),
    ),
    "NONE": _push(lambda _: None),
    "NEWTRUE": _push(lambda _: True),
    "NEWFALSE": _push(lambda _: False),
    "EMPTY_DICT": _push(lambda _: {}),
    "EMPTY_LIST": _push(lambda _: []),
    "EMPTY_TUPLE": _push(lambda _: ()),
    "MARK": _push(lambda _: _MARK),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.since_mark())),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "APPEND": lambda machine, _: (each := machine.pop(), machine.top(list).append(each))[1],
    "APPENDS": lambda machine, _: (some := machine.since_mark(), machine.top(list).extend(some))[1],
    "SETITEM": lambda machine, _: machine.set_items([machine.pop(), machine.pop()][::-1]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memory)),
    "GLOBAL": lambda machine, argument: machine.push_name(*argument.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.push_name(*[machine.pop(), machine.pop()][::-1]),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda machine, _: machine.make()),
    "BUILD": lambda machine, _: machine.build(),
    "BINPERSID": lambda machine, _: machine.store(),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda machine, place: machine.remember(place)),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, place: machine.recall(place)),
}
"""Allowed operations of a pickle, by the names of `pickletools`."""


def _number(form: str) -> Callable[[bytes, int], tuple[Any, int]]:
    packed = struct.Struct(f"<{form}")
    return lambda data, at: (packed.unpack_from(data, at)[0], at + packed.size)


def _sized(length: struct.Struct, value: Callable[[bytes], Any]) -> Callable[..., tuple[Any, int]]:
    """Reads a length, and bytes of this length as a value."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        start = at + length.size
        end = start + length.unpack_from(data, at)[0]
        if end > len(data):
            raise RefusedError(_DAMAGED)
        return value(data[start:end]), end

    return read


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _two_lines(data: bytes, at: int) -> tuple[str, int]:
    middle = data.index(b"\n", at)
    end = data.index(b"\n", middle + 1)
    return f"{_text(data[at:middle])} {_text(data[middle + 1 : end])}", end + 1


_ARGUMENTS: dict[str, Callable[[bytes, int], tuple[Any, int]]] = {
    "uint1": _number("B"),
    "uint2": _number("H"),
    "int4": _number("i"),
    "uint4": _number("I"),
    "uint8": _number("Q"),
    "float8": lambda data, at: (struct.unpack_from(">d", data, at)[0], at + 8),
    "long1": _sized(struct.Struct("B"), lambda data: int.from_bytes(data, "little", signed=True)),
    "unicodestring1": _sized(struct.Struct("B"), _text),
    "unicodestring4": _sized(struct.Struct("<I"), _text),
    "stringnl_noescape_pair": _two_lines,
}
"""How arguments are read, by the names of `pickletools`, whose own reader takes longer."""
_CODES = {
    ord(each.code): (each.name, _ARGUMENTS[each.arg.name] if each.arg else None)
    for each in pickletools.opcodes
    if not each.arg or each.arg.name in _ARGUMENTS
}
_OTHERS = {ord(each.code): each.name for each in pickletools.opcodes}


def _operations(data: bytes) -> Iterator[tuple[str, Any]]:
    """Operations with their arguments, until the pickle says that it ends."""
    at = 0
    while True:
        if (code := data[at]) not in _CODES:
            name = _OTHERS.get(code)
            raise RefusedError(f"has the operation {name}, which is not done" if name else _DAMAGED)
        name, read = _CODES[code]
        argument, at = read(data, at + 1) if read else (None, at + 1)
        if name == "STOP":
            return
        yield name, argument


def plain(data: bytes, names: Set[tuple[str, str]], most: int = _MOST) -> Any:  # noqa: ANN401
    """The value of a pickle with at most `most` operations whose objects have only these `names`.
    Raises `RefusedError`."""
    machine = _Machine(names)
    try:
        for number, (name, argument) in enumerate(_operations(data)):
            if number == most:
                raise RefusedError(f"has more than {most:,} operations")
            if name not in _OPERATIONS:
                raise RefusedError(f"has the operation {name}, which is not done")
            _OPERATIONS[name](machine, argument)
    except RefusedError:
        raise
    except (ValueError, TypeError, LookupError, struct.error) as error:  # cut, or not a pickle
        raise RefusedError(_DAMAGED) from error
    return machine.pop()
