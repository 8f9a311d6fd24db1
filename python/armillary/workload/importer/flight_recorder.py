"""Dumps of PyTorch's flight recorder: the calls of one rank's process groups.

Here: what a dump says, checked. Not here: how its file is read (`reading.py`), and whether the
calls of all ranks meet (`flight_alignment.py`).

PyTorch writes a dump for each rank when a collective times out (`TORCH_NCCL_DUMP_ON_TIMEOUT`,
`TORCH_FR_BUFFER_SIZE`). Keys as in version 2.10 of the dump (PyTorch 2.14):
https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import InputError, Problem
from . import collectives
from .collectives import CommunicationCall, GroupRef
from .reading import FLIGHT, FlightDocument, Recording, shown

_VERSION = re.compile(r"2\.\d{1,4}")
_MESSAGE = re.compile(r"(send|recv) (\d{1,9})(?:->|<-)(\d{1,9})$")
_MOST_NUMBERS = 2**24
"""Lengths of tensors in a dump."""
_MOST_BYTES = 2**60
_LATEST = 2**63
"""Nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class FlightCall:
    """A call of a process group. Times in picoseconds; `duration` is 0 where it was not timed."""

    record: int
    """How many calls the rank had recorded before."""
    sequence: int
    """How many collectives the group had called until then, with this one."""
    label: str
    """The group as the dump names it."""
    name: str
    call: CommunicationCall
    created: int
    """When the host made the call."""
    duration: int
    done: bool

    @property
    def is_message(self) -> bool:
        """Whether it is a send or a receive."""
        return self.call.kind in ("send", "recv")

    @property
    def title(self) -> str:
        """The call for a reader."""
        number = self.name if self.is_message else f"{self.name} {self.sequence:,}"
        return f"{number} of group {self.label}"


@dataclass(frozen=True)
class FlightDump:
    """A dump: calls in their order, and the groups whose members it lists."""

    calls: tuple[FlightCall, ...]
    groups: Mapping[str, tuple[int, ...]]
    parts: int
    """Records that only stand for several others (`coalesced`)."""


def dump(recording: Recording) -> FlightDump:
    """The calls of a rank. Raises `InputError` for what is not as PyTorch writes it."""
    assert isinstance(recording.document, FlightDocument)
    return _Reader(recording.file).dump(recording.document.value)


