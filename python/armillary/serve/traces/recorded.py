"""Requests of a file as they are read, and the load that they become.

Here: checks of values, faults, and what all formats share: the order, the first requests, the rate.
Not here: columns and keys (a file for each format)."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...declared import shown
from ...errors import InputError, Problem
from ...units import counted
from ..load import PICOSECONDS, Load, Request
from .source import Source

MOST_TOKENS = 2**24
MOST_REQUESTS = 2**22
MOST_SECONDS = 10**9
_MOST_FAULTS = 10
_PLAIN = re.compile(r"[0-9]{1,12}")
_COUNTS = f"a count from 1 to {MOST_TOKENS}"
_TIMES = f"seconds from 0 to {MOST_SECONDS}"
Pieces = tuple[tuple[int, int], ...]


class Recorded:
    """The requests of a file. Reading ends after `limit` of them."""

    def __init__(self, source: Source, limit: int | None) -> None:
        self.source = source
        self.limit = limit
        self.requests: list[Request] = []
        self.times: list[int] = []
        """Arrivals, ps; empty where the file has none."""
        self.measured: list[tuple[float, float]] = []
        self.after: dict[int, tuple[int, int]] = {}
        """Requests that wait for an answer, with the request of that answer and ps between."""
        self.lines: list[int] = []
        """Line of each request; empty for a file that is one document."""
        self.notes: dict[str, None] = {}
        self.concurrency = 0
        """Requests at a time, where the file has no times."""
        self.is_sorted = True
        """Whether the requests of the file come in the order of their arrivals."""
        self._left_out: Counter[str] = Counter()
        self._problems: list[Problem] = []
        self._contents = 0

    def fresh(self) -> int:
        """A content that no other piece has."""
        self._contents += 1
        return self._contents - 1

    @property
    def is_full(self) -> bool:
        """Whether there are all requests that are wanted."""
        return self.limit is not None and self.is_sorted and len(self.requests) >= self.limit

    def note(self, text: str) -> None:
        """Keeps an assumption."""
        self.notes[text] = None

    def leave_out(self, why: str) -> None:
        """Counts a request that is not part of the load."""
        self._left_out[why] += 1

    def add(self, prompt: Pieces, output: int, time: int | None = None, priority: int = 0) -> None:
        """A request; `time` is its arrival in ps."""
        if len(self.requests) >= MOST_REQUESTS:
            message = f"has more than {MOST_REQUESTS:,} requests"
            raise self.source.fault("", message, "a part of it: --limit N")
        self.requests.append(Request(prompt, output, priority))
        if self.source.kind != "document":
            self.lines.append(self.source.line)
        if time is not None:
            self.times.append(time)

    def fault(self, key: str, message: str, allowed: str, place: str = "") -> None:
        """Keeps a problem of the line at hand, or of a place. Raises all when they are many."""
        where = place or f"line {self.source.line}"
        self._problems.append(Problem(self.source.file, f"{where}: {key}", message, allowed))
        if len(self._problems) >= _MOST_FAULTS:
            raise InputError(self._problems)

    def count(self, key: str, value: object, least: int = 1, place: str = "") -> int | None:
        """A number of tokens; `None` for anything else, which is a fault."""
        if isinstance(value, str):
            found = int(value) if _PLAIN.fullmatch(value) else -1
        else:
            found = value if isinstance(value, int) and not isinstance(value, bool) else -1
        if least <= found <= MOST_TOKENS:
            return found
        allowed = _COUNTS if least else f"a count from 0 to {MOST_TOKENS}"
        self.fault(key, f"invalid count: {shown(value)}", allowed, place)
        return None

    def seconds(self, key: str, value: object, place: str = "") -> float | None:
        """A time in seconds that is not below 0; `None` for anything else, which is a fault."""
        found = number(value)
        if 0 <= found <= MOST_SECONDS:
            return found
        self.fault(key, f"invalid time: {shown(value)}", _TIMES, place)
        return None

    def nanoseconds(self, key: str, value: object, place: str = "") -> int | None:
        """A whole number of ns, also since 1970; `None` for anything else, which is a fault."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
        self.fault(key, f"invalid time: {shown(value)}", "a whole number of ns, 0 or more", place)
        return None

    def output(self, key: str, value: object, place: str = "") -> int | None:
        """Generated tokens. A request without any is left out."""
        found = self.count(key, value, 0, place)
        if found == 0:
            self.leave_out("that generated no token")
        return found or None

    def require(self, row: Mapping[str, Any], *keys: str) -> bool:
        """Whether a row has these keys; a fault where not."""
        missing = [key for key in keys if row.get(key) is None]
        for key in missing:
            self.fault(key, "is missing", ", ".join(keys))
        return not missing

    def finish(self, *, rate: float | None, scale: float, concurrency: int | None) -> Load:
        """The load. Raises `InputError` with every problem."""
        if self._problems:
            raise InputError(self._problems)
        self.notes |= dict.fromkeys(
            f"requests {why} are left out: {count:,}" for why, count in self._left_out.items()
        )
        if not self.requests:
            raise self.source.fault("", "has no requests", "one or more")
        places = list(range(len(self.requests)))
        if self.times:
            places.sort(key=self.times.__getitem__)
        places = places[: self.limit]
        requests = tuple(self._in_order(places))
        measured = tuple(self.measured[place] for place in places) if self.measured else ()
        times = self._times(places, rate, scale, concurrency)
        self.concurrency = 0 if times is not None else concurrency or self.concurrency
        notes = tuple(self.notes)
        after = self._after(places)
        said = self._said(after or (None,) * len(requests), times)
        lines = tuple(self.lines[place] for place in places) if self.lines else ()
        return Load(requests, times, self.concurrency, said, notes, measured, after, lines)

    def _in_order(self, places: list[int]) -> Iterator[Request]:
        """Requests in another order, whose prompts have answers by their new places."""
        new = {place: number for number, place in enumerate(places)} if self.after else {}
        for place in places:
            each = self.requests[place]
            if place in self.after:
                named = ((name, length) for name, length in each.prompt)
                pieces = ((name if name >= 0 else -1 - new[-1 - name], n) for name, n in named)
                each = replace(each, prompt=tuple(pieces))
            yield each

    def _after(self, places: list[int]) -> tuple[tuple[int, int] | None, ...]:
        if not self.after:
            return ()
        new = {place: number for number, place in enumerate(places)}
        found = (self.after.get(place) for place in places)
        return tuple(None if each is None else (new[each[0]], each[1]) for each in found)

    def _times(
        self, places: list[int], rate: float | None, scale: float, concurrency: int | None
    ) -> tuple[int, ...] | None:
        if concurrency or self.concurrency:
            if rate or scale != 1:
                option = "rate" if rate else "scale"
                message = "a closed loop has no times to change"
                raise InputError([Problem("", option, message, "without it")])
            return None
        if not self.times:
            message = "has no times of arrival"
            raise self.source.fault("", message, "--concurrency N, requests that are there at once")
        first = self.times[places[0]]
        times = [self.times[place] - first for place in places]
        # Turns that wait for an answer have the time of their conversation.
        if rate:
            if times[-1] == 0:
                message = "all requests arrive at once, so there is no rate to change"
                raise InputError([Problem("", "rate", message, "without it")])
            begin = sum(place not in self.after for place in places)
            recorded = (begin - 1) * PICOSECONDS / times[-1]
            scale = recorded / rate
            what = "conversations" if self.after else "requests"
            self.note(f"times are stretched to {rate:g} {what} a second from {recorded:.4g}")
        if scale != 1:
            times = [round(time * scale) for time in times]
        return tuple(times)

    def _said(
        self, after: tuple[tuple[int, int] | None, ...], times: tuple[int, ...] | None
    ) -> str:
        name = os.path.basename(self.source.file)  # noqa: PTH119 - a name may be any text
        requests = f"{counted(len(after), 'request')} of {name}"
        begin = sum(each is None for each in after)
        come = ""
        if begin < len(after):
            requests = f"{requests}, turns of {counted(begin, 'conversation')}"
            come = ", which begin"
        if times is None:
            return f"{requests}, {self.concurrency:,} at a time"
        span = times[-1] / PICOSECONDS
        if not span:
            return f"{requests}{come or ', all'} at once"
        return f"{requests}{come} in {span:,.4g} s ({(begin - 1) / span:,.3g} a second)"


def number(value: object) -> float:
    """A number of a file, or a text of one; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    if isinstance(value, str) and (len(value) > 40 or "_" in value or not value.isascii()):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def picoseconds(seconds: float) -> int:
    """ps of a time in seconds."""
    return round(seconds * PICOSECONDS)
