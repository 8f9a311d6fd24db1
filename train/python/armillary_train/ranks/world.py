"""The processes of a run and what they do together, apart from exchanging rows.

Here: joining them, agreeing, adding up. Not here: starting them (`run/launch.py`), exchanging
embeddings (`exchange.py`)."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed.rendezvous import rendezvous

from armillary.errors import InputError, LostContactError, Problem, TrainingError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch._C._distributed_c10d import Store

_LOST = re.compile(r"gloo|[Cc]onnection|[Tt]imed? ?out|peer|NCCL|store", re.S)
"""Words in errors of communication."""
_BACKLOG = 2048
"""Processes that may wait at the store until it takes them in, as PyTorch's own."""
_LARGEST = 2**32
"""Bytes of a message to other ranks."""
_Value = TypeVar("_Value")
_Number = TypeVar("_Number", bound=np.generic)
_READ = timedelta(seconds=5)
"""How long rank 0 lets others read what they disagree about, at most."""


@dataclass(frozen=True, slots=True)
class World:
    """The processes of a run, seen from one of them."""

    rank: int = 0
    size: int = 1

    def gather(self, value: _Value, kind: type[_Value]) -> list[_Value]:
        """`value` of every rank, in their order. It is of the type `kind`: plain values, lists,
        tuples, dictionaries and data classes of them.

        Raises `TrainingError` if a rank sends anything else. Other ranks are reached over a
        network, so nothing is unpickled, which would let them run code here."""
        if self.size == 1:
            return [value]
        sent = self._bytes(msgspec.msgpack.encode(value))
        try:
            return [msgspec.msgpack.decode(each, type=kind) for each in sent]
        except msgspec.MsgspecError as error:
            raise TrainingError([Problem("", "ranks", f"can't be understood: {error}")]) from None

    def gather_array(self, values: NDArray[_Number]) -> list[NDArray[_Number]]:
        """Numbers of every rank, in their order. All ranks have the same type of numbers."""
        found = self.gather(values.tobytes(), bytes)
        size = values.itemsize
        return [np.frombuffer(each[: len(each) // size * size], values.dtype) for each in found]

    def _bytes(self, mine: bytes) -> list[bytes]:
        """The bytes of every rank."""
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(mine)
        dist.all_reduce(sizes)
        longest = int(sizes.max())
        if not 0 <= int(sizes.min()) <= longest <= _LARGEST:
            said = f"messages of {longest:,} bytes"
            raise TrainingError([Problem("", "ranks", said, f"at most {_LARGEST:,}")])
        room = torch.zeros(longest, dtype=torch.uint8)
        room[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        found = [torch.empty_like(room) for _ in range(self.size)]
        dist.all_gather(found, room)
        return [
            each.numpy().tobytes()[:size] for each, size in zip(found, sizes.tolist(), strict=True)
        ]

    def add(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of `values` over all ranks, on all ranks."""
        if self.size == 1:
            return values.copy()
        total = torch.from_numpy(values.copy())
        dist.all_reduce(total)
        return total.numpy()

    def same_batch(self, samples: int) -> None:
        """Raises `TrainingError` on every rank unless the next batch has the same number of
        `samples` for all of them; 0: there are no more. Otherwise they would wait for each other,
        where their files differ."""
        if self.size == 1:
            return
        found = torch.zeros(self.size, dtype=torch.int64)
        found[self.rank] = samples
        dist.all_reduce(found)
        if (found != samples).any():
            said = f"batches of {', '.join(map(str, found.tolist()))} samples in one step"
            help_ = "the same files on all ranks"
            raise TrainingError([Problem("", "ranks 0 to " + str(self.size - 1), said, help_)])

    def agree(self, values: Mapping[str, object]) -> None:
        """Raises `InputError` on every rank if a value is not the same on all of them."""
        found = self.gather(dict(values), dict[str, Any])
        wrong = [
            Problem(
                "",
                name,
                f"differs: {found[0][name]!r} on rank 0, {other[name]!r} on rank {rank}",
                "the same on all ranks",
            )
            for name in values
            for rank, other in list(enumerate(found))[1:]
            if other.get(name) != found[0].get(name)
        ]
        if wrong:
            raise InputError(wrong)


@contextlib.contextmanager
def joined(timeout: float, *, gpus: bool = False) -> Iterator[World]:
    """The processes that the environment names (that of torchrun), connected; or this one alone.
    With `gpus`, each has one of its machine's, and NCCL connects these.

    Raises `InputError` when the environment is wrong, when ranks disagree about their number, or
    when a machine has fewer GPUs than processes. Raises `TrainingError` when they can't be reached
    within `timeout` seconds, and `LostContactError` when one is lost later."""
    size = _number("WORLD_SIZE", 1)
    rank = _number("RANK", 0)
    if not 0 <= rank < size:
        said = f"RANK is {rank} of {size}"
        raise InputError([Problem("", "RANK", said, f"0 to {size - 1}")])
    if size == 1:
        yield World()
        return
    if gpus:
        _take_gpu(rank)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    port = _number("MASTER_PORT", 29500)
    if not 1 <= port <= 65535:
        raise InputError([Problem("", "MASTER_PORT", f"MASTER_PORT is {port}", "1 to 65535")])
    os.environ.setdefault("MASTER_PORT", str(port))
    wait = timedelta(seconds=timeout)
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if gpus else "gloo",
            store=_meeting(rank, size, wait),
            rank=rank,
            world_size=size,
            timeout=wait,
        )
    except InputError:
        raise
    except (RuntimeError, ValueError) as error:
        said = f"not all of {size} processes could be reached within {timeout:g} s: {_short(error)}"
        raise TrainingError([Problem("", f"rank {rank}", said)]) from None
    try:
        yield World(rank, size)
    except RuntimeError as error:
        if _LOST.search(str(error)) is None:
            raise
        said = f"contact with another process was lost: {_short(error)}"
        raise LostContactError([Problem("", f"rank {rank}", said)]) from None
    dist.destroy_process_group()


def _meeting(rank: int, size: int, wait: timedelta) -> Store:
    """The store through which ranks find each other. Raises `InputError` on every rank if they
    disagree about their number."""
    # The world of this store is rank 0 alone, which would wait for others otherwise, and say too
    # late why.
    store: Store = (_hosted(wait) if rank == 0 else None) or next(
        rendezvous("env://", rank, 1, timeout=wait)
    )[0]
    store.set(f"armillary/rank {rank}", str(size))
    for other in range(size):
        found = int(store.get(f"armillary/rank {other}"))
        if found == size:
            continue
        store.set(f"armillary/read/{rank}", "")
        if rank == 0:  # The store ends with this rank.
            others = [f"armillary/read/{each}" for each in range(1, max(size, found))]
            with contextlib.suppress(RuntimeError):
                store.wait(others, min(wait, _READ))
        said = f"WORLD_SIZE is {size} on rank {rank}, and {found} on rank {other}"
        raise InputError([Problem("", "WORLD_SIZE", said, "the same on all ranks")])
    return store


def _hosted(wait: timedelta) -> Store | None:
    """The store of a run whose processes meet at a loopback address, which listens there only.
    PyTorch's would listen on all addresses of the machine, without a password. `None` where they
    meet elsewhere, or where torchrun has the store."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    name, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        family, *_, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        return None  # PyTorch says what is wrong with the name.
    if not ipaddress.ip_address(address[0]).is_loopback:
        return None
    try:
        server = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise RuntimeError(f"{name}:{port}: {error.strerror}") from None
    return TCPStore(
        name,
        port,
        is_master=True,
        timeout=wait,
        wait_for_workers=False,
        master_listen_fd=server.detach(),
    )


def has_gpus() -> bool:
    """Whether this machine has a GPU for each of its processes."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return count >= _number("LOCAL_WORLD_SIZE", _number("WORLD_SIZE", 1))


def _take_gpu(rank: int) -> None:
    """Makes this process's GPU the one that `cuda` means."""
    count, place = torch.cuda.device_count(), _number("LOCAL_RANK", rank)
    if place >= count:
        said = f"process {place} of this machine has no GPU: there are {count}"
        help_ = "a GPU for each process, or --device cpu"
        raise InputError([Problem("", f"rank {rank}", said, help_)])
    torch.cuda.set_device(place)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text):
        said = f"{name} is {text[:40]!r}"
        raise InputError([Problem("", name, said, "a whole number, as torchrun sets it")])
    return int(text)


def _short(error: Exception) -> str:
    """The first line of an error, without the place in PyTorch's code."""
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return re.sub(r"^\[[^\]]*\] ", "", line)[:200]
