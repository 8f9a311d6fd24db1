"""Output of UCC's `ucc_perftest`: times of collectives, average over the ranks.

Sizes become those of nccl-tests. Its all-gather has the bytes of one rank. Its all-to-all had those
for one other rank, and since its generators has all of them: the bandwidth that `-F` prints says
which, and so does the line `Total time` of later versions. The number of ranks stands in the
command above the table (`mpirun -np 16 ucc_perftest`), or follows from that bandwidth. It is
unknown where several numbers have the bandwidths that were printed, with their two decimals.

    bandwidth = size / time * 2 (n - 1) / n    all-reduce
                size / time * (n - 1)          all-gather, all-to-all by rank
                size / time * (n - 1) / n      all-to-all in all, reduce-scatter

Source: openucx/ucc, tools/perf/ucc_pt_benchmark.cc (`print_header`, `print_time`), `get_bw` of
ucc_pt_coll_*.cc, generator/ucc_pt_generator_exp.cc; output in its pull request 223."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from ..units import BYTES_PER_US
from . import unfinished_tables
from .mpi_benchmarks import command_ranks, number
from .unfinished_tables import Draft

_TITLE = re.compile(r"^Collective:\s+(\S.{0,60}?)\s*$")
_HEAD = re.compile(r"^\s*Count\s+Size\s+Time, us\b")
_ROW = re.compile(r"^\s*(\d{1,18})\s+(\d{1,18})((?:\s+(?:\d\S*|N/A|inf|nan)){3,6})\s*$")
_TOTAL = re.compile(r"^Total time:")
_WIDTH = 1000
_NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "reduce_scatter": "reduce_scatter",
    "bcast": "broadcast",
    "reduce": "reduce",
}
_CLEAR = 0.5
"""GB/s from which a bandwidth of two decimals says what the sizes of an all-to-all are of."""
_OFF = 0.0051
"""How far times and bandwidths may be from what they were rounded from."""
_SINGLE = 1e-6
"""How far, as a part of it, a bandwidth of floats may be from that of its time."""
_UNCLEAR = 0.9, 1.5
"""Ratios that are of two ranks or of many, by what sizes are of."""
_MOST = 10**6
"""Ranks that a bandwidth may stand for."""


@dataclass(slots=True)
class _Table:
    """A table as it was printed."""

    name: str | None
    ranks: int
    rows: list[tuple[int, float, float]] = field(default_factory=list)
    """Size, time, and bandwidth in GB/s; 0 where it was not printed."""
    total: bool = False
    """Whether the total time stands below."""


def read(text: str, path: str) -> tuple[list[Draft], int] | None:
    """The tables of a log, and the number of lines that are of no collective, or hold no time;
    `None` where it is no such log. Raises `InputError` for sizes that may be of either kind."""
    lines = [unfinished_tables.untagged(line[:_WIDTH]) for line in text.splitlines()]
    if not (any(map(_TITLE.match, lines)) and any(map(_HEAD.match, lines))):
        return None
    tables, skipped = _tables(lines)
    found: list[Draft] = []
    for table in tables:
        drafts = _drafts(table, path) if table.name else []
        skipped += len(table.rows) if not table.name else 0
        found += drafts
    return found, skipped


def _tables(lines: list[str]) -> tuple[list[_Table], int]:
    found: list[_Table] = []
    ranks = skipped = 0
    for line in lines:
        if title := _TITLE.match(line):
            found.append(_Table(_NAMES.get(title[1].lower().replace(" ", "_")), ranks))
        elif found and (row := _ROW.match(line)):
            times = row[3].split()
            time, size = number(times[0]), int(row[2])
            if time > 0 and size > 0:
                printed = number(times[3]) if len(times) > 3 else 0.0
                found[-1].rows.append((size, time, printed))
            else:
                skipped += 1
        elif found and _TOTAL.match(line):
            found[-1].total = True
        elif "ucc_perftest" in line:
            ranks = command_ranks(line) or ranks
    return found, skipped


def _drafts(table: _Table, path: str) -> list[Draft]:
    """The tables of nccl-tests that one is; a size that falls begins another one."""
    name = table.name or ""
    whole = _is_whole(table, name, path)
    ranks = table.ranks or _ranks(table, name, whole)
    found = [Draft(name, ranks)]
    for size, time, _ in table.rows:
        line = unfinished_tables.line(size * (1 if whole else max(ranks, 1)), time, 0, 0, False)
        if line is not None:
            unfinished_tables.append(found, line)
    return [each for each in found if each.lines]


def _is_whole(table: _Table, name: str, path: str) -> bool:
    """Whether sizes are those of nccl-tests, not of one rank."""
    ratios = sorted(_ratio(size, time, rate) for size, time, rate in table.rows if rate >= _CLEAR)
    ratio = ratios[len(ratios) // 2] if ratios else 0.0
    if name == "all_gather":
        return False
    if name != "all_to_all" or table.total:
        return True
    if ratio and table.ranks > 1:
        # Both differ by the number of ranks, so by two at least.
        return ratio * ratio < (table.ranks - 1) ** 2 / table.ranks
    if ratio and not _UNCLEAR[0] < ratio < _UNCLEAR[1]:
        return ratio < 1
    said = "the sizes of its all-to-all are of one rank or of all, by the version of UCC"
    raise InputError(
        [Problem(path, "Alltoall", said, "output of ucc_perftest -F below its command")]
    )


def _ranks(table: _Table, name: str, whole: bool) -> int:
    """The ranks that all bandwidths agree with; 0 where there are several, or none."""
    printed = [row for row in table.rows if row[2]]
    if not printed or name in ("broadcast", "reduce"):
        return 0
    low = max(_ratio(size, time - _OFF, rate - _OFF) for size, time, rate in printed)
    high = min(_ratio(size, time + _OFF, rate + _OFF) for size, time, rate in printed)
    low, high = low * (1 - _SINGLE), high * (1 + _SINGLE)
    if whole:
        return unfinished_tables.ranks_within(low, high, 2 if name == "all_reduce" else 1)
    if not low <= high < _MOST:
        return 0
    least, most = max(math.ceil(1 + low), 2), math.floor(1 + high)
    return least if least == most else 0


def _ratio(size: int, time_us: float, rate: float) -> float:
    """A bandwidth in GB/s over size / time."""
    return max(time_us, 0.0) * max(rate, 0.0) / size * BYTES_PER_US
