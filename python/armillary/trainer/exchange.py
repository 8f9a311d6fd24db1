"""What ranks say to each other in a step: what they are about to do, and ragged arrays.

Here: one process group, its collectives and their errors. Not here: what is sent (`sharded.py`),
starting processes (`launch.py`).

Every exchange begins with a meeting: each rank says what it is about to do and whether it can. So a
fault on one rank is an error on all of them before anything else is sent, and no rank waits for one
that has left. Sums over ranks are made by the receiver, in the order of ranks: gloo and NCCL add in
orders of their own. So a reduce-scatter is an all-to-all with sums behind it, which moves the same
number of bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import ArmillaryError, InputError, LostContactError, Problem, TrainingError

Wire = Literal["float32", "float16", "bfloat16"]
"""Numbers as they are sent."""

_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

Deed = Literal["train", "evaluate", "update", "end"]
"""What a rank is about to do: a lookup with or without gradients, an update, or nothing more."""

_DEEDS: dict[Deed, str] = {
    "train": "trains on a batch",
    "evaluate": "evaluates a batch",
    "update": "updates its tables",
    "end": "has no more batches",
}
_ORDER = tuple(_DEEDS)

_FAULT_BYTES = 4096
"""Room for one rank's problems, as JSON."""


class Pending(NamedTuple):
    """An exchange that is under way."""

    work: Any
    sent: Tensor
    received: Tensor


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

    def meet(
        self, deed: Deed, numbers: Sequence[int], fault: ArmillaryError | None = None
    ) -> list[list[int]]:
        """The `numbers` of every rank, up to two more than there are ranks.

        Raises:
            ArmillaryError: the `fault` of this or another rank, on all of them.
            TrainingError: the ranks are about to do different things.
        """
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
        sizes = [mine.numel()] * self.size
        sent = mine.reshape(1, -1).expand(self.size, -1).reshape(-1)
        return self.swap(sent, sizes, sizes).view(self.size, *mine.shape)

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
            return Pending(None, sent, sent if into is None else into)
        received = sent.new_empty(sum(take)) if into is None else into
        try:
            work = dist.all_to_all_single(
                received, sent, list(take), list(give), group=self.group, async_op=True
            )
        except RuntimeError as error:
            raise self._lost(error) from None
        return Pending(work, sent, received)

    def wait(self, pending: Pending) -> Tensor:
        """What was received, once it is there."""
        if pending.work is not None:
            try:
                pending.work.wait()
            except RuntimeError as error:
                raise self._lost(error) from None
        return pending.received

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
