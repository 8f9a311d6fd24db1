"""The page of a load: requests, their lengths, and the prefixes that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..serve.hits import Hits, hits
from ..serve.run import Spread, spread
from .page import Fact, Page, Section, Table
from .quantity import number, share

if TYPE_CHECKING:
    from ..serve.load import Load

SCHEMA = "armillary.requests/1"
BLOCKS = (16, 64, 512)
"""Tokens of the blocks in which hits are counted."""


def described(load: Load, path: str) -> tuple[Page, dict[str, Any]]:
    """The page of a load, and the same as JSON (`armillary.requests/1`)."""
    found = [hits(load, block) for block in BLOCKS]
    prompts = spread([float(each.tokens) for each in load.requests])
    outputs = spread([float(each.output) for each in load.requests])
    span = load.arrivals[-1] / 1e12 if load.arrivals else None
    data = {
        "schema": SCHEMA,
        "file": path,
        "requests": len(load.requests),
        "span_s": span,
        "input_tokens": prompts.row(),
        "output_tokens": outputs.row(),
        "unbounded_cache": [
            {
                "block_tokens": each.block,
                "blocks": each.blocks,
                "hit_blocks": each.hit_blocks,
                "block_hit_rate": each.block_share,
                "token_hit_rate": each.token_share,
            }
            for each in found
        ],
        "warnings": list(load.notes),
    }
    return _page(load, found, prompts, outputs), data


def _page(load: Load, found: Sequence[Hits], prompts: Spread, outputs: Spread) -> Page:
    best = found[0]
    return Page(
        title=f"{number(len(load.requests))} requests",
        lead=f"{load.said}.",
        verdict=f"An unbounded cache holds {share(best.token_share)} of the tokens of prompts.",
        facts=[
            Fact("Prompt", f"{prompts.mean:,.0f} tokens", "mean", main=True),
            Fact("Output", f"{outputs.mean:,.0f} tokens", "mean"),
        ],
        warnings=load.notes,
        sections=[
            Section("Lengths", [_lengths(prompts, outputs)]),
            Section("Shared prefixes", [_hits(found)]),
        ],
    )


def _lengths(prompts: Spread, outputs: Spread) -> Table:
    rows = [
        (name, *(f"{at:,.0f}" for at in (each.mean, each.p50, each.p90, each.p99, each.most)))
        for name, each in (("prompt", prompts), ("output", outputs))
    ]
    return Table("Tokens of a request", ("", "mean", "p50", "p90", "p99", "largest"), rows)


def _hits(found: Sequence[Hits]) -> Table:
    rows = [
        (
            number(each.block),
            number(each.blocks),
            number(each.hit_blocks),
            share(each.block_share),
            share(each.token_share),
        )
        for each in found
    ]
    heads = ("block, tokens", "full blocks", "hits", "of blocks", "of tokens")
    note = "A block is a hit where an earlier prompt has the same tokens up to the block's end."
    return Table("Hits of an unbounded cache", heads, rows, note)
