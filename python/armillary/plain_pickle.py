"""Pickles of other programs as plain data. Nothing in them is ever called.

Here: the few operations that describe dictionaries, lists, numbers, texts and objects of known
classes. An object becomes a `Thing` with its name and its values. Not here: what they mean
(`workload/importer/flight_recorder.py`, and the checkpoints of the trainer).

`pickle.load` calls whatever a file names: https://docs.python.org/3/library/pickle.html"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from types import UnionType
from typing import Any

_MOST = 2**22
"""Operations of a pickle."""
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
            raise RefusedError("is damaged")
        return self.stack.pop()

    def top(self, kind: type | UnionType) -> Any:  # noqa: ANN401
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise RefusedError("is damaged")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        found = []
        while (each := self._any()) is not _MARK:
            found.append(each)
        return found[::-1]

    def _any(self) -> Any:  # noqa: ANN401
        if not self.stack:
            raise RefusedError("is damaged")
        return self.stack.pop()

    def push_name(self, module: Any, name: Any) -> None:  # noqa: ANN401
        if not isinstance(module, str) or not isinstance(name, str):
            raise RefusedError("is damaged")
        if (module, name) not in self.names:
            raise RefusedError(f"names {f'{module}.{name}'[:100]!r}, which is not loaded")
        self.stack.append(Thing((module, name)))

    def make(self) -> None:
        """An object of a class and its arguments."""
        arguments = self.pop()
        named = self.pop()
        if not isinstance(arguments, tuple) or not isinstance(named, Thing):
            raise RefusedError("is damaged")
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
            raise RefusedError("is damaged")
        self.stack.append(Thing(STORED, where))

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict)
        if len(items) % 2 or not all(isinstance(key, str | int | Thing) for key in items[::2]):
            raise RefusedError("is damaged")
        target.update(zip(items[::2], items[1::2], strict=True))

    def recall(self, place: int) -> None:
        if place not in self.memory:
            raise RefusedError("is damaged")
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


def plain(data: bytes, names: Set[tuple[str, str]]) -> Any:  # noqa: ANN401
    """The value of a pickle whose objects have only these `names`. Raises `RefusedError`."""
    machine = _Machine(names)
    try:
        for number, (operation, argument, _) in enumerate(pickletools.genops(data)):
            if operation.name == "STOP":
                break
            if number == _MOST:
                raise RefusedError(f"has more than {_MOST:,} operations")
            if operation.name not in _OPERATIONS:
                raise RefusedError(f"has the operation {operation.name}, which is not done")
            _OPERATIONS[operation.name](machine, argument)
    except RefusedError:
        raise
    except (ValueError, TypeError) as error:  # pickletools: cut, or not a pickle
        raise RefusedError("is damaged") from error
    return machine.pop()
