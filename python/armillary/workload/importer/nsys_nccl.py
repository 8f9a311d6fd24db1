"""NCCL's calls in an export of Nsight Systems, and the kernels that carry them.

Here: payloads of NVTX ranges, members of communicators, which call a kernel belongs to. Not here:
tables (`database.py`), ranks (`nsys.py`). NCCL marks each call with a range of its function's name,
whose payload has the communicator, the bytes and a peer or root. Sources: NCCL's
`src/include/nvtx_payload_schemas.h` (fields) and `src/collectives.cc` (bytes: one message, so an
all-gather states its input, a reduce-scatter its output, an all-to-all a part for one peer); NVTX's
`nvToolsExtPayload.h` (types); nsys-ai's `nccl_communicator` (the header of 32 bytes before each
payload). A payload is only used where its schema is in the file and all lengths fit."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...errors import InputError, Problem
from . import collectives
from .collectives import CommunicationCall, GroupRef
from .database import Column, Database
from .kineto import DeviceOp, RuntimeCall

Key = tuple[int, int, int]
"""File, process, device."""

SOURCE = "NVTX payload of NCCL"
_HEADER = struct.Struct("<QQQQ")
_FORMATS = {5: "<i", 6: "<I", 15: "<i", 16: "<I", 17: "<q", 18: "<Q", 22: "<Q"}
"""Types of NVTX: int, unsigned int, int32, uint32, int64, uint64, size_t."""
_COMMUNICATOR, _SIZE, _RANK = "NCCL communicator ID", "No. of ranks", "Rank"
_BYTES = ("Message size [bytes]", "Bytes")
_CALLS = {
    "ncclAllReduce": "all_reduce",
    "ncclAllGather": "all_gather",
    "ncclReduceScatter": "reduce_scatter",
    "ncclBroadcast": "broadcast",
    "ncclBcast": "broadcast",
    "ncclReduce": "reduce",
    "ncclAlltoAll": "all_to_all",
    "ncclAllToAll": "all_to_all",
    "ncclSend": "send",
    "ncclRecv": "recv",
}
_MESSAGES = frozenset({"send", "recv"})
_BY_MESSAGES = frozenset({"send", "recv", "all_to_all"})
"""Calls that NCCL's SendRecv kernel carries."""
_TIMES_RANKS = frozenset({"reduce_scatter", "all_to_all"})
"""Calls whose range states the bytes of one rank's part of the input."""
_MOST_RANKS = 2**24


@dataclass(frozen=True)
class Field:
    """A number in a payload."""

    name: str
    format: str
    offset: int


@dataclass(slots=True)
class Range:
    """A range of NCCL on a host thread, times in picoseconds."""

    name: str
    start: int
    end: int
    values: dict[str, int] = field(default_factory=dict)
    readable: bool = False

    @property
    def kind(self) -> str:
        """The collective or message; empty for groups, communicators and calls not known here."""
        return _CALLS.get(self.name, "")

    @property
    def bytes(self) -> int:
        """The stated bytes, -1 without a payload."""
        return next((self.values[name] for name in _BYTES if name in self.values), -1)

    @property
    def communicator(self) -> int:
        """The communicator's number, 0 where that is not recorded."""
        return self.values.get(_COMMUNICATOR, 0)


