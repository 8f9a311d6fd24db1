"""Replays a load on the reference: steps in the form of the record of vLLM's scheduler
(`lab/peers/record_vllm_scheduler.py`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from reference_scheduler import Batch, Scheduler, Token


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
    left = [[number, int(block.key is not None)] for number, block in scheduler.blocks.free.items()]
    return found, left


def items(batch: Batch) -> list[Any]:
    """A batch as the record has it."""
    found: list[Any] = []
    for name, count in batch.tokens.items():
        if name in batch.cached:
            found.append([name, count, batch.cached[name]])
        else:
            found.append(name if count == 1 else [name, count])
    return found
