"""Output of nccl-tests and rccl-tests, in the columns of every version.

A line is `size count type [redop] [root] time algbw busbw [wrong] [...] [time algbw busbw [wrong]
[...]]` with times in us; up to NCCL 2.4's tests `bytes N type op [root] time algbw busbw res ...`
with times in ms. Further columns, of single iterations and of the hour, are passed over, as is what
`mpirun --tag-output` and `srun -l` put before a line. Source: NVIDIA/nccl-tests src/util.cu and
before it src/common.cu; NVIDIA/nccl 1.x README.md; ROCm/rccl-tests src/common.cu."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..units import US_PER_MS
from . import unfinished_tables
from .unfinished_tables import Draft, LogLine

_STARTING = re.compile(r"^#?\s*Collective test starting:\s*(\w+)", re.IGNORECASE)
_RANK = re.compile(r"^#?\s*(?:Rank\s+(\d{1,9})\b|Device\s+(\d{1,9})\s*->)", re.IGNORECASE)
_GROUP = re.compile(r"\bGroup\s+(\d{1,9})\b")
_HOST = re.compile(r"\bon\s+(\S+)\s+device\b")
_PROGRAM = re.compile(r"\b(\w+?)_(?:perf|test)(?:_mpi)?\b")
_ROW = re.compile(r"\s*#?\s*\d{1,18}\s+\d{1,18}\s")
_MICRO, _MILLI = re.compile(r"\(us\)"), re.compile(r"\bbytes\s+N\s+type\b")
_CLEAR = 0.05
"""GB/s from which a line shows whether its time is in us or in ms."""


@dataclass(slots=True)
class _Ranks:
    """Ranks that are listed above a table."""

    groups: dict[int, set[int]] = field(default_factory=dict)
    hosts: dict[int, set[str]] = field(default_factory=dict)

    def hear(self, text: str, rank: int) -> None:
        group = int(found[1]) if (found := _GROUP.search(text)) else 0
        self.groups.setdefault(group, set()).add(rank)
        self.hosts.setdefault(group, set()).update(_HOST.findall(text))

    def settle(self, draft: Draft) -> None:
        """The table is of the first rank's group, and of all ranks up to the last where there is
        one group."""
        first = min(self.groups, key=lambda group: min(self.groups[group]), default=0)
        members = self.groups.get(first, set())
        draft.ranks = len(members) if len(self.groups) > 1 else max(members, default=-1) + 1
        draft.hosts = len(self.hosts.get(first, ()))


@dataclass(slots=True)
class _Reader:
    """Parts of a log that were read so far."""

    name: str | None
    scale: float
    """us in the unit of its times, of tables without a head that says so."""
    opened: list[Draft] = field(default_factory=list)
    ranks: _Ranks = field(default_factory=_Ranks)
    hint: str | None = None
    known: bool = True
    """Whether the test is of a collective that we know."""
    skipped: int = 0
    fresh: bool = True
    """Whether the next line begins a table."""

    def hear(self, text: str) -> None:
        if starting := _STARTING.search(text):
            self.name, self.fresh, self.ranks = unfinished_tables.known(starting[1]), True, _Ranks()
            self.known = self.name is not None
        elif rank := _RANK.match(text.strip()):
            if not self.fresh:
                self.fresh, self.ranks = True, _Ranks()
            self.ranks.hear(text, int(rank[1] or rank[2]))
        elif _ROW.match(text):
            self._row(text)
        else:
            self._other(text)

    def _row(self, text: str) -> None:
        found = _line(text.replace("#", " ", 1).split(), self.scale)
        if found is None or not self.known:
            self.skipped += not text.lstrip().startswith("#")
            return
        if self.fresh:
            self.opened.append(Draft(self.name, hint=self.hint))
            self.ranks.settle(self.opened[-1])
            self.fresh = False
        unfinished_tables.append(self.opened, found)

    def _other(self, text: str) -> None:
        if _MILLI.search(text):
            self.scale, self.fresh = US_PER_MS, True
        elif _MICRO.search(text):
            self.scale = 1.0
        elif program := _PROGRAM.search(text):
            self.hint = unfinished_tables.named(program[1]) or self.hint


def read(text: str, name: str | None) -> tuple[list[Draft], int]:
    """The tables of a log, and how many lines look like a table's but don't agree with
    themselves."""
    lines = [unfinished_tables.untagged(line) for line in text.splitlines()]
    reader = _Reader(name, _scale(lines))
    for line in lines:
        reader.hear(line)
    return reader.opened, reader.skipped


def _scale(lines: list[str]) -> float:
    """us in the unit of times, as most lines have it."""
    rows = [line.replace("#", " ", 1).split() for line in lines if _ROW.match(line)]
    micro, milli = (
        sum(_line(words, scale, _CLEAR) is not None for words in rows) for scale in (1.0, US_PER_MS)
    )
    return US_PER_MS if milli > micro else 1.0


def _line(words: list[str], scale: float, least: float = 0.0) -> LogLine | None:
    """A line of a table; `None` when it is none, or its algbw is below `least`."""
    size, rest = int(words[0]), words[3:]
    reduces = bool(rest) and rest[0].isalpha() and rest[0].lower() != "none"
    while rest and rest[0].isalpha():
        rest = rest[1:]
    groups = [found for offset in (1, 0) if (found := list(_groups(size, rest[offset:], scale)))]
    if not groups:
        return None
    time, algbw, busbw, off = max(groups, key=len)[-1]
    if algbw < least:
        return None
    return unfinished_tables.line(size, time, algbw, busbw, reduces, off)


def _groups(
    size: int, words: list[str], scale: float
) -> Iterator[tuple[float, float, float, float]]:
    """Time in us, algbw, busbw and how far both were rounded, once or twice, as far as they agree
    with the size; what stands between is passed."""
    at = 0
    while at + 3 <= len(words):
        time, algbw, busbw = (_number(word) for word in words[at : at + 3])
        if (
            time > 0
            and busbw >= 0
            and unfinished_tables.agree(
                size, time * scale, algbw, _rounding(words[at], time) / time
            )
        ):
            off = max(_rounding(words[at + 1], algbw), _rounding(words[at + 2], busbw))
            yield time * scale, algbw, busbw, off
            at += 3
        elif at == 0:
            return
        else:
            at += 1


def _number(word: str) -> float:
    """-1 of what is not a finite number."""
    try:
        number = float(word)
    except ValueError:
        return -1.0
    return number if math.isfinite(number) else -1.0


def _rounding(word: str, number: float) -> float:
    """How far a printed number may be from what it was rounded from; 0 of zero."""
    if not number:
        return 0.0
    digits, _, exponent = word.lower().partition("e")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
