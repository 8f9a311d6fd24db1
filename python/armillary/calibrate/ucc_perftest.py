"""Output of UCC's `ucc_perftest`: times of collectives, average over the ranks.

Sizes become those of nccl-tests. Its all-gather has the bytes of one rank. Its all-to-all had those
for one other rank, and since its generators has all of them: the bandwidth that `-F` prints says
which, and so does the line `Total time` of later versions. The number of ranks stands in the
command above the table (`mpirun -np 16 ucc_perftest`), or follows from that bandwidth.

    bandwidth = size / time * 2 (n - 1) / n    all-reduce
                size / time * (n - 1)          all-gather, all-to-all by rank
                size / time * (n - 1) / n      all-to-all in all, reduce-scatter

Source: openucx/ucc, tools/perf/ucc_pt_benchmark.cc (`print_header`, `print_time`), `get_bw` of
ucc_pt_coll_*.cc, generator/ucc_pt_generator_exp.cc; output in its pull request 223."""

from __future__ import annotations

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
"""GB/s from which a bandwidth of two decimals says how many ranks there are."""
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
    """Size, time, and bandwidth over size / time; 0 where it was not printed."""
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
                rate = size / time / BYTES_PER_US
                found[-1].rows.append((size, time, printed / rate if printed >= _CLEAR else 0.0))
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
    ratios = sorted(ratio for _, _, ratio in table.rows if ratio)
    ratio = ratios[len(ratios) // 2] if ratios else 0.0
    whole = _is_whole(table, name, ratio, path)
    ranks = table.ranks or _ranks(name, ratio, whole)
    found = [Draft(name, ranks)]
    for size, time, _ in table.rows:
        line = unfinished_tables.line(size * (1 if whole else max(ranks, 1)), time, 0, 0, False)
        if line is not None:
            unfinished_tables.append(found, line)
    return [each for each in found if each.lines]


def _is_whole(table: _Table, name: str, ratio: float, path: str) -> bool:
    """Whether sizes are those of nccl-tests, not of one rank."""
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


def _ranks(name: str, ratio: float, whole: bool) -> int:
    """Ranks from the bandwidth over size / time; 0 where it does not say."""
    if not ratio or name in ("broadcast", "reduce"):
        return 0
    if not whole:
        return min(round(1 + ratio), _MOST)
    twice = 2 if name == "all_reduce" else 1
    return round(twice / (twice - ratio)) if twice - ratio > 1e-3 else 0
