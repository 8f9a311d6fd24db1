"""Files that nccl-tests, rccl-tests and NCCL's inspector write: JSON and CSV.

nccl-tests `-J`: an object with `config` (`devices`, `nthreads`, `ngpus`), `args` and `results`,
each with `size`, and `out_of_place` and `in_place` of `time` (or `cpu_time`) in us, `alg_bw`,
`bus_bw`. A file that was cut off is read as far as it goes. rccl-tests `-Z json`: objects, one a
line or in a list, with `name`, `ranks`, `gpusPerRank`, `size`, `inPlace`, `time`, `algBw`, `busBw`;
`-Z csv`: the same as columns, in early versions with a column `nodes` that the head doesn't name.
NCCL 1's tests: columns `B`, `oop_time`, `oop_algbw`, ..., times in ms. NCCL's inspector: an object
for each call of a rank, with `header` (`id`, `n_ranks`, `nnodes`), or after one that has it
(`inspector_dump.py`), and `coll_perf` (`coll`, `coll_sn`, `coll_msg_size_bytes`,
`coll_exec_time_us`, ...); of each size the median call counts.
Source: NVIDIA/nccl-tests src/util.cu; ROCm/rccl-tests src/common.cu (Reporter); NVIDIA/nccl 1.x
test/single; NVIDIA/nccl plugins/profiler/inspector/README.md."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .. import inspector_dump
from ..units import US_PER_MS
from . import unfinished_tables
from .unfinished_tables import Draft, LogLine

_RESULTS = r'"results"\s*:\s*\['
_NO_NUMBER = re.compile(r"(?<=[:,\[\s])-?(?:inf|nan|Infinity|NaN)(?=\s*[,}\]])")
"""Numbers that C prints and JSON does not have."""


@dataclass(frozen=True, slots=True)
class _Record:
    """One measurement: bytes, us, GB/s."""

    test: str
    """Empty where nothing names it."""
    ranks: int
    hosts: int
    size: int
    time_us: float
    algbw: float
    busbw: float
    reduces: bool
    in_place: bool

    def line(self) -> LogLine | None:
        """`None` where it contradicts itself or is of a test that is not a collective."""
        if self.test and unfinished_tables.known(self.test) is None:
            return None
        # rccl-tests writes what a rank receives: of a reduce-scatter a part of the size.
        for times in (1, self.ranks):
            if times and unfinished_tables.agree(self.size * times, self.time_us, self.algbw):
                return unfinished_tables.line(
                    self.size * times, self.time_us, self.algbw, self.busbw, self.reduces
                )
        return None


def read(text: str, name: str | None) -> tuple[list[Draft], int] | None:
    """The tables of a file and how many records contradict themselves; `None` where it is no such
    file."""
    records = _records(text)
    return None if records is None else _tables(records, name)


def _records(text: str) -> list[_Record | None] | None:
    if text.lstrip()[:1] in ("{", "["):
        text = _NO_NUMBER.sub('"nan"', text)
        if re.search(_RESULTS, text):
            return list(_documents(text))
        if '"coll_perf"' in text or '"dump_stats"' in text:
            return _of_inspector(text)
        rows = [_lowered(row) for row in _objects(text, 0)]
        return [_of_row(row) for row in rows] if any("algbw" in row for row in rows) else None
    lines = [line for line in text.splitlines() if line.strip()]
    head = [word.strip().lower() for word in lines[0].split(",")] if lines else []
    if "algbw" in head or "oop_algbw" in head:
        return [_of_row(row) for row in _rows(head, lines[1:])]
    return None


def _documents(text: str) -> Iterator[_Record | None]:
    """Records of each document of nccl-tests, one after the other or in a list. Each begins where
    its `args` or `config` stand, which is between the results of two documents."""
    begin = 0
    for results in re.finditer(_RESULTS, text):
        yield from _of_nccl(text, begin, results.end())
        begin = results.end()


def _objects(text: str, at: int) -> Iterator[Mapping[str, Any]]:
    """Objects one after the other, with or without commas between them, as far as they are
    whole."""
    decoder = json.JSONDecoder()
    while (begin := text.find("{", at)) >= 0:
        if text[at:begin].strip(" \t\r\n,["):
            return
        try:
            found, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            return
        yield found


def _after(text: str, key: str) -> object:
    """The value of the last `key` of an object that may be cut off; `None` where there is none."""
    found = next(reversed([*re.finditer(rf'"{key}"\s*:\s*', text)]), None)
    try:
        return json.JSONDecoder().raw_decode(text, found.end())[0] if found else None
    except (ValueError, RecursionError):
        return None


def _of_nccl(text: str, begin: int, results: int) -> list[_Record | None]:
    before = text[begin:results]
    args, config = _after(before, "args"), _after(before, "config")
    test = str(args[0]).rpartition("/")[2] if isinstance(args, list) and args else ""
    ranks, hosts = _devices(config if isinstance(config, dict) else {})
    return [_of_result(row, test, ranks, hosts) for row in _objects(text, results)]


def _of_inspector(text: str) -> list[_Record | None]:
    """For each collective, number of ranks and size the call of median time; a call is as long as
    on the rank that waits least for the others. Times of the GPU's clock, where there are some."""
    found: dict[tuple[str, int, int, int], dict[bool, dict[object, _Record]]] = {}
    wrong: list[_Record | None] = []
    for each in inspector_dump.restored(_objects(text, 0)):
        record = _of_call(each)
        if record is None or record.line() is None:
            wrong.append(None)
            continue
        perf, header = each["coll_perf"], each["header"]
        of_gpu = perf.get("coll_timing_source") == "kernel_gpu"
        key = record.test, record.ranks, record.hosts, record.size
        calls = found.setdefault(key, {}).setdefault(of_gpu, {})
        call = str(header.get("id")), str(perf.get("coll_sn"))
        if call not in calls or record.time_us < calls[call].time_us:
            calls[call] = record
    rows: list[_Record | None] = []
    for key in sorted(found):
        calls = found[key].get(True) or found[key][False]
        times = sorted(calls.values(), key=lambda record: record.time_us)
        rows.append(times[(len(times) - 1) // 2])
    return rows + wrong


def _of_call(each: Mapping[str, Any]) -> _Record | None:
    """A call that NCCL's inspector has written; `None` for one of another kind."""
    header, perf = each.get("header"), each.get("coll_perf")
    if not isinstance(header, dict) or not isinstance(perf, dict):
        return None
    values = (perf.get(f"coll_{name}") for name in ("exec_time_us", "algobw_gbs", "busbw_gbs"))
    numbers, test = _numbers(*values), str(perf.get("coll"))
    if numbers is None or unfinished_tables.known(test) is None:
        return None
    ranks, hosts = _whole(header.get("n_ranks")), _whole(header.get("nnodes"))
    size = _whole(perf.get("coll_msg_size_bytes"))
    return _Record(test, ranks, hosts, size, *numbers, False, False)


def _devices(config: Mapping[str, Any]) -> tuple[int, int]:
    """Ranks and hosts: of each process all of its GPUs are listed, or the first. Where ranks are in
    several groups, those of the first rank's group."""
    devices = config.get("devices")
    listed = (
        [each for each in devices if isinstance(each, dict)] if isinstance(devices, list) else []
    )
    process = _whole(config.get("nthreads")) * _whole(config.get("ngpus"))
    groups = {str(each.get("group", 0)) for each in listed}
    if len(groups) > 1:
        first = min(listed, key=lambda each: _whole(each.get("rank")))
        listed = [each for each in listed if each.get("group") == first.get("group")]
    last = max((_whole(each.get("rank")) for each in listed), default=-1)
    ranks = last // process * process + process if process and last >= 0 else 0
    if len(groups) > 1:
        ranks = len({_whole(each.get("rank")) // max(process, 1) for each in listed}) * process
    return ranks, len({str(each.get("hostname")) for each in listed})


def _of_result(row: Mapping[str, Any], test: str, ranks: int, hosts: int) -> _Record | None:
    measured = row.get("in_place") or row.get("out_of_place")
    if not isinstance(measured, dict):
        return None
    time = measured.get("time", measured.get("cpu_time"))
    numbers = _numbers(time, measured.get("alg_bw"), measured.get("bus_bw"))
    reduces = str(row.get("redop", "none")) != "none"
    return (
        None
        if numbers is None
        else _Record(test, ranks, hosts, _whole(row.get("size")), *numbers, reduces, True)
    )


def _lowered(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key).lower(): value for key, value in row.items()}


def _rows(head: Sequence[str], lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for values in _split(lines):
        unnamed = len(values) == len(head) + 1 and "collective" in head
        place = head.index("collective") + 1 if unnamed else len(head)
        names = [*head[:place], "nodes", *head[place:]] if unnamed else head
        yield dict(zip(names, values, strict=False))


def _split(lines: Sequence[str]) -> Iterator[list[str]]:
    """Values of each line, up to one that is not CSV."""
    try:
        yield from csv.reader(lines, skipinitialspace=True)
    except csv.Error:
        return


def _of_row(row: Mapping[str, Any]) -> _Record | None:
    """A row of rccl-tests, or of NCCL 1's."""
    first = next((kind for kind in ("ip_", "oop_") if row.get(f"{kind}time")), "")
    numbers = _numbers(*(row.get(f"{first}{column}") for column in ("time", "algbw", "busbw")))
    if numbers is None:
        return None
    time, algbw, busbw = numbers
    test = str(row.get("name") or row.get("collective") or "")
    ranks = _whole(row.get("ranks", 1)) * _whole(row.get("gpusperrank") or row.get("gpus"))
    reduces = str(row.get("redop") or row.get("op") or "none") != "none"
    size = _whole(row.get("size") or row.get("b"))
    in_place = bool(first) or _whole(row.get("inplace")) == 1
    scale = US_PER_MS if first else 1.0
    return _Record(
        test, ranks, _whole(row.get("nodes")), size, time * scale, algbw, busbw, reduces, in_place
    )


def _numbers(time: object, algbw: object, busbw: object) -> tuple[float, float, float] | None:
    try:
        return float(str(time)), float(str(algbw)), float(str(busbw))
    except ValueError:
        return None


def _whole(value: object) -> int:
    """0 of what is not a whole number."""
    text = str(value)
    return int(text) if re.fullmatch(r"\d{1,18}", text) else 0


def _tables(records: Sequence[_Record | None], name: str | None) -> tuple[list[Draft], int]:
    """Tables of one collective and number of ranks; in-place times where there are any."""
    opened: list[Draft] = []
    skipped = 0
    before: tuple[object, ...] = ()
    for record in _preferred(records):
        line = record.line() if record else None
        if record is None or line is None:
            skipped += 1
            continue
        key = (record.test, record.ranks, record.hosts)
        if key != before or not opened:
            opened.append(
                Draft(unfinished_tables.known(record.test) or name, record.ranks, record.hosts)
            )
            before = key
        unfinished_tables.append(opened, line)
    return opened, skipped


def _preferred(records: Sequence[_Record | None]) -> Iterator[_Record | None]:
    """Rows without out-of-place times whose in-place time follows."""
    for record, following in pairwise([*records, None]):
        if record is None or following is None or not _replaces(following, record):
            yield record


def _replaces(following: _Record, record: _Record) -> bool:
    same = (record.test, record.ranks, record.size) == (
        following.test,
        following.ranks,
        following.size,
    )
    return same and following.in_place and not record.in_place
