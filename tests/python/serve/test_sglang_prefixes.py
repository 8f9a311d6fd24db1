"""Prefixes that an engine with SGLang's rules finds, against a radix tree that is written after the
paper, on drawn prompts and sessions."""

from __future__ import annotations

import random
from typing import Any

import pytest
from reference_radix_cache import RadixCache, Tokens
from thorough import usually

from armillary import _core

Pieces = list[tuple[int, int]]
LONGEST = 2000


def engine() -> dict[str, Any]:
    """An engine whose cache holds everything; a step takes 1 ms."""
    return {
        "engines": 1, "ranks": 1, "stages": 1, "block": 1, "blocks": 2**20, "sequences": 8,
        "tokens": 64, "longest": LONGEST, "chunked": True, "long_prefill": 0, "priority": False,
        "caching": True, "asynchronous": False, "drafts": 0, "lookahead": 0,
        "recomputes_last": False, "whole": True, "acceptance": [], "graphs": [],
        "mixed_graphs": False, "eager": 0.0, "overlapped": False, "policy": "sglang",
        "longest_prefix": False, "mixed": False, "prefill_tokens": 16384, "conservativeness": 1.0,
        "evicts": False,
        "terms": [{"name": "step", "kind": "rows", "at": [1.0, 2.0], "columns": [],
                   "seconds": [1e-3, 1e-3], "window": 0, "host": False}],
    }  # fmt: skip


def tokens(pieces: Pieces) -> Tokens:
    """Tokens of pieces: a content and a place in it."""
    return tuple((content, place) for content, length in pieces for place in range(length))


def drawn(draw: random.Random, count: int) -> list[tuple[Pieces, int]]:
    """Prompts and lengths of outputs. Some go on from a session before, with its output."""
    requests: list[tuple[Pieces, int]] = []
    for number in range(count):
        start: Pieces = []
        if requests and draw.random() < 0.6:
            before = draw.randrange(number)
            pieces, output = requests[before]
            said = (-1 - before, draw.randint(1, output))
            start = draw.choice([pieces[: draw.randint(0, len(pieces))], [*pieces, said]])
        more = [(draw.randrange(4), draw.randint(1, 90)) for _ in range(draw.randint(1, 3))]
        pieces = [*start, *more]
        if sum(length for _, length in pieces) > LONGEST // 2:
            pieces = more
        requests.append((pieces, draw.randint(1, 6)))
    return requests


@pytest.mark.parametrize("seed", range(usually(20, 1000)))
def test_prefixes_are_those_of_the_reference(seed: int) -> None:
    """One request at a time. The last token of an output is not computed, so it is not kept."""
    requests = drawn(random.Random(seed), 40)
    rows: list[tuple[Pieces, int, int]] = [(pieces, output, 0) for pieces, output in requests]
    found = _core.serve(engine(), None, "round_robin", 8, rows, None, 1, None)
    reference = RadixCache(2**20)
    wanted = []
    for number, (pieces, output) in enumerate(requests):
        wanted.append(reference.come(number, tokens(pieces)))
        for place in range(output - 1):
            assert reference.grow(number, (-1 - number, place))
        reference.go(number)
    assert [cached for _, cached, _, _ in found.notes()] == wanted
    assert sum(cached > 0 for cached in wanted) > len(wanted) / 4
