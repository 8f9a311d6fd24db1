"""Collectives over the ranks, in nccl-tests' columns: by the trainer's own exchanges, and by gloo
or, between GPUs, NCCL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from armillary import nccl

from ..ranks.all_reduce import adding_up
from ..ranks.coroutines import finished
from ..ranks.exchange import Exchange
from ..ranks.world import World
from .clock import timed

SIZES = tuple(2**power for power in range(10, 25, 2))
"""Bytes as nccl-tests counts them."""
KINDS = ("all_to_all", "all_reduce", "all_gather", "reduce_scatter")
_WIDTH = 4


def collectives(world: World) -> Iterator[dict[str, Any]]:
    """Every collective at every size; none for one rank."""
    if world.size == 1:
        return
    exchange = Exchange()
    library = "nccl" if "nccl" in dist.get_backend_config() else "gloo"
    device = torch.device("cuda" if library == "nccl" else "cpu")
    for transport in ("exchange", library):
        for kind in KINDS:
            for size in SIZES:
                made = (
                    _own(exchange, kind, size, device)
                    if transport == "exchange"
                    else _torch(kind, size, device)
                )
                if made is None:
                    continue
                found = timed(_whole(made, device), world, together=True)
                count = nccl.element_count(kind, size, world.size, _WIDTH)
                rate = size / found.us / 1e3
                yield {
                    "transport": transport,
                    "name": kind,
                    "ranks": world.size,
                    "size": size,
                    "count": count,
                    "type": "float",
                    "redop": "sum" if "reduce" in kind else "none",
                    "root": -1,
                    "time": found.us,
                    "algbw": rate,
                    "busbw": rate * nccl.bus_factor(kind, world.size),
                    "spread": found.spread,
                    "busy": found.busy,
                }


def _whole(work: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """Work that has ended when the call has."""
    if device.type == "cpu":
        return work

    def ended() -> None:
        work()
        torch.cuda.synchronize()

    return ended


def _own(exchange: Exchange, kind: str, size: int, device: torch.device) -> Callable[[], object]:
    ranks, count = exchange.size, size // _WIDTH
    each = max(1, count // ranks)
    if kind == "all_to_all":
        sent = exchange.room(each * ranks, device).zero_()
        return lambda: exchange.swap("rows", sent, [each] * ranks, [each] * ranks)
    if kind == "all_gather":
        mine = torch.ones(each, device=device)
        return lambda: exchange.wait(exchange.start_all("rows", mine, [each] * ranks))
    if kind == "reduce_scatter":
        given = torch.ones(each * ranks, device=device)

        def scatter() -> object:
            found = exchange.swap("rows", given, [each] * ranks, [each] * ranks)
            return found.view(ranks, each).sum(0)

        return scatter
    summed = exchange.room(count, device).zero_()
    return lambda: finished(adding_up(exchange, summed))


def _torch(kind: str, size: int, device: torch.device) -> Callable[[], object] | None:
    ranks, count = dist.get_world_size(), size // _WIDTH
    each = max(1, count // ranks)
    whole, part = (torch.ones(count, device=device) for count in (each * ranks, each))
    into = torch.empty(each * ranks, device=device)
    if kind == "all_to_all":
        return lambda: dist.all_to_all_single(into, whole)
    if kind == "all_gather":
        return lambda: dist.all_gather(list(into.chunk(ranks)), part)
    if kind == "all_reduce":
        return lambda: dist.all_reduce(whole)
    return None
