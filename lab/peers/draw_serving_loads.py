"""Drawn loads of a serving scheduler. The docstring of `record_vllm_scheduler.py` has their form.

Here: settings and requests, from a seed. Not here: a scheduler."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

Segments = list[list[int]]
"""Segment and length of each piece of a prompt."""

OUTPUTS = 1_000_000
"""The output of request r is the segment `OUTPUTS + r`."""


MOST = 400
"""Tokens of outputs after which a load has enough requests."""


@dataclass
class Wanted:
    """A request of a load. `after` is the request after whose end it comes, if any."""

    arrival: int
    """Step, or steps after the end of `after`."""
    priority: int
    output: int
    prompt: Segments
    after: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the prompt."""
        return sum(length for _, length in self.prompt)

    @property
    def total(self) -> int:
        """Tokens of prompt and output."""
        return self.tokens + self.output


@dataclass
class Load:
    """Settings and requests, in order of their numbers."""

    kind: str
    settings: dict[str, Any]
    requests: list[Wanted] = field(default_factory=list)


KINDS = (
    "pressure",
    "priority",
    "urgent",
    "chunks",
    "seats",
    "prefixes",
    "sessions",
    "arrivals",
    "whole prompts",
    "equal prompts",
    "mixed",
)
"""Subject of a load. The rest of its settings is drawn freely."""
SPREADS = {"arrivals": (20, 50), "priority": (20, 50), "urgent": (20, 40)}
"""Steps over which the requests of a kind arrive."""
SPECULATIONS = ("ngram", "eagle", "draft_model")


