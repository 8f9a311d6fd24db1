"""Events of a profile of XLA joined with the modules that ran: collectives, layers, kinds.

Here: which module an event belongs to, and whose ranks its collectives are for. Not here: modules
(`xla/named.py`), which events are operations (`xprof_ops.py`).

- Modules are those in the profile's `/host:metadata`, and those that are given next to it. An event
  names its module, and its program by a number; the number decides where several have one name.
- A module counts its devices from 0. Its assignment of devices says which they are. If fewer
  devices than there are ran it, they are the ones that did, in their order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...errors import InputError, Problem
from .. import xla
from ..xla import NamedModule, NamedOp
from .collectives import CommunicationCall, GroupRef
from .xspace import Space, Span

_NUMBERED = re.compile(r"\((\d{1,20})\)$")
_MODULE = "modules of XLA as text or protobuf: XLA_FLAGS=--xla_dump_to=DIR"

Key = tuple[str, int]
"""Name of a module, and number of the program, -1 where that is not known."""


@dataclass
class Programs:
    """The modules of a run. `joined` and `unknown` count events of devices, by whether a module
    has their instruction."""

    given: dict[str, NamedModule] = field(default_factory=dict)
    """Modules next to the profiles, by name."""
    ran: dict[Key, set[int]] = field(default_factory=dict)
    """Module -> ranks that ran it."""
    world: int = 1
    joined: int = 0
    unknown: int = 0
    damaged: Counter[str] = field(default_factory=Counter)
    _held: dict[Key, bytes] = field(default_factory=dict)
    _named: dict[str, Key] = field(default_factory=dict)
    _read: dict[Key, NamedModule | None] = field(default_factory=dict)
    _texts: dict[str, NamedOp | None] = field(default_factory=dict)
    _mapped: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    _groups: dict[tuple[int, int], GroupRef] = field(default_factory=dict)

    def embed(self, space: Space) -> None:
        """Takes the modules of a profile. Those that ran are read when they are asked for."""
        for plane in space.planes:
            for title, _, data in plane.modules:
                key = split_name(title)
                self._held.setdefault(key, data)
                self._named.setdefault(key[0], key)

    def give(self, name: str, data: bytes) -> None:
        """Takes a module that is given next to a profile. Raises `InputError`."""
        try:
            found = NamedModule(data)
        except xla.DamagedError as error:
            place = Problem(name, error.where, error.said, error.allowed or _MODULE)
            raise InputError([place]) from None
        self.given[found.name] = found

    def find(self, span: Span, key: Key) -> NamedOp | None:
        """The instruction of an event; from its long name where no module has it."""
        module = self.of(key)
        name = span.word("hlo_op") or span.name
        found = module.find(name) if module is not None else None
        text = span.text if " = " in span.text[:600] else span.word("long_name")
        if found is None and not text and " = " in span.name[:600]:
            text = span.name
        if found is None and text:
            if text not in self._texts:
                devices = module.module.devices if module is not None else self.world
                self._texts[text] = xla.from_text(text, devices)
            found = self._texts[text]
        return found

    def of(self, key: Key) -> NamedModule | None:
        """A module by its name and the number of its program. One that can't be read is noted."""
        held = key if key in self._held else self._named.get(key[0])
        if held is not None and held not in self._read:
            self._read[held] = None
            try:
                self._read[held] = NamedModule(self._held[held])
            except xla.DamagedError as error:
                self.damaged[f"{held[0][:80]}({held[1]}): {error.where} {error.said}"] += 1
        found = self._read[held] if held is not None else None
        return found or self.given.get(key[0])

    @property
    def has_modules(self) -> bool:
        """Whether there are modules in the profiles or next to them."""
        return bool(self._held or self.given)

    def devices(self) -> int:
        """Devices of the largest module that ran."""
        found = [self.of(key) for key in self.ran]
        return max((each.module.devices for each in found if each is not None), default=1)

    def calls(self, op: NamedOp, key: Key, rank: int) -> tuple[CommunicationCall, ...]:
        """The collective or messages that an instruction is on a rank; none for others, and for
        messages that no module names."""
        if not op.kind:
            return ()
        ranks = self._ranks(key)
        if op.kind == "send_recv":
            return self._messages(op, ranks, rank)
        group = GroupRef()
        for number, members in enumerate(op.groups):
            mapped = self._members(op, number, members, ranks)
            if rank in mapped.ranks:
                group = mapped
        if group.size == 1 or self.world == 1:
            # A device alone exchanges nothing: its operation is one like others.
            return ()
        return (CommunicationCall(op.kind, op.bytes, "", group, "module of XLA"),)

    def _members(
        self, op: NamedOp, number: int, members: Sequence[int], ranks: tuple[int, ...]
    ) -> GroupRef:
        key = (id(op), number)
        if key not in self._groups:
            known = tuple(ranks[each] for each in members if each < len(ranks))
            self._groups[key] = GroupRef("", known, len(known))
        return self._groups[key]

    def _messages(
        self, op: NamedOp, ranks: tuple[int, ...], rank: int
    ) -> tuple[CommunicationCall, ...]:
        found = []
        everyone = tuple(sorted(ranks))
        group = GroupRef("", everyone, len(everyone))
        for pair in op.pairs:
            if max(pair) >= len(ranks) or pair[0] == pair[1]:
                continue
            source, target = ranks[pair[0]], ranks[pair[1]]
            for kind, own, other in (("send", source, target), ("recv", target, source)):
                if own == rank:
                    place = everyone.index(other)
                    call = CommunicationCall(kind, op.bytes, "", group, "module of XLA")
                    found.append(_to(call, place))
        return tuple(found)

    def _ranks(self, key: Key) -> tuple[int, ...]:
        """The rank of each device of a module."""
        if key not in self._mapped:
            module = self.of(key)
            count = module.module.devices if module is not None else self.world
            assigned = module.module.assigned if module is not None else ()
            ran = sorted(self.ran.get(key, ()))
            ranks = ran if len(ran) == count else list(range(count))
            order = sorted(assigned) if len(assigned) == count else list(range(count))
            places = {device: place for place, device in enumerate(order)}
            listed = assigned if len(assigned) == count else order
            self._mapped[key] = tuple(ranks[places[device]] for device in listed)
        return self._mapped[key]


def _to(call: CommunicationCall, peer: int) -> CommunicationCall:
    return CommunicationCall(
        call.kind, call.bytes, call.dtype, call.group, call.source, False, 0, peer
    )


def split_name(title: str) -> Key:
    """Name of a module, and the number that profiles put behind it: `jit_step(15)`."""
    found = _NUMBERED.search(title)
    return (title[: found.start()], int(found[1])) if found else (title, -1)
