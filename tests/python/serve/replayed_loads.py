"""Replays a load on the reference: steps in the form of the record of vLLM's scheduler
(`lab/peers/record_vllm_scheduler.py`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from reference_scheduler import OUTPUTS, Batch, Item, Scheduler, Token


def steps_of(load: dict[str, Any]) -> Iterator[list[Any]]:
    """All steps of a record, also those that it has as a number."""
    step: list[Any] = []
    for each in load["steps"]:
        if isinstance(each, int):
            yield from [step] * each
        else:
            step = each
            yield step


def batch_of(step: list[Any]) -> Iterator[tuple[int, int, int | None]]:
    """Request, tokens, and cached tokens of an admission."""
    for each in step[0]:
        number, tokens, *cached = [each, 1] if isinstance(each, int) else each
        yield number, tokens, cached[0] if cached else None


def tokens_of(segments: list[list[int]]) -> list[Token]:
    """Tokens of a prompt."""
    return [(segment, place) for segment, length in segments for place in range(length)]


def replayed(load: dict[str, Any]) -> tuple[list[list[Any]], list[list[int]]]:
    """Steps, and free blocks at the end. Of the record it uses settings, requests, how many drafts
    are accepted and how many are proposed."""
    scheduler = Scheduler(load["settings"])
    batches: deque[tuple[Batch, dict[int, int]]] = deque()
    found = []
    for number, told in enumerate(steps_of(load)):
        for name, (arrival, priority, output, segments) in enumerate(load["requests"]):
            if arrival == number:
                scheduler.add(name, priority, tokens_of(segments), output)
        batch = scheduler.schedule()
        taken = {name: count for name, _, count in (told[6:7] or [[]])[0]}
        batches.append((batch, taken))
        step = [items(batch), batch.preempted, [], len(scheduler.blocks.free)]
        step += [len(scheduler.queue), len(scheduler.running)]
        if scheduler.most_drafts:
            step.append([[name, n, taken.get(name, 0)] for name, n in batch.drafts.items()])
        if not (scheduler.ahead and batch.tokens and len(batches) < 2):
            oldest, right = batches.popleft()
            step[2] = scheduler.update(oldest, right.__getitem__)
            if scheduler.most_drafts and not scheduler.ahead:
                proposed = dict((told[7:8] or [[]])[0])
                drafts = scheduler.propose(batch, proposed)
                step += [drafts] if len(told) > 7 else []
        found.append(step)
    return found, left_of(scheduler)


def items(batch: Batch) -> list[Any]:
    """A batch as the record has it."""
    found: list[Any] = []
    for name, count in batch.tokens.items():
        if name in batch.cached:
            found.append([name, count, batch.cached[name]])
        else:
            found.append(name if count == 1 else [name, count])
    return found


def came_and_went(sequence: dict[str, Any]) -> tuple[list[list[Any]], list[list[int]]]:
    """Events of a sequence of the cache alone, and free blocks at the end
    (`lab/peers/kept_prefixes.py`)."""
    scheduler = Scheduler(
        {
            "block_size": sequence["block_size"],
            "blocks": sequence["blocks"],
            "prefix_caching": True,
            "max_model_len": 1_000_000,
            "policy": "fcfs",
            "async_scheduling": False,
            "speculation": "",
            "speculative_tokens": 0,
        }
    )
    held: dict[int, Item] = {}
    found: list[list[Any]] = []
    for event in sequence["events"]:
        number = event[0]
        if len(event) == 4:
            item = Item(number, 0, 0, tokens_of(event[1]), 0, 0)
            item.prompt = item.known
            cached = came(scheduler, item)
            if cached >= 0:
                held[number] = item
            found.append([number, event[1], cached, len(scheduler.blocks.free)])
        elif len(event) == 3:
            grown = all(grew(scheduler, held[number]) for _ in range(event[1]))
            found.append([number, event[1], len(scheduler.blocks.free) if grown else -1])
        else:
            scheduler.release(held.pop(number))
            found.append([number, len(scheduler.blocks.free)])
    return found, left_of(scheduler)


def came(scheduler: Scheduler, item: Item) -> int:
    """Cached tokens of a request that comes with its prompt, or -1 without blocks for it."""
    item.add_keys(scheduler.blocks.size)
    hits = scheduler.blocks.find(item.keys[: (item.known - 1) // scheduler.blocks.size])
    cached = len(hits) * scheduler.blocks.size
    if not scheduler.allocate(item, item.known - cached, hits, 0):
        return -1
    item.computed = item.known
    return cached


def grew(scheduler: Scheduler, item: Item) -> bool:
    """Whether there was a slot for a token more."""
    item.tokens.append((OUTPUTS + item.number, item.known - item.prompt))
    if not scheduler.allocate(item, 1, [], 0):
        return False
    item.computed += 1
    return True


def left_of(scheduler: Scheduler) -> list[list[int]]:
    """Free blocks from the front of the queue, and whether each is still cached."""
    free = scheduler.blocks.free
    return [[number, int(block.key is not None)] for number, block in free.items()]
