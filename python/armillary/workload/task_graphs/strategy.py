"""Strategies of FlexFlow: into how many parts each operator is divided, and on which devices.

    parts = product of dims = number of device ids

Here: the file, checked. Not here: how it is shown (`explain/flexflow_tables.py`). A strategy has no
work and no shapes, so it makes no workload. Source: src/runtime/strategy.proto and strategy.cc
(`load_strategies_from_file`) of flexflow/FlexFlow at 0c7d554."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from ...errors import InputError, Problem
from ...units import counted
from ..xla.module import DamagedError
from ..xla.wire import Message

ALLOWED = "a strategy of FlexFlow, as --export writes it"
_TYPES = ("GPU", "CPU")
_MOST_OPERATORS = 2**20
_MOST_DIMS = 16
_MOST_PARTS = 2**20
_MOST_DEVICES = 2**24


@dataclass(frozen=True, slots=True)
class StrategyOperator:
    """An operator: parts along each dimension, and the devices of the parts in their order. No
    device where the file leaves that to FlexFlow."""

    name: str
    device_type: str
    dims: tuple[int, ...]
    devices: tuple[int, ...]

    @property
    def parts(self) -> int:
        """Number of parts."""
        return math.prod(self.dims)


@dataclass(frozen=True)
class Strategy:
    """Operators in the order of the file, and what to know about them."""

    operators: tuple[StrategyOperator, ...]
    notes: tuple[str, ...]


def read(name: str, data: bytes) -> Strategy:
    """The strategy in a file. Raises `InputError`."""
    try:
        whole = Message(memoryview(data))
        views = whole.views(1)
        if len(views) > _MOST_OPERATORS:
            raise _refused(name, "ops", f"has {len(views):,} operators", f"{_MOST_OPERATORS:,}")
        found = tuple(_operator(name, f"ops[{at}]", Message(one)) for at, one in enumerate(views))
    except DamagedError as error:
        raise _refused(name, "", f"is damaged: {error}") from None
    if not found:
        raise _refused(name, "ops", "has none")
    names = Counter(each.name for each in found)
    twice = next((each for each, count in names.items() if count > 1), None)
    if twice is not None:
        raise _refused(name, "ops", f"has {twice[:80]!r} several times, which FlexFlow refuses")
    return Strategy(found, tuple(_notes(found)))


def _operator(name: str, where: str, message: Message) -> StrategyOperator:
    title = message.text(1)
    if not title:
        raise _refused(name, f"{where}.name", "is missing")
    kind = message.integer(2)
    if not 0 <= kind < len(_TYPES):
        raise _refused(name, f"{where}.device_type", f"unknown type of device: {kind}")
    dims, devices = tuple(message.integers(3)), tuple(message.integers(4))
    if not 0 < len(dims) <= _MOST_DIMS:
        allowed = f"1 to {_MOST_DIMS}"
        raise _refused(name, f"{where}.dims", f"has {counted(len(dims), 'dimension')}", allowed)
    if any(not 0 < each <= _MOST_PARTS for each in dims) or math.prod(dims) > _MOST_PARTS:
        said = f"invalid parts: {_joined(dims)}"
        raise _refused(name, f"{where}.dims", said, f"1 or more, {_MOST_PARTS:,} in all")
    if devices and len(devices) != math.prod(dims):
        said = f"{counted(len(devices), 'device')} for {counted(math.prod(dims), 'part')}"
        raise _refused(name, f"{where}.device_ids", said, "one for each part, or none")
    if any(not 0 <= each < _MOST_DEVICES for each in devices):
        said = f"invalid device: {next(x for x in devices if not 0 <= x < _MOST_DEVICES)}"
        raise _refused(name, f"{where}.device_ids", said, f"0 to {_MOST_DEVICES - 1:,}")
    return StrategyOperator(title, _TYPES[kind], dims, devices)


def _notes(operators: tuple[StrategyOperator, ...]) -> list[str]:
    found = []
    shared = [each for each in operators if len({*each.devices}) < len(each.devices)]
    if shared:
        count = counted(len(shared), "operator")
        found.append(f"{count} with several parts on one device, such as {shared[0].name[:80]}")
    free = [each for each in operators if not each.devices]
    if free:
        found.append(f"{counted(len(free), 'operator')} without devices, such as {free[0].name}")
    if all(each.name.isdigit() for each in operators):
        found.append(
            "names are numbers: FlexFlow saves hashes of names, which say nothing about the model"
        )
    return found


def _joined(numbers: tuple[int, ...]) -> str:
    return " x ".join(map(str, numbers[:_MOST_DIMS]))[:80]


def _refused(name: str, where: str, said: str, allowed: str = ALLOWED) -> InputError:
    return InputError([Problem(name, where, said, allowed)])