class Schemas:
    """Fields of payloads, by domain and schema; none where processes define one differently."""

    def __init__(self, database: Database) -> None:
        columns = [
            Column("domainId"),
            Column("schemaId"),
            Column("idx"),
            Column("type", int, False),
        ]
        columns += [Column("name", str, False), Column("offset", int, False)]
        columns += [Column("arrayOrUnionDetail", int, False)]
        places: dict[tuple[int, int], dict[int, tuple[object, ...]]] = {}
        self._unclear: set[tuple[int, int]] = set()
        for domain, schema, at, *entry in database.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", columns):
            known = places.setdefault((domain, schema), {})
            if known.setdefault(at, tuple(entry)) != tuple(entry):
                self._unclear.add((domain, schema))
        self._fields = {key: tuple(_fields(rows.values())) for key, rows in places.items()}

    def values(self, data: bytes) -> dict[str, int] | None:
        """The numbers of a payload by name; None where its bytes are not what its schema says."""
        if len(data) < _HEADER.size:
            return None
        domain, schema, size, end = _HEADER.unpack_from(data)
        fields = self._fields.get((domain, schema))
        is_sound = end in (_HEADER.size, _HEADER.size + size) and len(data) >= _HEADER.size + size
        if fields is None or (domain, schema) in self._unclear or not is_sound:
            return None
        found: dict[str, int] = {}
        for each in fields:
            if each.offset < 0 or each.offset + struct.calcsize(each.format) > size:
                return None
            [found[each.name]] = struct.unpack_from(each.format, data, _HEADER.size + each.offset)
        return found


def _fields(rows: Iterable[Sequence[object]]) -> Iterator[Field]:
    for kind, name, offset, is_array in rows:
        known = _FORMATS.get(kind) if isinstance(kind, int) else None
        if known and isinstance(name, str) and not is_array:
            yield Field(name, known, offset if isinstance(offset, int) else 0)


@dataclass
class Communicators:
    """Communicators of a run: their sizes, who has which place, and who uses them."""

    sizes: dict[int, int] = field(default_factory=dict)
    places: dict[int, dict[int, Key]] = field(default_factory=dict)
    users: dict[int, set[Key]] = field(default_factory=dict)
    guessed: set[int] = field(default_factory=set)
    """Those whose members are taken to be the recorded ranks that use them."""

    def note(self, each: Range, key: Key, file: str) -> None:
        """Adds the statement of a range about a communicator. Raises `InputError` where two of them
        contradict each other."""
        size, rank = each.values.get(_SIZE), each.values.get(_RANK)
        if not each.communicator or size is None or rank is None:
            return
        place = f"communicator {each.communicator:#x}"
        if not (0 <= rank < size <= _MOST_RANKS):
            said = f"rank {rank} of {size} ranks"
            raise InputError([Problem(file, place, said, "a rank below the number of ranks")])
        known = self.places.setdefault(each.communicator, {}).setdefault(rank, key)
        if known != key or self.sizes.setdefault(each.communicator, size) != size:
            said = f"two devices are its rank {rank}, or its size changes"
            raise InputError([Problem(file, place, said, "the files of one run")])

    def members(self, communicator: int) -> list[Key] | None:
        """All members in order, None where some are not known."""
        places = self.places.get(communicator, {})
        if len(places) < self.sizes.get(communicator, 1 << 60):
            return None
        return [places[rank] for rank in range(len(places))]

    def group(self, communicator: int, ranks: dict[Key, int]) -> GroupRef:
        """The communicator as a group of ranks. One whose making was not recorded is the ranks that
        use it."""
        if not communicator:
            return GroupRef()
        name = f"{communicator:#x}"
        if members := self.members(communicator):
            known = tuple(ranks[key] for key in members if key in ranks)
            if len(known) == len(members):
                return GroupRef(name, known, len(known))
        if size := self.sizes.get(communicator, 0):
            return GroupRef(name, (), size)
        users = tuple(sorted(ranks[key] for key in self.users[communicator] if key in ranks))
        if len(users) < 2:
            return GroupRef(name)
        self.guessed.add(communicator)
        return GroupRef(name, users, len(users))


@dataclass(slots=True)
class Launch:
    """A kernel of NCCL and the call that launched it."""

    call: RuntimeCall
    op: DeviceOp
    key: Key


@dataclass(slots=True)
class Carried:
    """The calls that a kernel carries."""

    launch: Launch
    ranges: list[Range]


