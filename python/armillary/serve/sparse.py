"""Sparse attention in an engine's step: the indexer, and attention to the keys that it chooses.

Here: kernels that stand for those that were not measured. Not here: the tables of a step
(`iteration.py`), parameters (`model/weights.py`). Sources: DeepSeek-AI 2025, DeepSeek-V3.2-Exp,
section 2.1; vLLM, `deepseek_v2.py` (an indexer is whole on every rank, its cache has 8 bits and a
scale of 4 bytes for each key)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..kernels.shapes import Attention, Shape, Stream
from ..model.decoder import Decoder

SCALE = 4
"""Bytes of the scale of a key of the indexer."""
SCORE = 8
"""Bytes of a key's score, written and read."""
WARNING = (
    "sparse attention: kernels of the indexer were not measured; reads of its keys and attention "
    "of half its heads stand for them"
)


def cached(model: Decoder) -> int:
    """Bytes of a token in the cache of a layer's indexer; 0 without one."""
    return model.index_dim + SCALE if model.index_heads else 0


def looked_up(model: Decoder, requests: int, length: int) -> Shape:
    """Scores of all keys of `requests` sequences of `length` tokens for one new token each: keys
    are read, scores written and read."""
    return Stream(bytes=requests * length * (cached(model) + SCORE))


def scored(model: Decoder, length: int, source: str, engine: str) -> Shape:
    """Scores of a prompt of `length` tokens. Attention has two products for each pair, an indexer
    one: it is timed as attention of half its heads to one head of keys."""
    heads = max(1, model.index_heads // 2)
    return Attention(
        batch=1, length=length, heads=heads, kv_heads=1, head_dim=model.index_dim, source=source,
        engine=engine,
    )  # fmt: skip


def prompts(
    lengths: Sequence[int], most: int, seconds: Callable[[Sequence[int]], list[float]]
) -> list[float]:
    """Seconds of attention to prompts whose tokens attend to at most `most` keys, from those of
    attention to all keys.

    Up to `most` tokens they are the same. Tokens `most` to 2 `most` of full attention see 1.5
    `most` keys on average, so that a later token takes two thirds of one of them."""
    short = [length for length in lengths if length <= most]
    times = seconds([*short, most, 2 * most])
    first, second = times[-2:]
    each = (second - first) / most * 2 / 3
    return [*times[: len(short)], *(first + (n - most) * each for n in lengths[len(short) :])]
