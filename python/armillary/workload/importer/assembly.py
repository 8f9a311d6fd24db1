"""Programs for every rank, and the workload.

Here: ranks that were all recorded are listed one by one, with their groups as recorded. Ranks that
repeat others are a mesh: one axis between any two strides or ends of groups, one for the copies of
the run; so 100,000 ranks cost as much as those recorded. Not here: who is in a group (`spread.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from ...errors import InputError, Problem
from ..program import Program
from ..summary import Summary
from ..workload import Workload
from . import building, groups
from .building import RankSource
from .groups import Members
from .spread import Extent, Spread

Key = tuple[Members, str]
Named = dict[Key, tuple[str, int, int]]
"""Members in the recording and kind -> name, size, size in the recording."""
Summarise = Callable[[list[Program]], Summary]

_COPY = "copy"


def assemble(
    plan: Spread, sources: list[RankSource], summary: Summarise, warnings: Sequence[str]
) -> Workload:
    """The workload of `plan`, whose runs show `warnings`. Raises `InputError` for groups that can't
    be continued."""
    whole = len(plan.recorded) == plan.world and not plan.grows
    return (
        _listed(plan, sources, summary, warnings)
        if whole
        else _mesh(plan, sources, summary, warnings)
    )


def _keys(source: RankSource) -> list[Key]:
    """The distinct groups and kinds of a rank's calls, in the order of first use."""
    entries = (entry for number in sorted(source.calls) for entry in source.calls[number])
    return list(dict.fromkeys((entry.members, entry.call.kind) for entry in entries))


def _listed(
    plan: Spread, sources: list[RankSource], summary: Summarise, warnings: Sequence[str]
) -> Workload:
    """Every rank was recorded."""
    keys = [_keys(source) for source in sources]
    names = groups.distinct({members for row in keys for members, _ in row}, plan.world)
    tables: list[Named] = [
        {(m, kind): (names[m], len(m), len(m)) for m, kind in row} for row in keys
    ]
    programs = [
        _program(plan, source, table) for source, table in zip(sources, tables, strict=True)
    ]
    members = {name: list(group) for group, name in names.items() if name and len(group) > 1}
    return Workload.listed(
        "recorded", programs, list(range(plan.world)), members, summary(programs), warnings
    )


def _mesh(
    plan: Spread, sources: list[RankSource], summary: Summarise, warnings: Sequence[str]
) -> Workload:
    """Recorded ranks stand for others, too."""
    extents = {
        source.rank: {key: plan.extent(source.rank, *key) for key in _keys(source)}
        for source in sources
    }
    used = {extent for row in extents.values() for extent in row.values()}
    bounds = _bounds(plan, used)
    local = [(f"d{low}", high // low) for low, high in itertools.pairwise(bounds)] or [("d1", 1)]
    axes = [*local, (_COPY, plan.copies)]
    built = {
        source.rank: _program(
            plan, source, {key: _named(plan, e) for key, e in extents[source.rank].items()}
        )
        for source in sources
    }
    programs = [built[plan.source(rank)] for rank in range(plan.world)]
    families = {
        _named(plan, extent)[0]: list(_along(bounds, extent))
        for extent in used
        if extent.size > 1 or extent.grown
    }
    families.pop("", None)
    distinct = list(built.values())
    by = [name for name, _ in local]
    return Workload.mesh("recorded", axes, families, by, programs, summary(distinct), warnings)


def _bounds(plan: Spread, used: set[Extent]) -> list[int]:
    """Strides and ends of all groups, each dividing the next. Raises `InputError` where they do
    not."""
    bounds = sorted({1, plan.world, *(e.stride for e in used), *(e.end for e in used)})
    for low, high in itertools.pairwise(bounds):
        if high % low:
            said = " ".join(map(str, bounds))
            message = (
                f"groups of strides and lengths {said} are not a mesh: {high} is not a multiple of "
                f"{low}"
            )
            help_ = "traces of every rank without --ranks, or groups along the axes of a mesh"
            raise InputError([Problem("", "--ranks", message, help_)])
    return bounds


def _along(bounds: list[int], extent: Extent) -> Iterator[str]:
    yield from (f"d{low}" for low in bounds if extent.stride <= low < extent.end)
    if extent.grown:
        yield _COPY


def _named(plan: Spread, extent: Extent) -> tuple[str, int, int]:
    size = extent.size * (plan.copies if extent.grown else 1)
    everybody = size == plan.ranks
    return "" if everybody else f"{size} ranks, every {extent.stride}", size, extent.size


def _program(plan: Spread, source: RankSource, table: Named) -> Program:
    return building.program(source, lambda members, kind: table[members, kind], plan.bytes)
