"""Dumps of NCCL's inspector from several ranks: which ranks are behind in which collective.

Model: a rank is behind if others of its communicator have ended a later call of the same kind. The
inspector writes only calls that have ended, so such a rank hangs in the call or before it, or it
wrote its dump earlier. Here: numbers and the page. Not here: reading dumps (`inspector_dump.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from .. import inspector_dump
from ..inspector_dump import Dumps, RankDump
from ..report.page import Brief, Page, Section, Table
from ..report.quantity import number
from ..units import counted
from .explanation import Explanation

INSPECTOR = "armillary.inspector-ranks/1"
_SHOWN = 20
_NAMED = 8
_US_PER_S = 1e6
_ALONE = "Each communicator has the dump of one rank: a folder with all dumps shows who is behind."


def contents(path: str, files: Sequence[str]) -> Explanation:
    """Ranks and calls of the dumps in `files`. Raises `InputError`."""
    found = inspector_dump.read(files)
    rows = [
        _communicator(name, ranks) for name, ranks in sorted(found.communicators.items()) if ranks
    ]
    behind = [each for row in rows for each in row["behind"]]
    notes = [*found.notes, *_notes(found, rows)]
    data = {
        "schema": INSPECTOR,
        "file": path,
        "files": len(files),
        "communicators": rows,
        "warnings": notes,
    }
    return Explanation(_page(data, behind), data)


def _communicator(name: str, ranks: Mapping[int, RankDump]) -> dict[str, Any]:
    size = next(iter(ranks.values())).ranks
    kinds = sorted({kind for dump in ranks.values() for kind in dump.calls})
    return {
        "id": name,
        "ranks": size,
        "dumps": sorted(ranks),
        "absent": [*islice((rank for rank in range(size) if rank not in ranks), _NAMED)],
        "absent_ranks": size - len(ranks),
        "dropped": sum(dump.dropped for dump in ranks.values()),
        "calls": [_calls(kind, ranks) for kind in kinds],
        "behind": [each for kind in kinds for each in _behind(name, kind, ranks)],
    }


def _calls(kind: str, ranks: Mapping[int, RankDump]) -> dict[str, Any]:
    """Calls of a kind: those that all ranks with a dump have, and others."""
    count = Counter(
        own for dump in ranks.values() for own in {call.number for call in dump.calls.get(kind, ())}
    )
    whole = sum(each == len(ranks) for each in count.values())
    return {"kind": kind, "complete": whole, "incomplete": len(count) - whole}


def _behind(name: str, kind: str, ranks: Mapping[int, RankDump]) -> Iterator[dict[str, Any]]:
    """Ranks that have not ended the newest call of a kind, by the call that they ended last."""
    newest = {
        rank: dump.calls[kind][-1].number if dump.calls.get(kind) else None
        for rank, dump in sorted(ranks.items())
    }
    head = max(last for last in newest.values() if last is not None)
    done = [rank for rank, last in newest.items() if last == head]
    late: dict[int | None, list[int]] = {}
    for rank, last in newest.items():
        if last != head:
            late.setdefault(last, []).append(rank)
    written = [ranks[rank].written_us for rank in done if ranks[rank].written_us]
    size = ranks[done[0]].calls[kind][-1].bytes
    for last, members in sorted(late.items(), key=lambda each: -1 if each[0] is None else each[0]):
        own = [ranks[rank].written_us for rank in members if ranks[rank].written_us]
        earlier = (min(written) - min(own)) / _US_PER_S if own and written else None
        yield {
            "communicator": name,
            "kind": kind,
            "newest": head,
            "bytes": size,
            "done": done,
            "ranks": members,
            "last": last,
            "earlier_s": earlier,
        }


def said(row: Mapping[str, Any]) -> str:
    """One row of ranks that are behind, for a reader."""
    verb = "has" if len(row["ranks"]) == 1 else "have"
    last = "none" if row["last"] is None else f"number {row['last']:,}"
    text = (
        f"{row['kind']} {row['newest']:,} of communicator {row['communicator']}, "
        f"{row['bytes']:,} bytes: {_named(row['ranks'])} {verb} not ended it (the last one is "
        f"{last}), {_named(row['done'])} {'has' if len(row['done']) == 1 else 'have'}"
    )
    if row["earlier_s"] is not None and row["earlier_s"] > 0:
        text += f"; the dump was written {row['earlier_s']:,.3f} s earlier"
    return text


def _named(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_NAMED])) + (", ..." if len(ranks) > _NAMED else "")
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown}"


def _notes(found: Dumps, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    absent = [row for row in rows if row["absent_ranks"]]
    if absent:
        one = absent[0]
        yield (
            f"{counted(len(absent), 'communicator')} without the dumps of all ranks, such as "
            f"{one['id']}: {_named(one['absent'])} of {one['ranks']:,}"
        )
    dropped = sum(row["dropped"] for row in rows)
    if dropped:
        yield (
            f"{counted(dropped, 'call')} lost before the dump was written: "
            "NCCL_INSPECTOR_DUMP_COLL_RING_SIZE keeps more"
        )
    if any(row["behind"] for row in rows):
        yield (
            "the inspector writes only calls that have ended: a rank that is behind hangs in the "
            "call or before it, or wrote its dump earlier"
        )


def _page(data: Mapping[str, Any], behind: Sequence[Mapping[str, Any]]) -> Page:
    rows = [
        (
            row["id"],
            number(row["ranks"]),
            number(len(row["dumps"])),
            each["kind"],
            number(each["complete"]),
            number(each["incomplete"]),
        )
        for row in data["communicators"]
        for each in row["calls"]
    ]
    heads = ("Communicator", "Ranks", "Dumps", "Collective", "Ended on all", "On some")
    table = Table("Calls with a dump of each rank", heads, rows, brief=Brief(rows=_SHOWN))
    lines = [said(row) for row in behind[:_SHOWN]]
    alone = all(len(row["dumps"]) == 1 for row in data["communicators"])
    verdict = lines[0] + "." if lines else _ALONE if alone else "No rank is behind another one."
    named, dumps = (
        counted(len(data["communicators"]), "communicator"),
        counted(data["files"], "file"),
    )
    return Page(
        f"Dumps of NCCL's inspector: {named} in {dumps}",
        [
            *([Section("Ranks that are behind", lines)] if lines else []),
            Section("Calls", [table]),
        ],
        verdict=verdict,
        warnings=data["warnings"],
    )
