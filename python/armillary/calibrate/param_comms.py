"""Output of PARAM's communication benchmark (`comms.py`): lines `COMMS-RES-all_reduce`.

Times are the median over the ranks. Sizes are those of nccl-tests: what all ranks' parts of a
collective have together on one of them. The number of ranks stands in what each rank says first
(`world_size: 8`), or follows from `BusBW / AlgBW`. Columns are taken by the names above them, which
differ by version. Tables of pairs, of quantized and of point-to-point runs are passed over. So are
lines that contradict themselves: the printed `AlgBW` is `size / time` of the first rank, and in
later versions of the median, so it lies between those of the columns `Min` and `Max`.

Source: facebookresearch/param, train/comms/pt/comms.py (`printPreamble`, `runColl`,
`reportBenchTimeColl`), comms_utils.py (`getAlgBW`), pytorch_dist_backend.py (`sayHello`,
`get_mem_size`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..units import BYTES_PER_US
from . import unfinished_tables
from .mpi_benchmarks import number
from .unfinished_tables import Draft

_HEAD = re.compile(r"COMMS-RES((?:-QUANT)?)\s+(\S.*)$")
_ROW = re.compile(r"COMMS-RES-([a-z0-9_]{1,40})(?:-([a-z0-9_]{1,20}))?\s+(\d.*)$")
_WORLD = re.compile(r"^\[?.{0,40}Rank\s+\d+\].{0,400}?\bworld_size:\s*(\d{1,8})\b")
_WIDTH = 2000
_NAMES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_base": "all_gather",
    "all_to_all": "all_to_all",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
"""Collectives whose size is known to be that of nccl-tests."""
_SIZE = "size (B)"
"""The only name with a space; a column may be as wide as the name but for one space."""
_MEDIANS = ("Latency(us):p50", "TotalLatency(us):p50")
_OTHERS = ("Min", "Max", "AlgBW(GB/s)", "BusBW(GB/s)")
_TIME_OFF, _RATE_OFF = 0.051, 0.00051
"""How far a printed time (us) and bandwidth (GB/s) may be from what they were rounded from."""


@dataclass(slots=True)
class _Reader:
    """Parts of a log that were read so far."""

    opened: list[Draft] = field(default_factory=list)
    columns: tuple[int, ...] | None = None
    """Places of size, median, least and largest time, and both bandwidths."""
    ranks: int = 0
    fresh: bool = True
    skipped: int = 0

    def hear(self, text: str) -> None:
        if row := _ROW.search(text):
            self._row(row[1], row[3].split())
        elif head := _HEAD.search(text):
            self.columns, self.fresh = (None if head[1] else _places(head[2])), True
        elif world := _WORLD.match(text):
            self.ranks = int(world[1])

    def _row(self, test: str, words: list[str]) -> None:
        name, places = _NAMES.get(test), self.columns
        if name is None or places is None or max(places) >= len(words):
            self.skipped += 1
            return
        size, time, least, most, algorithm, bus = (number(words[place]) for place in places)
        line = unfinished_tables.line(int(size), time, algorithm, bus, False, _RATE_OFF)
        if line is None or not (least <= time <= most and _agree(size, least, most, algorithm)):
            self.skipped += 1
            return
        if self.fresh or self.opened[-1].name != name:
            self.opened.append(Draft(name, self.ranks))
            self.fresh = False
        unfinished_tables.append(self.opened, line)


def read(text: str) -> tuple[list[Draft], int] | None:
    """The tables of a log, and the number of lines that are of no collective, or hold no time;
    `None` where it is no such log."""
    lines = [unfinished_tables.untagged(line[:_WIDTH]) for line in text.splitlines()]
    if not any(map(_HEAD.search, lines)):
        return None
    reader = _Reader()
    for line in lines:
        reader.hear(line)
    return reader.opened, reader.skipped


def _agree(size: float, least: float, most: float, algorithm: float) -> bool:
    """Whether a bandwidth (GB/s) is that of a time (us) between the least and the most."""
    low, high = least - _TIME_OFF, most + _TIME_OFF
    slow, fast = algorithm - _RATE_OFF, algorithm + _RATE_OFF
    amount = size / BYTES_PER_US
    return slow * low <= amount <= fast * high


def _places(head: str) -> tuple[int, ...] | None:
    """Places of the columns by their names; `None` where one is missing."""
    names = head.replace(_SIZE, _SIZE.replace(" ", "")).split()
    median = next((name for name in _MEDIANS if name in names), None)
    wanted = (_SIZE.replace(" ", ""), median or "", *_OTHERS)
    return tuple(map(names.index, wanted)) if set(wanted) <= set(names) else None