class Prompts:
    """Draws prompts. A segment that has no second use is a number of its own."""

    def __init__(self, draw: random.Random, kind: str, block: int, longest: int) -> None:
        self.draw, self.kind, self.block, self.longest = draw, kind, block, longest
        self.own = 100
        lengths = [self.shared_length() for _ in range(draw.randint(1, 4))]
        self.shared = [[number, length] for number, length in enumerate(lengths)]

    def shared_length(self) -> int:
        """Tokens of a prefix: half of them a multiple of the block."""
        blocks = self.draw.randint(1, max(1, self.longest // self.block // 2))
        exact = self.draw.random() < 0.5
        return blocks * self.block + (0 if exact else self.draw.randint(1, self.block - 1))

    def fresh(self, longest: int) -> list[int]:
        """A segment that nothing else has."""
        self.own += 1
        length = self.draw.randint(1, max(1, longest))
        if self.kind == "equal prompts" and length > self.block and self.draw.random() < 0.6:
            length -= length % self.block
        return [self.own, length]

    def prompt(self, before: list[Wanted]) -> tuple[Segments, int | None]:
        """A prompt, and the request whose prompt and output it begins with, if any."""
        draw, kind = self.draw, self.kind
        chance = {"prefixes": 0.8, "mixed": 0.4, "sessions": 0.3, "priority": 0.3}.get(kind, 0.1)
        if before and kind == "equal prompts" and draw.random() < 0.6:
            return [list(each) for each in draw.choice(before).prompt], None
        if before and kind in ("sessions", "mixed") and draw.random() < 0.6:
            number = draw.randrange(len(before))
            old = before[number]
            if old.total < 2 * self.longest:
                told = [OUTPUTS + number, old.output]
                return [*map(list, old.prompt), told, self.fresh(self.block)], number
        if draw.random() < chance:
            first = list(draw.choice(self.shared))
            if draw.random() < 0.2:
                first[1] = draw.randint(1, first[1])
            rest = [self.fresh(self.longest - first[1])] if draw.random() < 0.9 else []
            return [first, *rest], None
        return [self.fresh(self.longest)], None


def lengths(draw: random.Random, kind: str, block: int) -> tuple[int, int]:
    """Longest prompt and longest output of a load. Memory runs short where prompts are short and
    outputs long, because the scheduler admits what it has room for."""
    if kind == "urgent":
        return draw.randint(3, 8) * block, draw.randint(block // 2, 2 * block)
    if kind == "chunks":
        return draw.choice([4, 6, 10]) * block, draw.randint(1, 32)
    if kind == "priority" and draw.random() < 0.5:
        return draw.randint(2, 6) * block, draw.randint(4, 2 * block)
    if kind in ("pressure", "priority") or draw.random() < 0.3:
        return draw.randint(2, 2 * block), draw.randint(block, 4 * block)
    return draw.randint(1, 4) * block, draw.randint(1, 32)


def requests(draw: random.Random, kind: str, block: int) -> list[Wanted]:
    """Drawn requests of a load."""
    count = draw.randint(4, 16) + (draw.randint(8, 24) if draw.random() < 0.2 else 0)
    longest, output = lengths(draw, kind, block)
    prompts = Prompts(draw, kind, block, longest)
    spread = draw.choice(SPREADS.get(kind, (0, 0, 10, 30)))
    # Later requests that are more urgent take blocks of the first ones of a batch.
    newest = kind == "urgent" or (kind == "priority" and draw.random() < 0.5)
    found: list[Wanted] = []
    arrival = 0
    while len(found) < count and sum(each.output for each in found) < MOST:
        if spread:
            arrival += int(draw.expovariate(count / spread))
        prompt, after = prompts.prompt(found)
        waits = after is not None and draw.random() < 0.8
        found.append(
            Wanted(
                draw.randint(0, 4) if waits else arrival,
                -(len(found) // 2) if newest else draw.choice([-1, 0, 0, 1, 2, 5]),
                draw.randint(1 + output // 4, output),
                prompt,
                after if waits else None,
            )
        )
    return found


def settings(
    draw: random.Random, kind: str, block: int, wanted: list[Wanted], how: str
) -> dict[str, Any]:
    """Drawn settings of a load. `how` is `plain`, `async` or the way of speculation."""
    totals = [each.total for each in wanted]
    cut = all(each.after is None for each in wanted) and draw.random() < 0.15
    model = max(totals) + draw.randint(0, 2 * block)
    if cut:  # Some outputs end at the longest length of the model.
        model = max(2 + max(each.tokens for each in wanted), max(totals) - draw.randint(0, 8))
    least = math.ceil(model / block)
    plenty = sum(math.ceil(total / block) for total in totals) + 4
    tight = {"pressure": 1, "prefixes": 0.7, "sessions": 0.6}.get(kind, 0.4)
    if kind in ("priority", "urgent"):
        blocks = draw.randint(least, 2 * least)
    elif draw.random() < tight:
        blocks = least + draw.randint(0, max(1, least // 3))
    else:
        blocks = draw.randint(least, max(least, plenty))
    seats = draw.randint(1, 3) if kind == "seats" else draw.randint(3, 16)
    whole = kind == "whole prompts" or (kind == "mixed" and draw.random() < 0.2)
    little = kind == "priority" or how in SPECULATIONS
    most = 2 if kind == "chunks" or (little and draw.random() < 0.5) else 8
    budget = draw.randint(4, most * block)
    speculative = draw.randint(1, 5) if how in SPECULATIONS else 0
    budget = max(budget, seats * (2 if how == "draft_model" else 1), model if whole else 0)
    threshold = draw.randint(budget // 3, budget * 2 // 3) if kind == "urgent" else 0
    if draw.random() < {"chunks": 0.5, "whole prompts": 0.5}.get(kind, 0.15):
        threshold = draw.randint(1, max(2, model // 2 if whole else budget))
    by_priority = kind in ("priority", "urgent") or (kind == "mixed" and draw.random() < 0.4)
    cached = kind in ("prefixes", "sessions", "equal prompts") or how == "eagle"
    tries = {"pressure": 0.5, "urgent": 0.1}.get(kind, 0.75)
    cached = cached or draw.random() < 0.5
    return {
        "block_size": block,
        "blocks": blocks + 1,
        "max_num_seqs": seats,
        "max_num_batched_tokens": budget,
        "max_num_scheduled_tokens": budget - (seats if how == "draft_model" else 0),
        "max_model_len": model,
        "chunked_prefill": not whole,
        "long_prefill_token_threshold": threshold,
        "scheduler_reserve_full_isl": draw.random() < tries,
        "policy": "priority" if by_priority else "fcfs",
        "prefix_caching": cached,
        "async_scheduling": how == "async",
        "speculation": how if how in SPECULATIONS else "",
        "speculative_tokens": speculative,
    }


def load(seed: str, kind: str, how: str, pending: bool = False) -> Load:
    """A load from a seed. `pending` adds scheduling ahead of outputs to speculation."""
    draw = random.Random(seed)
    block = draw.choice([8, 16, 32])
    wanted = requests(draw, kind, block)
    found = settings(draw, kind, block, wanted, how)
    found["async_scheduling"] = found["async_scheduling"] or pending
    return Load(kind, found, wanted)
