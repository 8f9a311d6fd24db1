"""Output of MPI benchmarks: OSU Micro-Benchmarks (`osu_allreduce`) and Intel MPI Benchmarks.

Times are the average over the ranks, as nccl-tests prints it. Sizes become those of nccl-tests: an
all-gather and an all-to-all of either program have the bytes of one rank for one other, so they
are multiplied by the ranks. OSU prints no number of ranks: it stands in the command above the
table (`mpirun -np 16 osu_allreduce`). Source: the user guide of Intel MPI Benchmarks (definitions
of its collectives), the README of OSU Micro-Benchmarks, and output of OSU 5.6 to 7.5 and Intel
2018 to 2021."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from . import unfinished_tables
from .unfinished_tables import Draft

_OSU = re.compile(r"^#\s*OSU\s+(?:MPI|NCCL|RCCL|HCCL)\S*\s+(.+?)\s+(?:Latency|Bandwidth)?\s*Test\b")
_INTEL = re.compile(r"^#\s*Benchmarking\s+(\S+)")
_PROCESSES = re.compile(r"^#\s*#processes\s*=\s*(\d{1,8})\b")
_GROUPS = re.compile(r"^#\s*\(\s*\d+\s+groups?\s+of\b")
_HEAD = re.compile(r"^#?\s*(?:#bytes|Size)\b")
_ROW = re.compile(r"^\s*(\d{1,18})\s+(\d.*)$")
_COUNT = re.compile(r"(?<=\s)(?:-n|-np|--np|--ntasks|--n)(?:\s+|=)(\d{1,8})\b|(?<=\s)-n(\d{1,8})\b")
_WIDTH = 1000
"""Letters of a line that are read."""
_AVERAGES = ("Avg Latency(us)", "t_avg[usec]")

_NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "all-to-all personalized exchange": "all_to_all",
    "alltoall": "all_to_all",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "reduce": "reduce",
}
"""Collectives by what the programs call them."""
_OF_ONE_RANK = ("all_gather", "all_to_all")
"""Collectives whose printed size is what one rank has for one other."""


@dataclass(slots=True)
class _Reader:
    """Parts of a log that were read so far."""

    opened: list[Draft] = field(default_factory=list)
    name: str | None = None
    ranks: int = 0
    command: int = 0
    """Ranks that the last command starts."""
    column: int | None = None
    """Place of the average among the numbers after the size."""
    fresh: bool = True
    skipped: int = 0

    def hear(self, text: str) -> None:
        if title := _OSU.match(text):
            self._begin(title[1], self.command)
        elif title := _INTEL.match(text):
            self._begin(title[1], 0)
        elif count := _PROCESSES.match(text):
            self.ranks = int(count[1])
        elif _GROUPS.match(text):
            self.name = None
        elif _HEAD.match(text):
            self.column, self.fresh = _place(text), True
        elif row := _ROW.match(text):
            self._row(int(row[1]), row[2].split())
        elif "osu_" in text:
            self.command = command_ranks(text) or self.command

    def _begin(self, title: str, ranks: int) -> None:
        self.name, self.ranks, self.column = _NAMES.get(title.lower()), ranks, None
        self.fresh = True

    def _row(self, size: int, words: list[str]) -> None:
        if self.name is None or self.column is None or self.column >= len(words):
            self.skipped += 1
            return
        time = number(words[self.column])
        times = self.ranks if self.name in _OF_ONE_RANK else 1
        found = unfinished_tables.line(size * max(times, 1), time, 0, 0, False)
        if found is None:
            self.skipped += size > 0
            return
        if self.fresh:
            self.opened.append(Draft(self.name, self.ranks))
            self.fresh = False
        unfinished_tables.append(self.opened, found)


def read(text: str) -> tuple[list[Draft], int] | None:
    """The tables of a log, and the number of lines that are of no collective, or hold no time;
    `None` where it is no such log."""
    lines = [unfinished_tables.untagged(line[:_WIDTH]) for line in text.splitlines()]
    if not any(_OSU.match(line) or _INTEL.match(line) for line in lines):
        return None
    reader = _Reader()
    for line in lines:
        reader.hear(line)
    return reader.opened, reader.skipped


def _place(head: str) -> int | None:
    """The place of the average among the columns after the size; `None` where there is none."""
    columns = re.split(r"\s{2,}|\s+(?=#|t_)", head.strip().removeprefix("# ").strip())
    return next((at - 1 for at, each in enumerate(columns) if each in _AVERAGES and at), None)


def command_ranks(text: str) -> int:
    """Ranks that a command starts, such as `mpirun -np 16`; 0 where it does not say."""
    found = _COUNT.search(f" {text}")
    return int(found[1] or found[2]) if found else 0


def number(word: str) -> float:
    """0 for what is not a finite number."""
    try:
        number = float(word)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0
