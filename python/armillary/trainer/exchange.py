"""What ranks say to each other in a step: what they are about to do, and ragged arrays.

Here: one process group, its collectives and their errors. Not here: what is sent (`sharded.py`),
starting processes (`launch.py`).

Every exchange begins with a meeting: each rank says what it is about to do and whether it can. So a
fault on one rank is an error on all of them before anything else is sent, and no rank waits for one
that has left. Sums over ranks are made by the receiver, in the order of ranks: gloo and NCCL add in
orders of their own. So a reduce-scatter is an all-to-all with sums behind it, which moves the same
number of bytes.

Processes on one machine read arrays out of each other's memory (`outbox.py`), because gloo's
sockets take longer. Then an exchange sends only where they are. A rank writes into an outbox again
once every rank has begun an exchange after reading it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import ArmillaryError, InputError, LostContactError, Problem, TrainingError
from .outbox import Inbox, Outbox, possible

Wire = Literal["float32", "float16", "bfloat16"]
"""Numbers as they are sent."""

_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

Deed = Literal["train", "evaluate", "update", "save", "end"]
"""What a rank is about to do: a lookup with or without gradients, an update, a checkpoint, or
nothing more."""

_DEEDS: dict[Deed, str] = {
    "train": "trains on a batch",
    "evaluate": "evaluates a batch",
    "update": "updates its tables",
    "save": "makes a checkpoint",
    "end": "has no more batches",
}
_ORDER = tuple(_DEEDS)

_FAULT_BYTES = 4096
"""Room for one rank's problems, as JSON."""


@dataclass(slots=True)
class Pending:
    """An exchange that is under way."""

    work: Any
    """PyTorch's handle."""
    number: int
    """How many exchanges began before."""
    sent: Tensor
    """What is not to change before the end."""
    received: Tensor
    take: Sequence[int]
    """Numbers from each rank."""
    heads: Tensor | None = None
    """Where each rank's numbers are in its outbox; `None` if they are sent."""
    outbox: Outbox | None = None
    """This rank's outbox."""


