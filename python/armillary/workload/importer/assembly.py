"""Programs for every rank, and the workload.

Here: one program for each way in which a recorded rank's groups are named; ranks that name them alike share it, so a
thousand data-parallel ranks cost as much as those recorded. Not here: who is in a group (`spread.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from ..program import Program
from ..summary import Summary
from ..workload import Workload
from . import building, groups
from .building import Source
from .groups import Members
from .spread import Spread

Key = tuple[Members, str]


def assemble(plan: Spread, sources: list[Source], summary: Callable[[list[Program]], Summary]) -> Workload:
    """The workload of `plan`."""
    by_rank = {source.rank: source for source in sources}
    keys = {rank: _keys(source) for rank, source in by_rank.items()}
    resolved = [_resolve(plan, rank, keys[plan.source(rank)]) for rank in range(plan.ranks)]
    names = groups.distinct({members for row in resolved for members in row}, plan.ranks)
    programs: list[Program] = []
    known: dict[tuple[int, tuple[str, ...]], int] = {}
    chosen = []
    for rank, row in enumerate(resolved):
        source = plan.source(rank)
        called = tuple(names[members] for members in row)
        identity = (source, called)
        if identity not in known:
            known[identity] = len(programs)
            programs.append(_program(plan, by_rank[source], keys[source], row, called))
        chosen.append(known[identity])
    members = {name: list(group) for group, name in names.items() if name and len(group) > 1}
    return Workload.listed("recorded", programs, chosen, members, summary(programs))


def _keys(source: Source) -> list[Key]:
    """The distinct groups and kinds of a rank's calls, in the order of first use."""
    entries = (entry for number in sorted(source.calls) for entry in source.calls[number])
    return list(dict.fromkeys((entry.members, entry.call.kind) for entry in entries))


def _resolve(plan: Spread, rank: int, keys: list[Key]) -> list[Members]:
    return [plan.members(rank, members, kind) for members, kind in keys]


def _program(plan: Spread, source: Source, keys: list[Key], row: list[Members], called: tuple[str, ...]) -> Program:
    table = {key: (name, len(members), len(key[0])) for key, members, name in zip(keys, row, called, strict=True)}
    return building.program(source, lambda members, kind: table[members, kind], plan.bytes)
