"""Loads that vLLM's scheduler decided, step by step: the record keeps the laws that hold for any
scheduler, its draws reach what they are drawn for, and the reference decides the same.
`lab/peers/record_vllm_scheduler.py` says what is in a load."""

from __future__ import annotations

import math
from typing import Any

import pytest
from peer_records import answers
from replayed_loads import batch_of, came_and_went, replayed, steps_of

ANSWERS: dict[str, list[dict[str, Any]]] = answers("vllm_scheduler")
SEQUENCES = ANSWERS["prefixes"]
RECORDED = {way: loads for way, loads in ANSWERS.items() if way != "prefixes"}
STEPS, PREEMPTIONS, CHUNKED, HITS, EVICTIONS = range(5)
"""Places in a load's `counts`."""


class Walk:
    """Goes through the steps of a load and counts what each request has computed. It decides
    nothing: batches and preemptions are the recorded ones."""

    def __init__(self, load: dict[str, Any]) -> None:
        self.given, self.requests = load["settings"], load["requests"]
        self.ahead = self.given["async_scheduling"]
        self.prompts: list[int] = [sum(length for _, length in each[3]) for each in self.requests]
        self.outputs = [0] * len(self.requests)
        self.computed: dict[int, int] = {}
        """Tokens of each running request."""
        self.waiting: set[int] = set()
        self.ended: set[int] = set()
        self.pending: list[tuple[list[int], dict[int, tuple[int, int]]]] = []
        """Batches without update: requests that give a token, and their drafts."""

    def step(self, number: int, step: list[Any]) -> None:
        """Checks a step."""
        preempted, finished = step[1:3]
        self.waiting |= {name for name, each in enumerate(self.requests) if each[0] == number}
        for name in preempted:
            del self.computed[name]
            self.waiting.add(name)
        sampled = [
            name for name, tokens, cached in batch_of(step) if self.ends_known(name, tokens, cached)
        ]
        self.check_limits(step)
        drafts = {name: (count, taken) for name, count, taken in (step[6:7] or [[]])[0]}
        self.pending.append((sampled, drafts))
        waits = self.ahead and step[0] and len(self.pending) < 2
        assert finished == ([] if waits else self.update(*self.pending.pop(0))), number

    def ends_known(self, name: int, tokens: int, cached: int | None) -> bool:
        """Whether the tokens of a request in a batch reach the last one known: it gives a token."""
        known = self.prompts[name] + self.outputs[name]
        if cached is None:
            assert name in self.computed
        else:
            self.waiting.remove(name)
            assert cached % self.given["block_size"] == 0
            assert cached < known
            self.computed[name] = cached
        self.computed[name] += tokens
        flying = sum(name in names for names, _ in self.pending)
        return self.computed[name] >= known + flying

    def check_limits(self, step: list[Any]) -> None:
        """Budget, queues, seats and blocks after a call of the scheduler."""
        given, (free, waiting, running) = self.given, step[3:6]
        assert sum(tokens for _, tokens, _ in batch_of(step)) <= given["max_num_scheduled_tokens"]
        assert (waiting, running) == (len(self.waiting), len(self.computed))
        assert running <= given["max_num_seqs"]
        if given["speculation"]:
            return  # Blocks for drafts are held too.
        held = sum(math.ceil(each / given["block_size"]) for each in self.computed.values())
        shared = free + held - (given["blocks"] - 1)
        assert shared >= 0 if given["prefix_caching"] else shared == 0

    def update(self, names: list[int], drafts: dict[int, tuple[int, int]]) -> list[int]:
        """The requests that end with the outputs of a batch."""
        done = []
        for name in names:
            count, taken = drafts.get(name, (0, 0))
            self.outputs[name] += 1 + taken
            if name in self.computed:
                self.computed[name] -= count - taken
            longest = self.given["max_model_len"] - self.prompts[name]
            wanted = min(self.requests[name][2], longest)
            if name not in self.ended and self.outputs[name] >= wanted:
                done.append(name)
        for name in done:
            self.computed.pop(name, None)
            self.waiting.discard(name)
        self.ended |= set(done)
        return done


@pytest.mark.parametrize("way", RECORDED)
def test_loads_keep_the_laws_of_scheduling(way: str) -> None:
    """The budget of tokens and seats hold, every block is free or held, every request that is
    admitted has waited, and each ends when its outputs are complete."""
    for load in RECORDED[way]:
        walk = Walk(load)
        for number, step in enumerate(steps_of(load)):
            walk.step(number, step)
        assert walk.ended == set(range(len(load["requests"])))


@pytest.mark.parametrize("way", RECORDED)
def test_the_reference_decides_as_vllm(way: str) -> None:
    """Every step, and the order of free blocks at the end."""
    for load in RECORDED[way]:
        steps, left = replayed(load)
        assert steps == list(steps_of(load)), load["kind"]
        assert left == load["left"], load["kind"]


@pytest.mark.parametrize("way", RECORDED)
def test_blocks_at_the_end_are_all_free(way: str) -> None:
    """Blocks are numbered from 1, because block 0 is the null block. Only caching keeps content."""
    for load in RECORDED[way]:
        blocks = [block for block, _ in load["left"]]
        assert sorted(blocks) == list(range(1, load["settings"]["blocks"]))
        cached = sum(kept for _, kept in load["left"])
        assert not cached or load["settings"]["prefix_caching"]


def test_counts_are_those_of_the_steps() -> None:
    for load in (each for loads in RECORDED.values() for each in loads):
        steps = list(steps_of(load))
        hits = sum(cached or 0 for step in steps for _, _, cached in batch_of(step))
        preemptions = sum(len(step[1]) for step in steps)
        counts = load["counts"]
        assert [counts[place] for place in (STEPS, PREEMPTIONS, HITS)] == [
            len(steps),
            preemptions,
            hits,
        ]


def test_draws_reach_what_they_are_drawn_for() -> None:
    """Many loads preempt, cut prompts, hit the cache and evict from it, of each way."""
    assert [len(loads) for loads in RECORDED.values()] == [200, 40, 30, 20]
    for way, loads in RECORDED.items():
        for place in (PREEMPTIONS, CHUNKED, HITS, EVICTIONS):
            assert sum(load["counts"][place] > 0 for load in loads) >= len(loads) / 6, (way, place)
    kinds = {
        "pressure": PREEMPTIONS,
        "priority": PREEMPTIONS,
        "urgent": PREEMPTIONS,
        "chunks": CHUNKED,
        "prefixes": HITS,
        "sessions": HITS,
        "equal prompts": HITS,
    }
    for kind, place in kinds.items():
        counts = [load["counts"][place] for load in RECORDED["plain"] if load["kind"] == kind]
        assert sum(count > 0 for count in counts) >= len(counts) / 2, kind


def test_the_cache_alone_is_that_of_vllm() -> None:
    """Requests come, grow and go. Cached tokens, free blocks after each event and at the end."""
    for sequence in SEQUENCES:
        events, left = came_and_went(sequence)
        assert events == sequence["events"]
        assert left == sequence["left"]


def test_the_cache_alone_is_full_and_hit() -> None:
    events = [event for sequence in SEQUENCES for event in sequence["events"]]
    came = [event for event in events if len(event) == 4]
    grew = [event for event in events if len(event) == 3]
    assert sum(event[2] > 0 for event in came) > len(came) / 4
    assert sum(event[2] < 0 for event in came) > len(came) / 10
    assert sum(event[2] < 0 for event in grew) > len(grew) / 10
