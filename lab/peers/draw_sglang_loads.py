"""Drawn loads of SGLang's scheduler. The docstring of `record_sglang_scheduler.py` has their form.

Here: settings, from a seed. Requests are those of `draw_serving_loads.py`. Not here: a
scheduler."""

from __future__ import annotations

import math
import random
from typing import Any

from draw_serving_loads import Load, Wanted, requests

__all__ = ["HOW", "KINDS", "Load", "load"]

HOW = {"plain": 120, "overlap": 120}
"""How the scheduler is used, and how many loads of it there are."""
KINDS = (
    "pressure",
    "priority",
    "chunks",
    "seats",
    "prefixes",
    "sessions",
    "arrivals",
    "equal prompts",
    "mixed",
    "urgent",
)
"""Subject of a load. The rest of its settings is drawn freely."""


def settings(
    draw: random.Random, kind: str, page: int, wanted: list[Wanted], how: str
) -> dict[str, Any]:
    """Drawn settings of a load."""
    totals = [each.total for each in wanted]
    # A request alone must have room, also for what is kept free beside it.
    least = math.ceil((max(totals) + 2) / page) + 2
    plenty = sum(math.ceil(total / page) for total in totals) + 4
    tight = {"prefixes": 0.7, "sessions": 0.6}.get(kind, 0.5)
    pressed = kind in ("pressure", "urgent")
    if pressed:  # One comes after another, so that nobody's whole output is reserved.
        pages = least + draw.randint(least // 3, 2 * least)
        for number, each in enumerate(wanted):
            each.arrival += number * draw.randint(1, 2)
    elif draw.random() < tight:
        pages = least + draw.randint(0, max(1, least // 2))
    else:
        pages = draw.randint(least, max(least, plenty))
    seats = draw.randint(1, 3) if kind == "seats" else draw.randint(3, 16)
    chunked = kind == "chunks" or draw.random() < 0.7
    longest = max(each.tokens for each in wanted)
    chunk = draw.randint(max(page, 4), max(page, 4, longest)) if chunked else -1
    if chunked and draw.random() < 0.5:
        chunk = max(page, chunk // page * page)
    by_priority = kind in ("priority", "urgent") or draw.random() < 0.1
    cached = kind in ("prefixes", "sessions", "equal prompts") or draw.random() < 0.6
    return {
        "page_size": page,
        "pages": pages,
        "max_running_requests": seats,
        "chunked_prefill_size": chunk,
        "max_prefill_tokens": draw.randint(max(4, longest // 2), 3 * longest + 4),
        "enable_mixed_chunk": draw.random() < 0.3,
        "schedule_conservativeness": draw.choice([0.02, 0.1] if pressed else [0.1, 0.3, 1.0, 2.0]),
        "schedule_policy": draw.choice(["lpm", "fcfs"]),
        "priority_scheduling": by_priority,
        "radix_cache": cached,
        "ignore_eos": draw.random() < (0.2 if pressed else 0.5),
        "overlap": how == "overlap",
    }


def load(seed: str, kind: str, how: str) -> Load:
    """A load from a seed."""
    draw = random.Random(seed)
    page = draw.choice([1, 1, 1, 4, 16, 64])
    wanted = requests(draw, kind, draw.choice([8, 16, 32]))
    return Load(kind, settings(draw, kind, page, wanted, how), wanted)