def pair(ranges: Sequence[Range], launches: Sequence[Launch]) -> list[Carried]:
    """Kernels of one thread with their calls. A kernel without a clear one is not in the result.

    A call outside of a group launches its kernel within its range. The calls of a group are
    launched when the outermost `ncclGroupEnd` returns."""
    rest = sorted(launches, key=lambda each: each.call.start)
    found: list[Carried] = []
    waiting: list[Range] = []
    depth = place = 0
    for each in sorted(ranges, key=lambda each: (each.start, -each.end)):
        while place < len(rest) and rest[place].call.start < each.start:
            place += 1
        end = place
        while end < len(rest) and rest[end].call.start < each.end:
            end += 1
        if each.name == "ncclGroupStart":
            depth += 1
        elif each.name == "ncclGroupEnd":
            depth = max(0, depth - 1)
            if not depth:
                found += _carried(waiting, rest[place:end])
                waiting, place = [], end
        elif each.kind:
            own = rest[place:end] if not depth else []
            if len(own) == 1 and _fits(own[0].op.name, each.kind):
                found.append(Carried(own[0], [each]))
            elif depth:
                waiting.append(each)
            place = end if own else place
    return found


def _carried(waiting: list[Range], launches: Sequence[Launch]) -> list[Carried]:
    """The kernels of a group: of each kind there is one kernel for all calls of that kind, or
    one for each call, in their order."""
    left = [each for each in waiting if each.bytes != 0 or each.kind in _MESSAGES]
    kinds: dict[str, list[Launch]] = {}
    for launch in launches:
        kinds.setdefault(_kind(launch.op.name), []).append(launch)
    found: list[Carried] = []
    for launched in kinds.values():
        fitting = [each for each in left if _fits(launched[0].op.name, each.kind)]
        if len(launched) == 1 and (len(kinds) == 1 or _kind(launched[0].op.name)):
            found.append(Carried(launched[0], fitting))
        elif len(launched) == len(fitting):
            pairs = zip(launched, fitting, strict=True)
            found += [Carried(launch, [each]) for launch, each in pairs]
    return [each for each in found if each.ranges]


def _kind(kernel: str) -> str:
    return collectives.kind_of(kernel.split("(", maxsplit=1)[0])


def _fits(kernel: str, kind: str) -> bool:
    """Whether a kernel of this name carries such calls; a name without a kind carries any."""
    own = _kind(kernel)
    return not own or own == kind or (own == "send_recv" and kind in _BY_MESSAGES)


def calls(
    carried: Carried, made: Communicators, ranks: dict[Key, int]
) -> tuple[CommunicationCall, ...]:
    """The collectives and messages of a kernel."""
    found: list[CommunicationCall] = []
    for each in carried.ranges:
        group = made.group(each.communicator, ranks)
        size = group.size or (len(ranks) if not each.communicator else 0)
        if size == 1:
            continue
        amount = each.bytes
        if amount > 0 and each.kind in _TIMES_RANKS:
            amount = amount * size if size else -1
        peer = each.values.get("Peer rank", -1)
        root = each.values.get("Root", 0)
        found.append(
            CommunicationCall(each.kind, amount, "", group, SOURCE, False, max(0, root), peer)
        )
    return _exchanged(found, ranks[carried.launch.key])


def _exchanged(found: list[CommunicationCall], own: int) -> tuple[CommunicationCall, ...]:
    """Messages to and from each member are an all-to-all, as PyTorch sends one. A message to itself
    is a copy, and no communication."""
    groups = {each.group for each in found}
    messages = all(each.kind in _MESSAGES and each.bytes >= 0 for each in found)
    if not found or len(groups) > 1 or not messages or not found[0].group.ranks:
        return tuple(found)
    members = found[0].group.ranks
    sent = sorted((each.peer, each.bytes) for each in found if each.kind == "send")
    received = sorted((each.peer, each.bytes) for each in found if each.kind == "recv")
    everybody = list(range(len(members)))
    if [peer for peer, _ in sent] == [peer for peer, _ in received] == everybody:
        sizes = [size for _, size in sent]
        whole = replace(found[0], kind="all_to_all", bytes=sum(sizes), peer=-1)
        return (replace(whole, uneven=len(set(sizes)) > 1),)
    own_place = members.index(own) if own in members else -1
    return tuple(each for each in found if each.peer < 0 or each.peer != own_place)