@dataclass
class _Reader:
    """Checks every value that it takes."""

    name: str
    numbers: int = 0
    where: str = ""
    known: dict[str, str] = field(default_factory=dict)

    def dump(self, value: Mapping[Any, Any]) -> FlightDump:
        if not isinstance(value.get("entries"), list | tuple):
            raise self._refused("entries", "has no list of entries")
        version = value.get("version")
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            said = f"unknown version of the dump: {shown(version)}"
            raise self._refused("version", said)
        groups = self._groups(value.get("pg_config"))
        calls, parts = list[FlightCall](), 0
        for number, entry in enumerate(value["entries"]):
            self.where = f"entries[{number}]"
            if not isinstance(entry, dict):
                raise self._refused("", "is not a mapping")
            call = self._call(entry)
            parts += call is None
            calls += [call] if call is not None else []
        calls.sort(key=lambda call: call.record)
        if any(a.record == b.record for a, b in itertools.pairwise(calls)):
            raise self._refused("record_id", "is in several entries")
        if not calls:
            raise self._refused("entries", "holds no call")
        return FlightDump(tuple(calls), groups, parts)

    def _groups(self, value: object) -> dict[str, tuple[int, ...]]:
        """Members of groups by name. Gloo's dumps leave names out, and then say nothing."""
        found = {}
        for entry in value.values() if isinstance(value, dict) else ():
            name = entry.get("name") if isinstance(entry, dict) else None
            ranks = _ranks(entry.get("ranks")) if isinstance(name, str) else ()
            if name and ranks and min(ranks) >= 0 and len({*ranks}) == len(ranks):
                found[str(name)] = ranks
        return found

    def _call(self, entry: dict[Any, Any]) -> FlightCall | None:
        """A call; nothing for an entry that stands for those before it."""
        name = self._text(entry, "profiling_name")
        plain_name = name.partition(":")[2] or name
        if plain_name.lower() == "coalesced":
            return None
        group, label = self._group(entry)
        kind, peer = collectives.kind_of(plain_name) or "unknown", -1
        if message := _MESSAGE.search(plain_name[-64:]):
            kind, peer = message[1], int(message[3])
        elif kind in ("send", "recv"):
            raise self._refused("profiling_name", f"does not name the other rank: {name[:60]!r}")
        size, dtype = self._bytes(entry, kind)
        call = CommunicationCall(kind, size, dtype, group, "flight recorder", peer=peer)
        created = self._count(entry, "time_created_ns", _LATEST) * 1000
        done = entry.get("retired") is True or entry.get("state") == "completed"
        record = self._count(entry, "record_id", _LATEST)
        sequence = self._count(entry, "collective_seq_id", _LATEST)
        return FlightCall(
            record, sequence, label, plain_name, call, created, self._duration(entry), done
        )

    def _group(self, entry: dict[Any, Any]) -> tuple[GroupRef, str]:
        found = entry.get("process_group")
        pair = found if isinstance(found, list | tuple) and len(found) == 2 else (None, None)
        name, description = pair
        if not isinstance(name, str) or not isinstance(description, str):
            raise self._refused("process_group", "is not a name and a description")
        label = f"{name!r} ({description})" if description not in ("", "undefined") else repr(name)
        return GroupRef(name), self.known.setdefault(label, label)

    def _bytes(self, entry: dict[Any, Any], kind: str) -> tuple[int, str]:
        """Bytes of the call's input on this rank, and the type of its elements."""
        shapes, types = entry.get("input_sizes"), entry.get("input_dtypes")
        if not isinstance(shapes, list | tuple) or not isinstance(types, list | tuple):
            raise self._refused("input_sizes", "are not shapes with their types")
        if not shapes:
            return (0 if kind == "barrier" else -1), ""
        if len(types) != len(shapes):
            said = f"{len(shapes)} shapes and {len(types)} types"
            raise self._refused("input_dtypes", said)
        if not all(isinstance(each, str) for each in types):
            raise self._refused("input_dtypes", "has something else than names of types")
        widths = [collectives.width_of(each) for each in types]
        counts = [self._elements(shape) for shape in shapes]
        size = sum(width * count for width, count in zip(widths, counts, strict=True))
        if size > _MOST_BYTES:
            raise self._refused("input_sizes", f"have {size:,} bytes")
        return (size if all(widths) else -1), types[0][:64]

    def _elements(self, shape: object) -> int:
        if not isinstance(shape, list | tuple):
            raise self._refused("input_sizes", "has something else than shapes")
        self.numbers += len(shape) + 1
        if self.numbers > _MOST_NUMBERS:
            raise self._refused("input_sizes", f"has more than {_MOST_NUMBERS:,} lengths")
        product = 1
        for length in shape:
            if not isinstance(length, int) or not 0 <= length <= _MOST_BYTES:
                raise self._refused("input_sizes", f"invalid length: {shown(length)}")
            product = min(product * length, _MOST_BYTES * 2)
        return product

    def _duration(self, entry: dict[Any, Any]) -> int:
        """How long it took on the device, where that was timed."""
        found = entry.get("duration_ms")
        if found is None:
            return 0
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e9:
            raise self._refused("duration_ms", f"invalid time: {shown(found)}")
        return round(found * 1e9)

    def _count(self, entry: dict[Any, Any], key: str, limit: int) -> int:
        found = entry.get(key)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < limit:
            raise self._refused(key, f"invalid number: {shown(found)}")
        return found

    def _text(self, entry: dict[Any, Any], key: str) -> str:
        found = entry.get(key)
        if not isinstance(found, str):
            raise self._refused(key, f"invalid text: {shown(found)}")
        return found

    def _refused(self, key: str, said: str) -> InputError:
        where = ".".join(part for part in (self.where, key) if part)
        return InputError([Problem(self.name, where, said, FLIGHT)])


def _ranks(value: object) -> tuple[int, ...]:
    """Members of a group, which dumps write as text or as a list."""
    plain_list = isinstance(value, list | tuple) and all(isinstance(each, int) for each in value)
    return collectives.integers(value) if plain_list or isinstance(value, str) else ()
