"""Tables of times under construction: what a reader found, and what follows from it.

Which collective it is stands in the log or its name, or follows from `busbw / algbw`; so do the
ranks, where the printed decimals leave one number of them. Not here: how a table is written
(`printed`, `records`)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from .. import nccl
from ..errors import InputError, Problem
from ..units import BYTES_PER_US

TESTS = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast", re.IGNORECASE)
"""Collectives whose names stand in those of files and programs."""
_BEFORE = re.compile(r"^(?:\[[^\]]*\d+,\d+\]<std(?:out|err)>:\s?|\s*\d+:\s)")
_OFF = 0.02
"""How far size / time may be from the printed algbw, in addition to rounding."""
_SINGLE = 1e-6
"""How far, as a part of it, a ratio of floats may be from what it stands for."""


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """Times of one collective over `ranks` ranks: bytes as nccl-tests counts them, us."""

    file: str
    collective: str
    ranks: int
    points: tuple[tuple[int, float], ...]
    hosts: int = 0
    """Machines that the ranks ran on; 0 where the log doesn't say."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A size in bytes and its time in us."""

    size: int
    time_us: float
    ratio: float | None
    """busbw / algbw, where they have enough digits."""
    off: float
    """How far the ratio may be from what it was rounded from, as a part of it."""
    reduces: bool


@dataclass(slots=True)
class Draft:
    """A table under construction."""

    name: str | None
    ranks: int = 0
    hosts: int = 0
    lines: list[LogLine] = field(default_factory=list)
    hint: str | None = None
    """A collective that something near the table names."""

    @property
    def alone(self) -> bool:
        """Whether the ranks are listed, and there is one."""
        return self.ranks == 1

    def table(self, path: str, problems: list[Problem]) -> MeasuredTable | None:
        """The table; `None` and a problem where its collective or its ranks are unknown."""
        ratios = sorted(line.ratio for line in self.lines if line.ratio is not None)
        ratio = ratios[len(ratios) // 2] if ratios else None
        name = self.name or _named(ratio, self.lines[0].reduces) or self.hint
        first = f"table from {self.lines[0].size} bytes"
        if name is None:
            help_ = "a file name with the collective in it, or --collective"
            problems.append(Problem(path, first, "the collective is unknown", help_))
            return None
        ranks = self.ranks or _ranks(name, self.lines)
        if ranks == 1:
            message = "is of one rank, which copies and sends nothing"
            problems.append(Problem(path, first, message, "a log of two ranks or more"))
            return None
        if ranks < 2:
            help_ = "lines '#  Rank  0 ...' above it, or the command (mpirun -np 16 ...)"
            problems.append(Problem(path, first, "the number of ranks is unknown", help_))
            return None
        return MeasuredTable(
            path, name, ranks, tuple((line.size, line.time_us) for line in self.lines), self.hosts
        )


def untagged(text: str) -> str:
    """A line without what `mpirun --tag-output` and `srun -l` put before it."""
    return _BEFORE.sub("", text, count=1)


def line(
    size: int, time_us: float, algbw: float, busbw: float, reduces: bool, off: float = 0.005
) -> LogLine | None:
    """A line of numbers that were printed; `None` where nothing was moved or took no time. `off`:
    how far bandwidths may be from what they were rounded from."""
    if size <= 0 or not (time_us > 0 and math.isfinite(time_us + algbw + busbw)):
        return None
    if algbw < 1:
        return LogLine(size, time_us, None, 0.0, reduces)
    clear = algbw > off and busbw > 0
    rounding = off / (algbw - off) + off / busbw + _SINGLE if clear else 1.0
    return LogLine(size, time_us, busbw / algbw, min(rounding, 1.0), reduces)


def agree(size: float, time_us: float, algbw: float, rounding: float = 0.0) -> bool:
    """Whether `size / time` is the algbw (GB/s), of a time that may be `rounding` of itself off."""
    if not time_us > 0:
        return False
    rate = size / time_us / BYTES_PER_US
    return abs(rate - algbw) <= _OFF * algbw + 0.0051 + rate * rounding


def ranks_within(low: float, high: float, most: float) -> int:
    """The only number of ranks `n` whose `most * (n - 1) / n` is from `low` to `high`; 0 where
    several have it, or none."""
    if not (0 < high < most and low <= high):
        return 0
    least = max(math.ceil(most / (most - max(low, 0.0))), 2)
    return least if least == math.floor(most / (most - high)) else 0


def known(test: str) -> str | None:
    """The collective of a test's name, such as `all_reduce_perf` or `AllReduce`; `None` where that
    is not a collective."""
    try:
        return nccl.operation(test)
    except InputError:
        return None


def named(text: str) -> str | None:
    """The collective in the name of a file or a program."""
    found = TESTS.search(text)
    return known(found[0]) if found else None


def append(tables: list[Draft], each: LogLine) -> None:
    """Adds a line to the last table; a size that falls begins another one like it."""
    last = tables[-1]
    if last.lines and each.size < last.lines[-1].size:
        tables.append(Draft(last.name, last.ranks, last.hosts, hint=last.hint))
    tables[-1].lines.append(each)


def _named(ratio: float | None, reduces: bool) -> str | None:
    if ratio is None:
        return None
    if ratio > 1:
        return "all_reduce"
    return "reduce_scatter" if reduces and ratio < 1 else None


def _ranks(name: str, lines: list[LogLine]) -> int:
    """The ranks that all of busbw / algbw agree with; 0 where there are several, or none."""
    ratios = [(line.ratio, line.off) for line in lines if line.ratio is not None]
    if not ratios:
        return 0
    low = max(ratio * (1 - off) for ratio, off in ratios)
    high = min(ratio * (1 + off) for ratio, off in ratios)
    return ranks_within(low, high, 2 if name == "all_reduce" else 1)
