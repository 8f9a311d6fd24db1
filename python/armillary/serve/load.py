"""Requests: how many tokens each has, what their prompts share, when they arrive.

Here: drawn loads. Recorded ones are in `traces/`. The same seed gives the same load."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from ..units import counted

PICOSECONDS = 10**12
LAST = 9_000_000 * PICOSECONDS
"""Latest arrival: times have 64 bits."""
MOST_TURNS = 1000
"""Turns of a conversation, whose prompts grow."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `prompt` are its pieces as (content, tokens): pieces with the same content begin
    with the same tokens. Contents below 0 are outputs: -1 is that of the first request."""

    prompt: tuple[tuple[int, int], ...]
    output: int
    """Tokens that are generated."""
    priority: int = 0
    """Smaller is more urgent."""

    @property
    def tokens(self) -> int:
        """Tokens of the prompt."""
        return sum(length for _, length in self.prompt)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests and when they arrive."""

    requests: tuple[Request, ...]
    arrivals: tuple[int, ...] | None
    """Picoseconds, ascending; `None` in a closed loop."""
    concurrency: int = 0
    """Requests that are there at any time, in a closed loop."""
    said: str = ""
    """The load in words."""
    notes: tuple[str, ...] = ()
    """Assumptions."""
    measured: tuple[tuple[float, float], ...] = field(default=())
    """Seconds to the first token and to the end of each request, where a recording has them."""
    after: tuple[tuple[int, int] | None, ...] = ()
    """Turns of conversations: the earlier request whose answer each waits for, and ps between that
    answer and this request; `None` for one that arrives by itself. Empty without conversations."""

    lines: tuple[int, ...] = ()
    """Line of the file that each recorded request is from; empty without lines."""

    @property
    def longest(self) -> int:
        """Tokens of the longest request, with its output."""
        return max(each.tokens + each.output for each in self.requests)


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of numbers of tokens."""

    mean: float
    low: float = 1.0
    """Least length over the mean, for uniform ones."""
    high: float = 1.0
    deviation: float = 0.0
    """Standard deviation over the mean, of a lognormal distribution."""

    def draw(self, source: random.Random) -> int:
        """A length of at least 1."""
        return max(1, round(self.value(source)))

    def value(self, source: random.Random) -> float:
        """A value that is not rounded."""
        if self.deviation:
            sigma = math.sqrt(math.log1p(self.deviation**2))
            return self.mean * math.exp(sigma * source.gauss(0, 1) - sigma**2 / 2)
        return self.mean * source.uniform(self.low, self.high)


def lengths(text: str, option: str) -> Lengths:
    """Whole numbers as an option gives them: `1024`, `820-1024` (uniform), `1024~0.5` (lognormal
    with a standard deviation of half the mean).

    Raises:
        InputError: anything else.
    """
    return _spread(text, option, "lengths", (1, 2**24), "1024, 820-1024")


def counts(text: str, option: str) -> Lengths:
    """Turns of a conversation, written as lengths are.

    Raises:
        InputError: anything else.
    """
    return _spread(text, option, "counts", (1, MOST_TURNS), "4, 2-6")


def pauses(text: str, option: str) -> Lengths:
    """Seconds, written as lengths are. They need not be whole.

    Raises:
        InputError: anything else.
    """
    return _spread(text, option, "seconds", (0, 1e6), "10, 5-15", whole=False)


def _spread(
    text: str,
    option: str,
    what: str,
    ends: tuple[float, float],
    examples: str,
    *,
    whole: bool = True,
) -> Lengths:
    least, most = ends
    help_ = (
        f"{examples} (uniform) or {examples.partition(',')[0]}~0.5 (lognormal, deviation over "
        f"mean); {'whole numbers ' if whole else ''}from {least:,} to {most:,.0f}"
    )
    wrong = InputError([Problem("", option, f"invalid {what}: {text!r}", help_)])
    try:
        if "~" in text:
            mean, deviation = (float(part) for part in text.split("~"))
            found, given = Lengths(mean, deviation=deviation), [mean]
        elif "-" in text[1:]:
            low, high = (float(part) for part in text.split("-"))
            mean = (low + high) / 2
            found, given = Lengths(mean, low / mean, high / mean), [low, high]
        else:
            found = Lengths(float(text))
            given = [found.mean]
    except (ValueError, ZeroDivisionError):
        raise wrong from None
    if not all(least <= each <= most for each in given) or given != sorted(given):
        raise wrong
    # A lognormal mean need not be whole.
    if whole and not found.deviation and not all(each.is_integer() for each in given):
        raise wrong
    if not 0 <= found.deviation <= 10:
        raise wrong
    return found


def shape_of(arrival: str) -> float | None:
    """The shape of the gamma distribution of gaps, 1 of `poisson`; `None` of `even` ones.

    Raises:
        InputError: another word.
    """
    kind, _, shape_text = arrival.partition(":")
    try:
        shape = float(shape_text) if shape_text else 1.0
    except ValueError:
        shape = 0.0
    known = kind == "gamma" or (kind in ("poisson", "even") and not shape_text)
    if not known or not 0.01 <= shape <= 1000:
        help_ = "poisson, even, gamma:SHAPE with a shape from 0.01 to 1000"
        raise InputError([Problem("", "arrival", f"unknown arrivals: {arrival!r}", help_)])
    return None if kind == "even" else shape


def gaps(arrival: str, rate: float, count: int, source: random.Random) -> list[int]:
    """Times of arrivals in ps: `poisson`, `even`, or `gamma:SHAPE`, whose gaps vary by 1/sqrt of
    the shape.

    Raises:
        InputError: another word.
    """
    shape = shape_of(arrival)
    at, times = 0.0, []
    for _ in range(count):
        times.append(round(at * PICOSECONDS))
        if shape is None:
            at += 1 / rate
        elif arrival != "poisson":
            at += source.gammavariate(shape, 1 / (shape * rate))
        else:
            at += source.expovariate(rate)
    if times[-1] > LAST:
        message = f"the last of {count} requests arrives after {times[-1] / PICOSECONDS:,.0f} s"
        help_ = f"a higher rate, or fewer requests: at most {LAST / PICOSECONDS:,.0f} s"
        raise InputError([Problem("", "rate", message, help_)])
    return times


def drawn(
    count: int,
    prompt: Lengths,
    output: Lengths,
    *,
    rate: float | None = None,
    arrival: str = "poisson",
    concurrency: int | None = None,
    prefix: int = 0,
    prefixes: int = 1,
    seed: int = 0,
    turns: Lengths | None = None,
    think: Lengths = Lengths(0.0),
) -> Load:
    """`count` requests of drawn lengths. `prefix` tokens at the start of each prompt are one of
    `prefixes` texts. They arrive at `rate` a second, or `concurrency` at a time.

    With `turns` they are turns of conversations, and `rate` and `concurrency` are of those. A turn
    is sent `think` seconds after the answer before it. Its prompt is the conversation so far and
    `prompt` new tokens."""
    if prefix and prefix >= prompt.mean * prompt.low:
        message = f"{prefix} tokens at the start of prompts that may have fewer"
        raise InputError([Problem("", "prefix", message, "longer prompts (--input-tokens)")])
    source = random.Random(seed)
    requests = []
    for number in range(count):
        tokens, generated = prompt.draw(source), output.draw(source)
        shared = min(prefix, tokens - 1)  # a lognormal prompt may be shorter
        pieces = [(number + prefixes, tokens - shared)]
        if shared > 0:
            pieces.insert(0, (source.randrange(prefixes), shared))
        requests.append(Request(tuple(pieces), generated))
    after: tuple[tuple[int, int] | None, ...] = ()
    if turns is not None:
        requests, after = _conversations(requests, turns, think, source)
    begin = sum(each is None for each in after) if after else count
    what = counted(count, "request")
    if after:
        what = f"{counted(count, 'turn')} of {counted(begin, 'conversation')}"
    if rate is not None:
        times = tuple(_of_turns(gaps(arrival, rate, begin, source), after))
        said = f"{what}, {rate:g} a second ({arrival})"
        return Load(tuple(requests), times, said=said, after=after)
    there = concurrency or 1
    return Load(tuple(requests), None, there, f"{what}, {there:,} at a time", after=after)


def _conversations(
    requests: list[Request], turns: Lengths, think: Lengths, source: random.Random
) -> tuple[list[Request], tuple[tuple[int, int] | None, ...]]:
    """Requests as turns of conversations, each after the other. The last one may be cut."""
    made: list[Request] = []
    after: list[tuple[int, int] | None] = []
    left = 0
    history: tuple[tuple[int, int], ...] = ()
    for number, each in enumerate(requests):
        if left == 0:
            left, history = min(turns.draw(source), MOST_TURNS), ()
            after.append(None)
        else:
            after.append((number - 1, round(think.value(source) * PICOSECONDS)))
            # A shared start is that of a conversation alone.
            each = Request(((each.prompt[-1][0], each.tokens),), each.output)  # noqa: PLW2901
        made.append(Request((*history, *each.prompt), each.output))
        history = (*made[-1].prompt, (-1 - number, each.output))
        left -= 1
    return made, tuple(after)


def _of_turns(times: list[int], after: tuple[tuple[int, int] | None, ...]) -> list[int]:
    """Times of the first turns, for all turns of each conversation."""
    if not after:
        return times
    found: list[int] = []
    begins = iter(times)
    for each in after:
        found.append(next(begins) if each is None else found[-1])
    return found
