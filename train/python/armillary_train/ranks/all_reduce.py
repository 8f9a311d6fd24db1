"""Sums of arrays over ranks, on all of them.

Here: all-reduces by the exchanges of `exchange.py`. Not here: which gradients are summed when
(`run/pipeline.py`), sums of rows (`column_optimizers.py`).

Model. Ranks add in their order, so that all of them have the same bits. Each rank adds up a part
and sends it to all: a reduce-scatter and an all-gather. For n numbers and W ranks, each rank sends
and receives 2 n (W - 1) / W of them. Two ranks that read each other's memory each add up all n
numbers: they read n as before, in one round instead of two."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor

from armillary.model.messages import GRADIENT_ROW

from .coroutines import Steps
from .exchange import Exchange
from .message_rows import Block, row
from .number_formats import decode, encode


def adding_up(exchange: Exchange, mine: Tensor) -> Steps[Tensor]:
    """The sum of `mine` [numbers] over all ranks, in the format of all-reduces on the way. It may
    take the place of `mine`. Pauses before it waits. Raises as `Exchange.wait`."""
    if exchange.messages.all_reduce == "fp32" and exchange.size == 2 and exchange.reads(mine):
        return _of_two(exchange, mine)
    return _by_parts(exchange, mine)


def _of_two(exchange: Exchange, mine: Tensor) -> Steps[Tensor]:
    under_way = exchange.start_all("mlp_gradients", mine, [len(mine)] * 2)
    yield
    first, second = exchange.wait_parts(under_way)
    # Not in place, because the other rank reads `mine`.
    return first + second


def _by_parts(exchange: Exchange, mine: Tensor) -> Steps[Tensor]:
    rank, size = exchange.rank, exchange.size
    split = torch.tensor_split(mine, size)
    parts, total = [len(part) for part in split], split[rank]
    plain = exchange.messages.all_reduce == "fp32" or size == 1
    blocks = [_blocks(exchange, part) for part in parts]
    sizes = parts if plain else [sum(block.bytes for block in part) for part in blocks]
    every = list(chain(*blocks))
    sent = mine if plain else encode(mine, every)
    under_way = exchange.start("mlp_gradients", sent, sizes, [sizes[rank]] * size)
    yield
    found = exchange.wait_parts(under_way)
    if not plain:
        found = [decode(each, blocks[rank], torch.empty_like(total)) for each in found]
    # In place at last, because this rank's numbers may be the last ones that are added.
    partial = found[0]
    for each in found[1:-1]:
        partial = partial + each
    if len(found) > 1:
        torch.add(partial, found[-1], out=total)
    sent = total if plain else encode(total, blocks[rank])
    under_way = exchange.start_all("mlp_gradients", sent, sizes, mine if plain else None)
    yield
    # No rank reads `mine` any more, except for the sums in it.
    received = exchange.wait(under_way)
    return mine if plain else decode(received, every, mine)


def _blocks(exchange: Exchange, count: int) -> list[Block]:
    """Gradients of MLPs as rows."""
    format_ = exchange.messages.all_reduce
    rows, rest = divmod(count, GRADIENT_ROW)
    return [Block(rows, row([(GRADIENT_ROW, format_)])), Block(1, row([(rest, format_)]))]
