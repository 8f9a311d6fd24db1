"""Dumps of NCCL's inspector: completed collectives of each rank and communicator.

Up to version 4.2 of its format each record has its communicator (`header`). In version 4.3 a record
`dump_stats` has it for the records that follow, and says how many these are. `coll_sn` counts the
calls of a communicator and kind. Only calls that have ended are written, and a ring that overflows
loses the oldest ones.

Here: records with their communicators, and what they say, checked. Not here: tables of times
(`calibrate/records.py`), and which ranks are behind (`explain/inspector_ranks.py`). Source:
plugins/profiler/inspector/README.md and inspector_json_reader.py of NVIDIA/nccl; `seqNumber` in
src/plugin/profiler.cc there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import documents
from .errors import InputError, Problem

HELP = "a dump of NCCL's inspector, as JSON"
_KINDS = ("coll_perf", "p2p_perf", "proxy_trace")
_COUNTS = ("coll_records", "p2p_records", "proxy_records")
_MOST_RANKS = 2**24
_MOST_NUMBER = 2**62
_MOST_FILE = 2**28

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InspectorCall:
    """A collective that ended on a rank. `bytes` as the inspector counts them."""

    number: int
    bytes: int


@dataclass
class RankDump:
    """The dump of a rank for a communicator: calls by their kind (`AllReduce`)."""

    ranks: int
    """Ranks of the communicator."""
    calls: dict[str, list[InspectorCall]] = field(default_factory=dict)
    dropped: int = 0
    """Calls that were lost before they were written."""
    written_us: int = 0
    """When its last part was written, us since 1970; 0 where that is not said."""


@dataclass
class Dumps:
    """Dumps of ranks by communicator and rank, and what to know about the files."""

    communicators: dict[str, dict[int, RankDump]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def restored(records: Iterable[Record]) -> Iterator[Record]:
    """Records of calls with their communicators, in the order of a file. A record that belongs to
    no communicator stays as it is."""
    header: object = None
    metadata: object = None
    left: dict[str, int] = {}
    for record in records:
        stats = record.get("dump_stats")
        if isinstance(stats, dict):
            counts = [stats.get(key, 0) for key in _COUNTS]
            left = {
                kind: count
                for kind, count in zip(_KINDS, counts, strict=True)
                if isinstance(count, int)
            }
            header, metadata = record.get("header"), record.get("metadata")
            continue
        kind = next((each for each in _KINDS if each in record), "")
        if "header" not in record and left.get(kind, 0) > 0:
            left[kind] -= 1
            record = {"header": header, "metadata": metadata, **record}  # noqa: PLW2901
        yield record


def read(paths: Iterable[str]) -> Dumps:
    """The dumps of one run. Raises `InputError` for a file that is none, for a value that cannot
    be, and for a call that one rank has twice."""
    found, problems = Dumps(), list[Problem]()
    for path in paths:
        try:
            _Reader(path, found).read()
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    for ranks in found.communicators.values():
        for dump in ranks.values():
            for calls in dump.calls.values():
                calls.sort(key=lambda call: call.number)
    return found


@dataclass
class _Reader:
    """One file, of one process."""

    name: str
    dumps: Dumps
    where: str = ""

    def read(self) -> None:
        text = documents.read_text(self.name, HELP, _MOST_FILE)
        left, current, seen = 0, None, 0
        for number, record in enumerate(self._objects(text), 1):
            self.where = f"record {number}"
            stats = record.get("dump_stats")
            if isinstance(stats, dict):
                if left:
                    raise self._refused("dump_stats", "begins before the last dump is whole")
                current = self._rank(record)
                left = sum(self._count(stats, key, 0) for key in _COUNTS)
                current.dropped = max(current.dropped, self._count(stats, "coll_dropped_total", 0))
                seen += 1
                continue
            if not any(kind in record for kind in _KINDS):
                raise self._refused("", "is of an unknown kind")
            rank = current
            if "header" in record:
                rank = self._rank(record)
            elif left <= 0:
                raise self._refused("header", "is missing, and no dump says the communicator")
            else:
                left -= 1
            seen += 1
            if rank is not None and "coll_perf" in record:
                self._call(rank, record["coll_perf"])
        if not seen:
            self.where = ""
            raise self._refused("", "has no record")
        if left:
            self.dumps.notes.append(f"{self.name}: ends before its last dump is whole")

    def _objects(self, text: str) -> Iterator[Record]:
        """Objects one after the other. The last one may be cut off."""
        decoder, at, end = json.JSONDecoder(), 0, len(text.rstrip())
        while at < end:
            begin = text.find("{", at)
            between = text[at : begin if begin >= 0 else end].strip(" \t\r\n,[]")
            if between or begin < 0:
                if between:
                    raise self._refused("", f"has {between[:40]!r} between records")
                return
            try:
                found, at = decoder.raw_decode(text, begin)
            except RecursionError:
                raise self._refused("", "is nested too deeply") from None
            except ValueError:
                if "\n{" in text[begin:]:
                    line = text.count("\n", 0, begin) + 1
                    raise self._refused(f"line {line}", "is not JSON") from None
                self.dumps.notes.append(f"{self.name}: its last record is cut off")
                return
            yield found

    def _rank(self, record: Record) -> RankDump:
        """The dump that a record belongs to."""
        header, metadata = record.get("header"), record.get("metadata")
        if not isinstance(header, dict):
            raise self._refused("header", "is not a mapping")
        name = header.get("id")
        if not isinstance(name, str) or not 0 < len(name) <= 100:
            raise self._refused("header.id", "is not the name of a communicator")
        ranks = self._count(header, "n_ranks", 1, _MOST_RANKS)
        rank = self._count(header, "rank", 0, ranks - 1)
        own = self.dumps.communicators.setdefault(name, {}).setdefault(rank, RankDump(ranks))
        if own.ranks != ranks or any(
            each.ranks != ranks for each in self.dumps.communicators[name].values()
        ):
            raise self._refused("header.n_ranks", f"{ranks:,} differs from that of another record")
        if isinstance(metadata, dict) and "dump_timestamp_us" in metadata:
            when = self._count(metadata, "dump_timestamp_us", 0)
            own.written_us = max(own.written_us, when)
        return own

    def _call(self, rank: RankDump, perf: object) -> None:
        if not isinstance(perf, dict):
            raise self._refused("coll_perf", "is not a mapping")
        kind = perf.get("coll")
        if not isinstance(kind, str) or not 0 < len(kind) <= 100:
            raise self._refused("coll_perf.coll", "is not the name of a collective")
        number = self._count(perf, "coll_sn", 0)
        size = self._count(perf, "coll_msg_size_bytes", 0)
        rank.calls.setdefault(kind, []).append(InspectorCall(number, size))

    def _count(self, entry: Record, key: str, least: int, most: int = _MOST_NUMBER) -> int:
        found = entry.get(key, 0 if key in (*_COUNTS, "coll_dropped_total") else None)
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise self._refused(key, f"invalid number: {str(found)[:40]}")
        return found

    def _refused(self, key: str, said: str) -> InputError:
        where = ".".join(part for part in (self.where, key) if part)
        return InputError([Problem(self.name, where, said, HELP)])
