"""A scheduler of requests, written from the rules of vLLM 0.19.0 that the docstring of
`lab/peers/record_vllm_scheduler.py` tells. It answers drawn loads of that form in memory, so that
schedulers are compared on more loads than are recorded. Its own test is against the record.

Here: clear code, no speed. Full attention, one group of blocks, a queue of two batches if async."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OUTPUTS = 1_000_000
"""The output of request r is the segment `OUTPUTS + r`."""

Token = tuple[int, int]
Key = tuple[Any, ...]
"""Key of a full block: that of the block before, and its tokens."""


@dataclass
class Block:
    """A block of the cache. `key` is there while its content can be found."""

    number: int
    holders: int = 0
    key: Key | None = None


class Blocks:
    """All blocks, the queue of free ones, and content that can be found."""

    def __init__(self, count: int, size: int, keeps: bool) -> None:
        self.size, self.keeps = size, keeps
        self.free: OrderedDict[int, Block] = OrderedDict(
            (number, Block(number)) for number in range(1, count + 1)
        )
        self.copies: dict[Key, list[Block]] = {}
        self.evictions = 0

    def find(self, keys: Sequence[Key]) -> list[Block]:
        """The blocks of the keys up to the first that is not there."""
        found: list[Block] = []
        for key in keys if self.keeps else ():
            if key not in self.copies:
                break
            found.append(self.copies[key][0])
        return found

    def hold(self, blocks: Sequence[Block]) -> None:
        """Holds blocks that were found."""
        for block in blocks:
            if block.holders == 0:
                del self.free[block.number]
            block.holders += 1

    def take(self, count: int) -> list[Block]:
        """New blocks, from the front of the queue."""
        taken = [self.free.popitem(last=False)[1] for _ in range(count)]
        for block in taken:
            block.holders = 1
            if block.key is not None:
                self.forget(block)
        return taken

    def forget(self, block: Block) -> None:
        """Loses the content of a block."""
        assert block.key is not None
        self.copies[block.key].remove(block)
        if not self.copies[block.key]:
            del self.copies[block.key]
        block.key = None
        self.evictions += 1

    def keep(self, block: Block, key: Key) -> None:
        """Lets the content of a block be found."""
        block.key = key
        self.copies.setdefault(key, []).append(block)

    def give_back(self, blocks: Sequence[Block]) -> None:
        """Gives the blocks of a request back, its last one first."""
        for block in reversed(blocks):
            block.holders -= 1
            if block.holders == 0:
                self.free[block.number] = block


@dataclass
class Item:
    """A request of the scheduler."""

    number: int
    order: int
    """Place in the order of arrival."""
    priority: int
    tokens: list[Token]
    prompt: int
    """Tokens of the prompt."""
    output: int
    """Tokens of the output at most."""
    computed: int = 0
    drafts: int = 0
    flying: int = 0
    kept: int = 0
    """Blocks whose content can be found."""
    blocks: list[Block] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    running: bool = False

    @property
    def known(self) -> int:
        """Tokens of the prompt and the outputs so far."""
        return len(self.tokens)

    def add_keys(self, size: int) -> None:
        """Keys of blocks that are full now."""
        while (len(self.keys) + 1) * size <= self.known:
            begin = len(self.keys) * size
            before = self.keys[-1] if self.keys else ()
            self.keys.append((hash(before), before, tuple(self.tokens[begin : begin + size])))


@dataclass
class Batch:
    """What a call decides."""

    tokens: dict[int, int] = field(default_factory=dict)
    cached: dict[int, int] = field(default_factory=dict)
    """Of requests that are admitted."""
    drafts: dict[int, int] = field(default_factory=dict)
    preempted: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    """Requests that give a token."""


class Scheduler:
    """Decides batches. The caller hands over requests, and outputs of batches."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.given = settings
        self.by_priority = settings["policy"] == "priority"
        self.ahead: bool = settings["async_scheduling"]
        self.most_drafts: int = settings["speculative_tokens"]
        way = settings["speculation"]
        self.lookahead = self.most_drafts if way in ("eagle", "draft_model") else 0
        self.drops_last = way == "eagle"
        self.blocks = Blocks(
            settings["blocks"] - 1, settings["block_size"], settings["prefix_caching"]
        )
        self.items: dict[int, Item] = {}
        self.running: list[Item] = []
        self.queue: list[tuple[Any, ...]] = []
        self.front = 0
        self.arrived = 0

    def add(self, number: int, priority: int, tokens: list[Token], output: int) -> None:
        """A request arrives."""
        item = Item(number, self.arrived, priority, list(tokens), len(tokens), output)
        self.arrived += 1
        self.items[number] = item
        self.put(item, item.order)

    def put(self, item: Item, place: int) -> None:
        """Puts a request into the queue. `place` counts with fcfs."""
        key = (item.priority, item.order) if self.by_priority else (place,)
        heapq.heappush(self.queue, (*key, item.number))

    def schedule(self) -> Batch:
        """The next batch."""
        batch = Batch()
        budget = self.schedule_running(batch, self.given["max_num_scheduled_tokens"])
        if not batch.preempted:
            self.schedule_waiting(batch, budget)
        for number, count in batch.tokens.items():
            item = self.items[number]
            item.computed += count
            if item.computed >= item.known + item.flying:
                batch.sampled.append(number)
                if self.ahead:
                    item.flying += 1 + batch.drafts.get(number, 0)
                    item.drafts = self.most_drafts
        return batch

    def cut(self, count: int, budget: int) -> int:
        """Tokens with the limits of a step."""
        threshold: int = self.given["long_prefill_token_threshold"]
        return min(count, threshold or count, budget)

    def schedule_running(self, batch: Batch, budget: int) -> int:
        """Running requests. Returns the rest of the budget."""
        longest = self.given["max_model_len"]
        place = 0
        while place < len(self.running) and budget > 0:
            item = self.running[place]
            place += 1
            ends = item.computed + 2 - item.flying >= item.prompt + item.output
            if item.flying and ends:
                continue
            wanted = item.known + item.drafts + item.flying - item.computed
            count = min(self.cut(wanted, budget), longest - 1 - item.computed)
            if count == 0:
                continue
            while not self.allocate(item, count, [], self.lookahead):
                victim = self.victim()
                self.running.remove(victim)
                if victim.number in batch.tokens:
                    budget += batch.tokens.pop(victim.number)
                    batch.drafts.pop(victim.number, None)
                    place -= 1
                self.preempt(victim)
                batch.preempted.append(victim.number)
                if victim is item:
                    return budget
            batch.tokens[item.number] = count
            budget -= count
            drafts = count + item.computed - item.known - item.flying
            if item.drafts and drafts > 0:
                batch.drafts[item.number] = min(drafts, item.drafts)
            item.drafts = 0
        return budget

    def victim(self) -> Item:
        """The running request that is preempted."""
        if self.by_priority:
            return max(self.running, key=lambda each: (each.priority, each.order))
        return self.running[-1]

    def preempt(self, item: Item) -> None:
        """Puts a running request back into the queue."""
        self.release(item)
        item.computed = item.drafts = 0
        item.running = False
        self.front -= 1
        self.put(item, self.front)

    def release(self, item: Item) -> None:
        """Gives the blocks of a request back."""
        self.blocks.give_back(item.blocks)
        item.blocks, item.kept = [], 0

    def schedule_waiting(self, batch: Batch, budget: int) -> None:
        """Waiting requests, until the first that can't be admitted."""
        size = self.blocks.size
        while self.queue and budget > 0 and len(self.running) < self.given["max_num_seqs"]:
            item = self.items[self.queue[0][-1]]
            item.add_keys(size)
            found = self.blocks.find(item.keys[: (item.known - 1) // size])
            if self.drops_last:
                found = found[:-1]
            cached = len(found) * size
            wanted = self.cut(item.known - cached, item.known)
            if not self.given["chunked_prefill"] and wanted > budget:
                return
            count = min(wanted, budget)
            if self.given["scheduler_reserve_full_isl"] and not self.fits(item, item.known, found):
                return
            if not self.allocate(item, count, found, 0):
                return
            heapq.heappop(self.queue)
            self.running.append(item)
            item.running, item.computed = True, cached
            batch.tokens[item.number] = count
            batch.cached[item.number] = cached
            budget -= count

    def missing(self, item: Item, tokens: int, found: list[Block]) -> int:
        """Blocks that the tokens of a request need beyond those that it has and that are found."""
        needed: int = -(-min(tokens, self.given["max_model_len"]) // self.blocks.size)
        return max(0, needed - len(item.blocks) - len(found))

    def fits(self, item: Item, tokens: int, found: list[Block]) -> bool:
        """Whether there are blocks for so many tokens of the request."""
        idle = sum(block.holders == 0 for block in found)
        return self.missing(item, tokens, found) + idle <= len(self.blocks.free)

    def allocate(self, item: Item, count: int, found: list[Block], lookahead: int) -> bool:
        """Gives a request blocks for `count` more tokens, or changes nothing."""
        computed = item.computed + len(found) * self.blocks.size
        tokens = computed + count + lookahead
        if not self.fits(item, tokens, found):
            return False
        self.blocks.hold(found)
        new = self.blocks.take(self.missing(item, tokens, found))
        item.kept += len(found)
        item.blocks += [*found, *new]
        self.keep(item, min(computed + count, item.known))
        return True

    def keep(self, item: Item, tokens: int) -> None:
        """Lets full blocks of the first tokens be found."""
        if not self.blocks.keeps:
            return
        item.add_keys(self.blocks.size)
        while (item.kept + 1) * self.blocks.size <= tokens:
            self.blocks.keep(item.blocks[item.kept], item.keys[item.kept])
            item.kept += 1

    def update(self, batch: Batch, accepted: Callable[[int], int]) -> list[int]:
        """The model has computed a batch. `accepted` is how many drafts of a request are right.
        Returns the requests that end."""
        ended = []
        for number in batch.sampled:
            item = self.items.get(number)
            if item is None:
                continue
            tried = batch.drafts.get(number, 0)
            taken = accepted(number) if tried else 0
            if item.computed:
                item.computed -= tried - taken
            if item.flying:
                item.flying -= tried - taken
            done = False
            for _ in range(1 + taken):
                item.tokens.append((OUTPUTS + number, item.known - item.prompt))
                item.flying -= self.ahead
                longest = item.known >= self.given["max_model_len"]
                done = longest or item.known - item.prompt >= item.output
                if done:
                    break
            if self.ahead and item.running:
                self.keep(item, item.computed - item.flying)
            if done:
                ended.append(number)
                self.end(item)
        return ended

    def end(self, item: Item) -> None:
        """A request leaves."""
        self.release(item)
        del self.items[item.number]
        if item.running:
            self.running.remove(item)
        else:
            self.queue = [each for each in self.queue if each[-1] != item.number]
            heapq.heapify(self.queue)

    def propose(self, batch: Batch, drafts: Mapping[int, int]) -> list[list[int]]:
        """Drafts of the next step, where outputs are awaited. Requests that are not in `drafts`
        have the largest possible number of them."""
        found = []
        for number in batch.tokens:
            item = self.items.get(number)
            if item is not None and number in batch.sampled:
                item.drafts = drafts.get(number, self.most_drafts)
                found.append([number, item.drafts])
        return found
