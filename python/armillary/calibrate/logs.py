"""Output of nccl-tests and rccl-tests, as users have it: any version's columns, several tables in a file, broken lines.

A line of a table is `size count type [redop] [root] time algbw busbw [wrong] [time algbw busbw [wrong]]`; it counts
when `size / time` is its `algbw`. The in-place time (the second) is taken where there is one. Which collective it is
stands in the log (`# Collective test starting: all_reduce_perf`), in the file's name, or follows from `busbw / algbw`.
Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md, and the outputs it prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import nccl
from ..errors import InputError, Problem

_STARTING = re.compile(r"^#?\s*Collective test starting:\s*(\w+)", re.IGNORECASE)
_HOST = re.compile(r"\bon\s+(\S+)\s+device\b")
_RANK = re.compile(r"^#?\s*Rank\s+(\d+)\b", re.IGNORECASE)
_NAMES = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast", re.IGNORECASE)
_OFF = 0.02
"""How far size / time may be from the printed algbw."""


@dataclass(frozen=True, slots=True)
class Table:
    """Times of one collective over `ranks` ranks: bytes as nccl-tests counts them, us."""

    file: str
    collective: str
    ranks: int
    points: tuple[tuple[int, float], ...]
    hosts: int = 0
    """Machines that the ranks ran on; 0 where the log doesn't say."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a file holds; `skipped` lines look like a table's but don't agree with themselves, or are of a test that is
    no collective."""

    file: str
    tables: tuple[Table, ...]
    skipped: int


@dataclass(slots=True)
class _Line:
    size: int
    time_us: float
    ratio: float | None
    """busbw / algbw."""
    reduces: bool


@dataclass(slots=True)
class _Open:
    """A table under construction."""

    name: str | None
    ranks: int = 0
    hosts: set[str] = field(default_factory=set)
    known: bool = True
    """Whether the test is of a collective that we know."""
    lines: list[_Line] = field(default_factory=list)


def read(path: str, collective: str | None = None) -> Log:
    """The tables of a file. Raises `InputError` when it has none, or one whose collective or ranks nothing tells."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError([Problem(path, "", error.strerror or str(error), "a log of nccl-tests")]) from None
    opened, skipped = _split(text, _in_name(path, collective))
    problems: list[Problem] = []
    tables = [table for each in opened if (table := _table(path, each, problems))]
    if not opened:
        problems.append(Problem(path, "", f"holds no table ({skipped} lines skipped)", "output of nccl-tests"))
    if problems:
        raise InputError(problems)
    return Log(path, tuple(tables), skipped)


def _in_name(path: str, collective: str | None) -> str | None:
    if collective is not None:
        return nccl.operation(collective)
    found = _NAMES.search(Path(path).name)
    return nccl.operation(found[0]) if found else None


def _split(text: str, name: str | None) -> tuple[list[_Open], int]:
    opened: list[_Open] = [_Open(name)]
    skipped = 0
    for line in text.splitlines():
        if starting := _STARTING.search(line):
            opened.append(_starting(starting[1]))
        elif rank := _RANK.match(line.strip()):
            if opened[-1].lines:
                opened.append(_Open(opened[-1].name))
            opened[-1].ranks = max(opened[-1].ranks, int(rank[1]) + 1)
            opened[-1].hosts.update(_HOST.findall(line))
        elif re.match(r"\s*\d+\s", line):
            parsed = _line(line.split())
            if parsed is None:
                skipped += 1
                continue
            if opened[-1].lines and parsed.size <= opened[-1].lines[-1].size:
                opened.append(replace(opened[-1], lines=[]))
            opened[-1].lines.append(parsed)
    unknown = sum(len(each.lines) for each in opened if not each.known)
    return [each for each in opened if each.lines and each.known], skipped + unknown


def _starting(test: str) -> _Open:
    try:
        return _Open(nccl.operation(test))
    except InputError:
        return _Open(None, known=False)


def _line(words: list[str]) -> _Line | None:
    """A line of a table; `None` when it is none."""
    try:
        size = int(words[0])
        int(words[1])
    except (ValueError, IndexError):
        return None
    rest = words[3:]
    reduces = bool(rest) and rest[0].isalpha() and rest[0].lower() != "none"
    while rest and rest[0].isalpha():
        rest = rest[1:]
    groups = [found for offset in (1, 0) if (found := list(_groups(size, rest[offset:])))]
    if not groups:
        return None
    best = max(groups, key=len)
    time, algbw, busbw = best[-1]
    return _Line(size, time, busbw / algbw if algbw >= 1 else None, reduces)


def _groups(size: int, words: list[str]) -> Iterator[tuple[float, float, float]]:
    """Time, algbw and busbw, once or twice, as far as they agree with the size."""
    at = 0
    while at + 3 <= len(words):
        try:
            time, algbw, busbw = (float(word) for word in words[at : at + 3])
        except ValueError:
            return
        if time <= 0 or abs(size / time / 1e3 - algbw) > _OFF * algbw + 0.0051:
            return
        yield time, algbw, busbw
        at += 3
        # The column of wrong elements: a whole number or N/A.
        at += 1 if at < len(words) and re.fullmatch(r"\d+|N/A|\de[+-]\d+", words[at]) else 0


def _table(path: str, opened: _Open, problems: list[Problem]) -> Table | None:
    ratios = sorted(line.ratio for line in opened.lines if line.ratio is not None)
    ratio = ratios[len(ratios) // 2] if ratios else None
    name = opened.name or _named(ratio, opened.lines[0].reduces)
    first = f"table from {opened.lines[0].size} bytes"
    if name is None:
        help_ = "a file name with the collective in it, or --collective"
        problems.append(Problem(path, first, "nothing tells which collective it is", help_))
        return None
    ranks = opened.ranks or _ranks(name, ratio)
    if ranks < 2:
        problems.append(Problem(path, first, "nothing tells how many ranks ran", "lines '#  Rank  0 ...' above it"))
        return None
    points = tuple((line.size, line.time_us) for line in opened.lines)
    return Table(path, name, ranks, points, len(opened.hosts))


def _named(ratio: float | None, reduces: bool) -> str | None:
    if ratio is None:
        return None
    if ratio > 1:
        return "all_reduce"
    return "reduce_scatter" if reduces and ratio < 1 else None


def _ranks(name: str, ratio: float | None) -> int:
    """Ranks from busbw / algbw."""
    if ratio is None:
        return 0
    left = 2 - ratio if name == "all_reduce" else 1 - ratio
    return round((2 if name == "all_reduce" else 1) / left) if left > 1e-3 else 0
