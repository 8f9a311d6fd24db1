"""Messages between ranks in a step: the operations that they are about to do, and ragged arrays.

Here: one process group, its collectives and their errors. Not here: what is sent (`sharded.py`),
starting processes (`run/launch.py`).

Every exchange begins with a meeting: each rank says what it is about to do and whether it can. So a
fault on one rank is an error on all of them before anything changes, and no rank waits for one that
has left. A rank that is asked to end the run says so too. Meetings and exchanges are begun and
ended by calls of their own, with work between. All ranks begin them in the same order.

Sums over ranks are made by the receiver, in the order of ranks: gloo and NCCL add in orders of
their own. So a reduce-scatter is an all-to-all with sums behind it, which moves the same number of
bytes (an all-reduce: `all_reduce.py`).

Arrays on GPUs are exchanged by NCCL, those in the host's memory by gloo. Processes on one machine
read the latter out of each other's memory (`shared_memory.py`), because gloo's sockets take longer.
Then an exchange sends only where they are (`process_messages.py`). A rank writes into an outbox
again once every rank has begun an exchange after reading it. What is computed into an outbox
(`room`) is not copied before it is sent, and what is only added up is not copied after it
(`wait_parts`)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import accumulate, chain
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from armillary.errors import ArmillaryError, InputError, LostContactError, Problem, TrainingError
from armillary.model.messages import Messages

from .. import profile_ranges
from .message_rows import Block, Way
from .number_formats import decode, encode
from .process_messages import ProcessPipes
from .shared_memory import Inbox, Outbox, possible

Kind = Literal["indices", "rows", "gradients", "row_sums", "mlp_gradients", "other"]
"""Kind of messages: lookups on their way to shards, pooled rows, their gradients, sums over whole
rows, gradients of the MLPs."""

PLAIN = Messages()

Deed = Literal["train", "evaluate", "update", "save", "end"]
"""Operation that a rank is about to do: a lookup with or without gradients, an update, a
checkpoint, or nothing more."""

_DEEDS: dict[Deed, str] = {
    "train": "trains on a batch",
    "evaluate": "evaluates a batch",
    "update": "updates its tables",
    "save": "makes a checkpoint",
    "end": "has no more batches",
}
_ORDER = tuple(_DEEDS)

_MEETINGS: dict[Deed, Kind] = {"train": "indices", "evaluate": "indices", "update": "gradients"}
"""Messages that follow each kind of meeting."""

_FAULT, _STOP = 1, 2
"""Additional messages of a rank in a meeting: it has a fault, or it is asked to end."""

_FAULT_BYTES = 4096
"""Room for one rank's problems, as JSON."""


@dataclass(slots=True)
class Letter:
    """Some numbers for each rank, under way."""

    number: int
    """How many exchanges began before."""
    kind: Kind
    own: Sequence[int]
    """Message of this rank to itself."""
    work: Any = None
    """PyTorch's handle, where PyTorch carries it."""
    found: Tensor | None = None


@dataclass(slots=True)
class Meeting:
    """A meeting that is under way."""

    letter: Letter
    fault: ArmillaryError | None


@dataclass(slots=True)
class Pending:
    """An exchange that is under way."""

    kind: Kind
    sent: Tensor
    """Tensor that must not change before the end."""
    own: Tensor
    """The part that this rank sends to itself."""
    take: Sequence[int]
    """Numbers from each rank."""
    received: Tensor | None = None
    """Where what is received goes, if that was given or PyTorch carries the array."""
    number: int = 0
    """How many exchanges began before, where PyTorch carries the array."""
    work: Any = None
    """PyTorch's handle, where PyTorch carries the array."""
    letter: Letter | None = None
    """Where each rank's numbers are in its outbox."""
    outbox: Outbox | None = None
    """This rank's outbox, if it is free after the end."""
    into: Tensor | None = None
    """Where numbers go that are sent in another format."""
    blocks: Sequence[Sequence[Block]] = ()
    """Blocks that are received in another format from each rank."""


