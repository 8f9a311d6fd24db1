"""vLLM's cache of prefixes alone, for `record_vllm_scheduler.py`: drawn requests come and go.

A sequence has `block_size`, `blocks` (with the null block), `events` and `left`. An event `[r,
segments, cached, free]` is a request that comes with all tokens of its prompt at once: how many are
cached, or -1 if there are too few blocks for it, and free blocks after it. `[r, tokens, free]`: it
gets a slot for each of so many tokens of its output. -1 in place of free blocks: one has no slot,
no more are tried, and it goes. `[r, free]`: it goes. Segments and `left` are as in loads.

vLLM must have been told that it runs on processors before this is imported."""

from __future__ import annotations

import random
from typing import Any

import torch
from draw_serving_loads import OUTPUTS, Prompts, Segments, Wanted
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

SPAN = 10_000_000
"""Tokens of a segment at most."""


def token(segment: int, place: int) -> int:
    """Number of a token, different for each segment and place."""
    return segment * SPAN + place


def tokens(segments: Segments) -> list[int]:
    """Tokens of a prompt."""
    return [token(each, place) for each, length in segments for place in range(length)]


def config(blocks: int, block: int) -> KVCacheConfig:
    """Blocks of one layer of full attention."""
    layer = FullAttentionSpec(block_size=block, num_kv_heads=1, head_size=1, dtype=torch.float32)
    return KVCacheConfig(
        num_blocks=blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], layer)],
    )


def left(manager: KVCacheManager) -> list[list[int]]:
    """Free blocks from the front of the queue, and whether each is still cached."""
    free = manager.block_pool.free_block_queue.get_all_free_blocks()
    return [[each.block_id, int(each.block_hash is not None)] for each in free]


class Sequence:
    """Requests that come and go."""

    def __init__(self, seed: str) -> None:
        self.draw = random.Random(seed)
        self.block = self.draw.choice([8, 16, 32])
        self.longest = self.draw.randint(1, 6) * self.block
        blocks = 1 + self.draw.randint(1, 4) * (self.longest // self.block + 1)
        self.manager = KVCacheManager(
            config(blocks, self.block), 10**6, self.block, enable_caching=True
        )
        self.blocks = blocks
        self.hasher = get_request_block_hasher(self.block, sha256)
        kind = self.draw.choice(["prefixes", "sessions", "equal prompts", "mixed"])
        self.prompts = Prompts(self.draw, kind, self.block, self.longest)
        self.known: list[Wanted] = []
        self.held: dict[int, Request] = {}
        self.events: list[list[Any]] = []

    def free(self) -> int:
        """Free blocks."""
        count: int = self.manager.block_pool.get_num_free_blocks()
        return count

    def come(self) -> None:
        """A request comes. It stays if there are blocks for it."""
        number = len(self.known)
        # Sessions go on from requests that have gone or are there, with the outputs that they got.
        prompt, _ = self.prompts.prompt(self.known)
        wanted = Wanted(0, 0, 0, prompt)
        self.known.append(wanted)
        request = Request(
            request_id=str(number),
            prompt_token_ids=tokens(prompt),
            sampling_params=SamplingParams(max_tokens=10**6, ignore_eos=True),
            pooling_params=None,
            block_hasher=self.hasher,
        )
        found, cached = self.manager.get_computed_blocks(request)
        given = self.manager.allocate_slots(request, request.num_tokens - cached, cached, found)
        if given is None:
            cached = -1
        else:
            request.num_computed_tokens = request.num_tokens
            self.held[number] = request
        self.events.append([number, prompt, cached, self.free()])

    def grow(self) -> None:
        """A request gets a few tokens, each with a slot. It goes if there is no slot."""
        number = self.draw.choice(list(self.held))
        request, wanted = self.held[number], self.known[number]
        count = self.draw.randint(1, 2 * self.block)
        for _ in range(count):
            request.append_output_token_ids(token(OUTPUTS + number, wanted.output))
            if self.manager.allocate_slots(request, 1) is None:
                self.events.append([number, count, -1])
                self.go(number)
                return
            request.num_computed_tokens += 1
            wanted.output += 1
        self.events.append([number, count, self.free()])

    def go(self, number: int) -> None:
        """A request goes."""
        self.manager.free(self.held.pop(number))
        self.events.append([number, self.free()])

    def run(self) -> dict[str, Any]:
        """The record of the sequence. All requests have gone at the end."""
        for _ in range(self.draw.randint(20, 60)):
            choice = self.draw.random()
            if not self.held or choice < 0.45:
                self.come()
            elif choice < 0.65:
                self.grow()
            else:
                self.go(self.draw.choice(list(self.held)))
        for number in list(self.held):
            self.go(number)
        return {
            "block_size": self.block,
            "blocks": self.blocks,
            "events": self.events,
            "left": left(self.manager),
        }


def sequences(count: int) -> list[dict[str, Any]]:
    """Records of so many drawn sequences."""
    return [Sequence(f"prefixes {number}").run() for number in range(count)]