class Exchange:
    """The collectives of one process group; nothing is sent where there is one process only."""

    def __init__(
        self,
        group: Any = None,  # noqa: ANN401 - PyTorch's types of groups differ
        *,
        forward: Wire = "float32",
        backward: Wire = "float32",
    ) -> None:
        """Exchanges in `group` (all processes, if not given). Pooled rows are sent as `forward` and
        their gradients as `backward` numbers; Neo (Figure 11) sends float16 and bfloat16."""
        self.group = group
        self.types = {"forward": _TYPES[forward], "backward": _TYPES[backward]}
        alone = not dist.is_initialized()
        self.rank = 0 if alone else dist.get_rank(group)
        self.size = 1 if alone else dist.get_world_size(group)
        self._failed: ArmillaryError | None = None
        """What failed on this rank since the last meeting."""
        self._begun = 0
        self._free: list[Outbox] = []
        self._read: list[tuple[int, Outbox]] = []
        """Outboxes that this rank has read, and the exchanges that had begun by then."""
        self._inboxes: dict[tuple[int, int], Inbox] = {}
        self._shares = self._can_share()

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
        fault = self._failed or fault
        if self.size == 1:
            if fault is not None:
                raise fault
            return [list(numbers)]
        # Of one length, so that ranks that are about to do different things can meet.
        mine = torch.zeros(4 + self.size, dtype=torch.int64)
        head = [_ORDER.index(deed), fault is not None, *numbers]
        mine[: len(head)] = torch.tensor(head)
        found = self.gather(mine).tolist()
        if any(row[1] for row in found):
            raise self._faults(fault)
        deeds = [_DEEDS[_ORDER[row[0]]] for row in found]
        if len(set(deeds)) > 1:
            said = "; ".join(f"rank {rank} {did}" for rank, did in enumerate(deeds))
            allowed = "the same number of batches on every rank; the last ones may be empty"
            raise TrainingError([Problem("", "batches", said, allowed)])
        return [row[2:] for row in found]

    def _faults(self, fault: ArmillaryError | None) -> ArmillaryError:
        """The faults of all ranks, as one."""
        mine = [] if fault is None else [asdict(each) for each in fault.problems]
        text = json.dumps(mine[:1]).encode()
        if len(text) > _FAULT_BYTES:
            text = json.dumps([{**mine[0], "message": mine[0]["message"][:256]}]).encode()
        kind = isinstance(fault, InputError)
        sent = torch.zeros(_FAULT_BYTES + 1, dtype=torch.uint8)
        sent[0] = kind
        sent[1 : len(text[:_FAULT_BYTES]) + 1] = torch.frombuffer(
            bytearray(text[:_FAULT_BYTES]), dtype=torch.uint8
        )
        problems, input_faults = [], []
        for rank, row in enumerate(self.gather(sent)):
            for each in json.loads(bytes(row[1:].tolist()).rstrip(b"\0")):
                place = ": ".join(part for part in (f"rank {rank}", each["place"]) if part)
                problems.append(Problem(**{**each, "place": place}))
                input_faults.append(bool(row[0]))
        return (InputError if all(input_faults) else TrainingError)(problems)

    def gather(self, mine: Tensor) -> Tensor:
        """`mine` of every rank, in their order: [ranks, *shape]."""
        if self.size == 1:
            return mine.unsqueeze(0)
        sent = mine.reshape(1, -1).expand(self.size, -1).contiguous()
        received = torch.empty_like(sent)
        self._end(self._begin(received.view(-1), sent.view(-1)))
        return received.view(self.size, *mine.shape)

    def swap(
        self, sent: Tensor, give: Sequence[int], take: Sequence[int], into: Tensor | None = None
    ) -> Tensor:
        """An all-to-all: `sent` has `give[r]` numbers for each rank `r`, the result `take[r]` from
        each. The result is `into`, if given."""
        return self.wait(self.start(sent, give, take, into))

    def start(
        self, sent: Tensor, give: Sequence[int], take: Sequence[int], into: Tensor | None = None
    ) -> Pending:
        """Begins a `swap`, which `wait` ends."""
        if self.size == 1:
            if into is not None:
                into.copy_(sent)
            return Pending(None, 0, sent, sent if into is None else into, take)
        received = sent.new_empty(sum(take)) if into is None else into
        self._begun += 1
        if not self._shares:
            work = self._begin(received, sent, list(take), list(give))
            return Pending(work, self._begun, sent, received, take)
        outbox = self._free.pop() if self._free else Outbox(self._begun)
        outbox.write(sent)
        place = [os.getpid(), outbox.number, outbox.version, outbox.descriptor, outbox.size]
        starts = accumulate(give[:-1], initial=0)
        heads = torch.tensor([[*place, start * sent.element_size()] for start in starts])
        found = torch.empty_like(heads)
        work = self._begin(found.view(-1), heads.view(-1))
        return Pending(work, self._begun, heads, received, take, found, outbox)

    def wait(self, pending: Pending) -> Tensor:
        """What was received, once it is there."""
        if pending.work is None:
            return pending.received
        self._end(pending.work)
        # A rank that has begun this exchange has read what it read before.
        done = [outbox for begun, outbox in self._read if begun < pending.number]
        self._read = [each for each in self._read if each[0] >= pending.number]
        self._free += done
        if pending.heads is not None and pending.outbox is not None:
            blocks = torch.split(pending.received, list(pending.take))
            for rank, (head, block) in enumerate(zip(pending.heads.tolist(), blocks, strict=True)):
                inbox = self._inboxes.setdefault((rank, head[1]), Inbox())
                if block.numel():
                    self._receive(inbox, head, block)
            self._read.append((self._begun, pending.outbox))
        return pending.received

    def _receive(self, inbox: Inbox, head: list[int], into: Tensor) -> None:
        process, _, *place = head
        try:
            inbox.read([process, *place], into)
        except OSError as error:
            raise self._lost(error) from None

    def _can_share(self) -> bool:
        """Whether all ranks can read each other's memory: they are on one machine."""
        if self.size == 1 or dist.get_backend(self.group) != "gloo":
            return False
        able, sign = possible(), int.from_bytes(os.urandom(7), "big")
        outbox = Outbox(0)
        if able:
            outbox.write(torch.tensor([sign]))
        head = [able, sign, os.getpid(), outbox.version, outbox.descriptor, outbox.size]
        for others_able, others_sign, *place in self.gather(torch.tensor(head)).tolist():
            found = torch.zeros(1, dtype=torch.int64)
            try:
                if able and others_able:
                    Inbox().read([*place, 0], found)
            except (OSError, ValueError):
                able = False
            able = able and found.item() == others_sign
        shares = bool(self.gather(torch.tensor([int(able)])).all())
        outbox.close()
        return shares

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

    def swap_rows(
        self,
        way: Literal["forward", "backward"],
        sent: Tensor,
        give: Sequence[int],
        take: Sequence[int],
        into: Tensor | None = None,
    ) -> Tensor:
        """A `swap` of float32 numbers, which are sent in the type of `way`."""
        kind = self.types[way]
        if kind is torch.float32 or self.size == 1:
            return self.swap(sent, give, take, into)
        received = self.swap(sent.to(kind), give, take)
        return received.to(torch.float32) if into is None else into.copy_(received)

    def _lost(self, error: Exception) -> LostContactError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = f"contact with another process was lost: {lines[0][:200]}"
        return LostContactError([Problem("", f"rank {self.rank}", said)])