class Exchange:
    """The collectives of one process group; nothing is sent where there is one process only."""

    def __init__(
        self,
        group: Any = None,  # noqa: ANN401 - PyTorch's types of groups differ
        *,
        messages: Messages = PLAIN,
    ) -> None:
        """Exchanges in `group` (all processes, if not given), with numbers in the formats of
        `messages`."""
        self.group, self.messages = group, messages
        alone = not dist.is_initialized()
        self.rank = 0 if alone else dist.get_rank(group)
        self.size = 1 if alone else dist.get_world_size(group)
        self.waited: dict[Kind, float] = dict.fromkeys(get_args(Kind), 0.0)
        """Seconds that this rank spent on sending and waiting, by what was sent."""
        self.bytes: dict[Kind, int] = dict.fromkeys(get_args(Kind), 0)
        """Bytes of arrays that this rank sent to others."""
        self.asked = False
        """Whether this rank is asked to end after a step."""
        self.stopping = False
        """Whether a rank was asked before the last meeting; the same on all ranks."""
        self._failed: ArmillaryError | None = None
        """Error of this rank since the last meeting."""
        self._begun = 0
        self._outboxes = 0
        self._free: list[Outbox] = []
        self._read: list[tuple[int, Outbox]] = []
        """Outboxes that this rank has read, and the exchanges that had begun by then."""
        self._inboxes: dict[tuple[int, int], Inbox] = {}
        self._lent: dict[int, Outbox] = {}
        """Outboxes that others are to read, by their numbers."""
        self._rooms: dict[int, Outbox] = {}
        """Outboxes whose memory was given away by `room`, by its address."""
        self._pipes: ProcessPipes | None = None
        self._timeout = 0.0
        self._shares = self._can_share()
        """Whether ranks read each other's memory."""

    def fail(self, error: ArmillaryError) -> None:
        """Makes the next meeting raise `error` on all ranks. For work between meetings, whose end
        the other ranks wait for."""
        self._failed = self._failed or error

    def meet(
        self, deed: Deed, numbers: Sequence[int], fault: ArmillaryError | None = None
    ) -> list[list[int]]:
        """The `numbers` of every rank, up to two more than there are ranks.

        Raises:
            ArmillaryError: the `fault` of this or another rank, on all of them.
            TrainingError: the ranks are about to do different things.
        """
        return self.met(self.call(deed, numbers, fault))

    def call(
        self, deed: Deed, numbers: Sequence[int], fault: ArmillaryError | None = None
    ) -> Meeting:
        """Begins a meeting, which `met` ends. What is sent in between is lost if it fails."""
        fault, self._failed = self._failed or fault, None
        # All have one length, so that ranks that are about to do different things can meet.
        mine = [_ORDER.index(deed), _FAULT * (fault is not None) | _STOP * self.asked, *numbers]
        mine += [0] * (4 + self.size - len(mine))
        return Meeting(self._post(_MEETINGS.get(deed, "other"), [mine] * self.size), fault)

    def met(self, meeting: Meeting) -> list[list[int]]:
        """The numbers of every rank. Raises as `meet`."""
        if self.size == 1:
            if meeting.fault is not None:
                raise meeting.fault
            self.stopping = self.asked
            return [list(meeting.letter.own[2:])]
        found = self._opened(meeting.letter)
        self.stopping = self.stopping or any(row[1] & _STOP for row in found)
        if any(row[1] & _FAULT for row in found):
            # No rank reads what was sent before.
            for outbox in list(self._lent.values()):
                self._take_back(outbox)
            self._rooms.clear()
            raise self._faults(meeting.fault)
        deeds = [_DEEDS[_ORDER[row[0]]] for row in found]
        if len(set(deeds)) > 1:
            said = "; ".join(f"rank {rank} {did}" for rank, did in enumerate(deeds))
            allowed = "the same number of batches on every rank; the last ones may be empty"
            raise TrainingError([Problem("", "batches", said, allowed)])
        return [list(row[2:]) for row in found]

    def _post(self, kind: Kind, rows: Sequence[Sequence[int]], amount: int | None = None) -> Letter:
        """Begins to send numbers, those of `rows[r]` to each rank `r`; everywhere the same number
        of them. `amount`: bytes that the others fetch when they have read them."""
        self._begun += 1
        count = 8 * sum(map(len, rows)) if amount is None else amount
        with profile_ranges.begins(kind, self._begun, count) if self.size > 1 else nullcontext():
            return self._posted(Letter(self._begun, kind, rows[self.rank]), rows)

    def _posted(self, letter: Letter, rows: Sequence[Sequence[int]]) -> Letter:
        begin, kind = time.perf_counter(), letter.kind
        if self.size > 1 and self._pipes is not None and self._shares:
            try:
                for to, row in enumerate(rows):
                    if to != self.rank:
                        self._pipes.send(to, letter.number, row)
            except OSError as error:
                raise self._lost(error) from None
        elif self.size > 1:
            sent = torch.tensor(rows, dtype=torch.int64)
            letter.found = torch.empty_like(sent)
            letter.work = self._begin(letter.found.view(-1), sent.view(-1))
        self.waited[kind] += time.perf_counter() - begin
        return letter

    def _opened(self, letter: Letter) -> list[Sequence[int]]:
        """Letters of all ranks. Each has read the letters before, because it has begun this
        exchange."""
        with profile_ranges.waits(letter.number):
            return self._read_letters(letter)

    def _read_letters(self, letter: Letter) -> list[Sequence[int]]:
        begin = time.perf_counter()
        found: list[Sequence[int]] = []
        if letter.found is not None:
            self._end(letter.work)
            found += letter.found.tolist()
        else:
            assert self._pipes is not None
            try:
                for of in range(self.size):
                    mine = of == self.rank
                    received = self._pipes.receive
                    found.append(letter.own if mine else received(of, letter.number, self._timeout))
            except OSError as error:
                raise self._lost(error) from None
        self._free += [outbox for begun, outbox in self._read if begun < letter.number]
        self._read = [each for each in self._read if each[0] >= letter.number]
        self.waited[letter.kind] += time.perf_counter() - begin
        return found

    def _faults(self, fault: ArmillaryError | None) -> ArmillaryError:
        """The faults of all ranks, as one."""
        mine = [] if fault is None else [asdict(each) for each in fault.problems]
        text = json.dumps(mine[:1]).encode()
        if len(text) > _FAULT_BYTES:
            text = json.dumps([{**mine[0], "message": mine[0]["message"][:256]}]).encode()
        sent = bytes([isinstance(fault, InputError)]) + text[:_FAULT_BYTES]
        sent = sent.ljust(_FAULT_BYTES + 8, b"\0")
        row = np.frombuffer(sent, np.int64).tolist()
        problems, input_faults = [], []
        for rank, found in enumerate(self._opened(self._post("other", [row] * self.size))):
            said = np.array(found, np.int64).tobytes()
            for each in json.loads(said[1:].rstrip(b"\0")):
                place = ": ".join(part for part in (f"rank {rank}", each["place"]) if part)
                problems.append(Problem(**{**each, "place": place}))
                input_faults.append(bool(said[0]))
        return (InputError if all(input_faults) else TrainingError)(problems)

    def room(self, count: int, device: torch.device | str = "cpu") -> Tensor:
        """Memory for `count` float32 numbers, which are sent to other ranks whole or in parts. It
        is not filled. Give it back by `release`."""
        if not self._shares or torch.device(device).type != "cpu":
            return torch.empty(count, device=device)
        outbox = self._outbox()
        found = outbox.room(4 * count).view(torch.float32)
        self._rooms[found.untyped_storage().data_ptr()] = outbox
        return found

    def release(self, room: Tensor) -> None:
        """Takes memory of `room` back, after the end of all exchanges that send parts of it."""
        outbox = self._rooms.pop(room.untyped_storage().data_ptr(), None)
        if outbox is not None:
            self._take_back(outbox)

    def _outbox(self) -> Outbox:
        if self._free:
            found = self._free.pop()
        else:
            self._outboxes += 1
            found = Outbox(self._outboxes)
        self._lent[found.number] = found
        return found

    def _take_back(self, outbox: Outbox) -> None:
        """Makes an outbox free once every rank has begun another exchange."""
        if self._lent.pop(outbox.number, None) is not None:
            self._read.append((self._begun, outbox))

    def swap(
        self,
        kind: Kind,
        sent: Tensor,
        give: Sequence[int],
        take: Sequence[int],
        into: Tensor | None = None,
    ) -> Tensor:
        """An all-to-all: `sent` has `give[r]` numbers for each rank `r`, the result `take[r]` from
        each. The result is `into`, if given."""
        return self.wait(self.start(kind, sent, give, take, into))

    def start(
        self,
        kind: Kind,
        sent: Tensor,
        give: Sequence[int],
        take: Sequence[int],
        into: Tensor | None = None,
    ) -> Pending:
        """Begins a `swap`, which `wait` ends."""
        if self.size == 1:
            if into is not None:
                into.copy_(sent)
            return Pending(kind, sent, sent, take, sent if into is None else into)
        starts = list(accumulate(give[:-1], initial=0))
        return self._start(kind, sent, (give, starts), take, into)

    def start_all(
        self, kind: Kind, sent: Tensor, take: Sequence[int], into: Tensor | None = None
    ) -> Pending:
        """Begins to send the same numbers to all ranks, which `wait` ends: an all-gather. `sent`
        may be this rank's part of `into`, if given."""
        count = sent.numel()
        if self.size == 1 or not self.reads(sent):
            return self.start(kind, sent.repeat(self.size), [count] * self.size, take, into)
        return self._start(kind, sent, ([count] * self.size, [0] * self.size), take, into)

    def _start(
        self,
        kind: Kind,
        sent: Tensor,
        give: tuple[Sequence[int], Sequence[int]],
        take: Sequence[int],
        into: Tensor | None,
    ) -> Pending:
        """`give`: how many numbers each rank gets, and where they are in `sent`."""
        begin, (counts, starts) = time.perf_counter(), give
        each = sent.element_size()
        self.bytes[kind] += each * (sum(counts) - counts[self.rank])
        own = sent[starts[self.rank] : starts[self.rank] + counts[self.rank]]
        pending = Pending(kind, sent, own, take, into)
        if not self.reads(sent):
            self._begun += 1
            pending.number = self._begun
            pending.received = received = sent.new_empty(sum(take)) if into is None else into
            with profile_ranges.begins(kind, self._begun, each * sum(counts)):
                pending.work = self._begin(received, sent, list(take), list(counts))
            self.waited[kind] += time.perf_counter() - begin
            return pending
        outbox, first = self._rooms.get(sent.untyped_storage().data_ptr()), 0
        if outbox is not None:
            first = each * int(sent.storage_offset())
        else:
            outbox = pending.outbox = self._outbox()
            others = [
                part for to, part in enumerate(zip(starts, counts, strict=True)) if to != self.rank
            ]
            with profile_ranges.part("exchange.write"):
                room = outbox.room(each * sent.numel()).view(sent.dtype)
                for start, count in dict.fromkeys(others):
                    room[start : start + count] = sent[start : start + count]
        self.waited[kind] += time.perf_counter() - begin
        place = [os.getpid(), *outbox.place]
        rows = [[*place, first + start * each] for start in starts]
        pending.letter = self._post(kind, rows, each * sum(counts))
        return pending

    def wait(self, pending: Pending) -> Tensor:
        """Received tensor, once it is there."""
        parts = self.wait_parts(pending)
        if pending.letter is None and pending.received is not None:
            return pending.received
        begin = time.perf_counter()
        found = pending.received
        if found is None:
            found = pending.sent.new_empty(sum(pending.take))
        with profile_ranges.part("exchange.read"):
            for into, part in zip(torch.split(found, list(pending.take)), parts, strict=True):
                if into.data_ptr() != part.data_ptr():
                    into.copy_(part)
        self.waited[pending.kind] += time.perf_counter() - begin
        return found

    def wait_parts(self, pending: Pending) -> list[Tensor]:
        """Received tensors of each rank, once they are there. They stay until this rank begins
        another exchange, and must not be changed."""
        if pending.letter is not None:
            heads = self._opened(pending.letter)
            parts = [pending.own] * self.size
            for rank, (head, count) in enumerate(zip(heads, pending.take, strict=True)):
                if rank != self.rank:
                    parts[rank] = self._seen(rank, head, count, pending.sent.dtype)
            if pending.outbox is not None:
                self._take_back(pending.outbox)
            return parts
        begin = time.perf_counter()
        if pending.work is not None:
            with profile_ranges.waits(pending.number):
                self._end(pending.work)
        self.waited[pending.kind] += time.perf_counter() - begin
        assert pending.received is not None
        return list(torch.split(pending.received, list(pending.take)))

    def reads(self, sent: Tensor) -> bool:
        """Whether ranks read such an array out of each other's memory."""
        return self._shares and sent.device.type == "cpu"

    def _seen(self, rank: int, head: Sequence[int], count: int, type_: torch.dtype) -> Tensor:
        """Numbers in the outbox of another rank: its process and `Outbox.place`, and their first
        byte."""
        process, number, *place, first = head
        inbox = self._inboxes.get((rank, number))
        if inbox is None:
            inbox = self._inboxes[rank, number] = Inbox()
        try:
            found = inbox.open(process, *place)
        except OSError as error:
            raise self._lost(error) from None
        return found[first : first + count * type_.itemsize].view(type_)

    def _can_share(self) -> bool:
        """Whether all ranks can read each other's memory: they are on one machine. Opens the pipes
        between them then."""
        if self.size == 1 or dist.get_backend(self.group) != "gloo":
            return False
        able, sign = possible(), int.from_bytes(os.urandom(7), "big")
        outbox, pipes = Outbox(0), ProcessPipes(self.rank, self.size)
        if able:
            outbox.room(8).view(torch.int64).fill_(sign)
        head = [able, sign, os.getpid(), *outbox.place, *pipes.places]
        rows = self._gather(head)
        for rank, (others_able, others_sign, process, *place) in enumerate(rows):
            found = 0
            try:
                if able and others_able:
                    found = int(Inbox().open(process, *place[1:4])[:8].view(torch.int64))
                    if rank != self.rank:
                        pipes.open(rank, process, place[4 + self.rank])
            except (OSError, ValueError):
                able = False
            able = able and found == others_sign
        shares = all(row[0] for row in self._gather([int(able)]))
        outbox.close()
        pipes.connected()
        if shares:
            self._pipes, self._timeout = pipes, _timeout(self.group)
        else:
            pipes.close()
        return shares

    def _gather(self, mine: Sequence[int]) -> list[list[int]]:
        """The numbers of every rank, by PyTorch."""
        sent = torch.tensor([list(mine)] * self.size, dtype=torch.int64)
        found = torch.empty_like(sent)
        self._end(self._begin(found.view(-1), sent.view(-1)))
        rows: list[list[int]] = found.tolist()
        return rows

    def _begin(self, received: Tensor, sent: Tensor, *sizes: list[int]) -> Any:  # noqa: ANN401
        """PyTorch's all-to-all."""
        take, give = sizes or (None, None)
        try:
            return dist.all_to_all_single(
                received, sent, take, give, group=self.group, async_op=True
            )
        except RuntimeError as error:
            raise self._lost(error) from None

    def _end(self, work: Any) -> None:  # noqa: ANN401 - PyTorch's own type
        try:
            work.wait()
        except RuntimeError as error:
            raise self._lost(error) from None

    def is_plain(self, kind: Way) -> bool:
        """Whether numbers of this kind are sent as they are."""
        sent = self.messages
        formats = {sent.backward} if kind == "gradients" else {sent.forward, sent.reduce_scatter}
        return self.size == 1 or formats == {"fp32"}

    def start_rows(
        self,
        kind: Way,
        sent: Tensor,
        give: Sequence[Sequence[Block]],
        take: Sequence[Sequence[Block]],
        into: Tensor | None = None,
    ) -> Pending:
        """Begins a `swap` of float32 numbers, which are sent in the formats of the blocks for and
        from each rank, and which `wait_rows` ends."""
        if self.is_plain(kind):
            given, taken = [
                [sum(block.elements for block in part) for part in way] for way in (give, take)
            ]
            return self.start(kind, sent, given, taken, into)
        given, taken = [
            [sum(block.bytes for block in part) for part in way] for way in (give, take)
        ]
        pending = self.start(kind, encode(sent, list(chain(*give))), given, taken)
        pending.blocks, pending.into = take, into
        return pending

    def wait_rows(self, pending: Pending) -> Tensor:
        """Received rows, in float32."""
        received, blocks = self.wait(pending), list(chain(*pending.blocks))
        if not blocks:
            return received
        into = pending.into
        if into is None:
            into = torch.empty(sum(block.elements for block in blocks), device=received.device)
        return decode(received, blocks, into)

    def wait_row_parts(self, pending: Pending) -> list[Tensor]:
        """Received rows of each rank, in float32, as `wait_parts` gives them."""
        parts = self.wait_parts(pending)
        if not pending.blocks:
            return parts
        counts = [sum(block.elements for block in part) for part in pending.blocks]
        rooms = [torch.empty(count, device=pending.sent.device) for count in counts]
        return list(map(decode, parts, pending.blocks, rooms))

    def swap_rows(
        self,
        kind: Way,
        sent: Tensor,
        give: Sequence[Sequence[Block]],
        take: Sequence[Sequence[Block]],
    ) -> Tensor:
        """A `swap` of float32 numbers, which are sent in the formats of blocks."""
        return self.wait_rows(self.start_rows(kind, sent, give, take))

    def start_copied(self, sent: Tensor, own: Block, take: Sequence[Block]) -> Pending:
        """Begins to send the same gradients to all ranks, which `wait_rows` ends."""
        if self.is_plain("gradients"):
            return self.start_all("gradients", sent, [block.elements for block in take])
        data = encode(sent, [own])
        pending = self.start_all("gradients", data, [block.bytes for block in take])
        pending.blocks = [[block] for block in take]
        return pending

    def _lost(self, error: Exception) -> LostContactError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = f"contact with another process was lost: {lines[0][:200]}"
        return LostContactError([Problem("", f"rank {self.rank}", said)])


def _timeout(group: Any) -> float:  # noqa: ANN401 - PyTorch's types of groups differ
    """Seconds after which a collective of the group fails."""
    group = dist.group.WORLD if group is None else group
    seconds: float = group._get_backend(torch.device("cpu")).options._timeout.total_seconds()
    return seconds
