"""Programs of all ranks from the steps of a module, and the workload.

    a collective of one rank, a message to itself     no step
    ranks with the same messages                      one program

Here: steps to nodes. Not here: what the steps wait for (`steps.py`), axes (`ranks.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...units import counted
from ..program import Program
from ..summary import Memory, RankClass, Summary
from ..workload import Workload
from . import ranks
from .module import Allocations, DamagedError
from .ranks import Mesh, Role
from .steps import Copy, Exchange, Permute, Steps, Work

_MOST_NODES = 50_000_000
_MOST_CLASSES = 256


def workload(
    name: str,
    found: Steps,
    count: int,
    memory: Allocations | None,
    notes: tuple[str, ...],
    warnings: Sequence[str],
) -> Workload:
    """The workload of `count` ranks. Raises `DamagedError` where that is too large."""
    title = Path(name.rsplit(": ", maxsplit=1)[-1]).name
    roles = ranks.roles(found.pairs, count)
    numbers = _numbered(roles)
    mesh = ranks.mesh(found.families, count)
    if mesh is None:
        return _listed(title, found, roles, memory, notes, warnings)
    by = ranks.differing(mesh, numbers)
    starts = ranks.points(mesh, by)
    names = [_family(mesh, along) for along in mesh.families]
    _check(len({numbers[rank] for rank in starts}), found)
    made: dict[int, Program] = {}
    for rank in starts:
        if numbers[rank] not in made:
            made[numbers[rank]] = program(found, roles[rank], names)
    programs = [made[numbers[rank]] for rank in starts]
    families = {
        each: list(along)
        for each, along in zip(names, mesh.families, strict=True)
        if along is not None and each
    }
    summary = _summary(title, count, programs, memory, notes)
    along = [axis for axis, _ in by]
    return Workload.mesh(title, mesh.axes, families, along, programs, summary, warnings)


def _numbered(roles: Sequence[Role]) -> list[int]:
    """A number for each rank, equal for equal roles."""
    known: dict[Role, int] = {}
    return [known.setdefault(role, len(known)) for role in roles]


def _family(mesh: Mesh, along: tuple[str, ...] | None) -> str | None:
    """The name of a family of groups: "" for all ranks in their order, none for groups of one."""
    if along is None:
        return None
    if along == tuple(name for name, size in mesh.axes if size > 1):
        return ""
    sizes = dict(mesh.axes)
    return " x ".join(f"{sizes[name]} every {name[1:]}" for name in along)


def _check(distinct: int, found: Steps) -> None:
    if distinct * len(found.steps) > _MOST_NODES:
        said = f"{distinct:,} programs of {len(found.steps):,} steps"
        raise DamagedError("the module", said, f"at most {_MOST_NODES:,} steps in all")


def _listed(
    title: str,
    found: Steps,
    roles: Sequence[Role],
    memory: Allocations | None,
    notes: tuple[str, ...],
    warnings: Sequence[str],
) -> Workload:
    """Ranks one by one, those with the same groups and messages sharing a program."""
    groups: dict[str, list[int]] = {}
    own: list[list[str | None]] = [[] for _ in roles]
    for family, each in enumerate(found.families):
        for number, members in enumerate(each):
            name = f"group {family}.{number}" if len(members) > 1 else None
            if name is not None:
                groups[name] = list(members)
            for rank in members:
                own[rank].append(name)
    keys = [(role, tuple(names)) for role, names in zip(roles, own, strict=True)]
    known: dict[tuple[Role, tuple[str | None, ...]], int] = {}
    numbers = [known.setdefault(key, len(known)) for key in keys]
    _check(len(known), found)
    programs = [program(found, role, names) for role, names in known]
    summary = _summary(title, len(roles), programs, memory, notes)
    return Workload.listed(title, programs, numbers, groups, summary, warnings)


def program(found: Steps, role: Role, names: Sequence[str | None]) -> Program:
    """The program of a rank: `role` has its messages, `names` its groups."""
    made = Program()
    ends: list[tuple[int, ...]] = []
    for number, step in enumerate(found.steps):
        after = sorted({node for each in step.after for node in ends[each]})
        made.label = step.layer
        if isinstance(step, Work):
            ends.append((_kernel(made, step, after),))
        elif isinstance(step, Exchange):
            group = names[step.family]
            if group is None:
                ends.append(tuple(after))
                continue
            ends.append((made.collective(step.name, after, step.kind, step.bytes, group),))
        elif isinstance(step, Permute):
            out, into = role[step.pairs]
            tag = step.tag if step.half else number
            nodes = []
            if out is not None and step.half != "recv":
                nodes.append(made.send(step.name, after, out, step.bytes, tag))
            if into is not None and step.half != "send":
                nodes.append(made.recv(step.name, after, into, step.bytes, tag))
            ends.append(tuple(nodes or after))
        else:
            ends.append((_copy(made, step, after),))
    if not len(made):
        made.metadata("nothing to do", [])
    return made


def _kernel(made: Program, step: Work, after: Sequence[int]) -> int:
    if step.product is not None:
        each = step.product
        return made.gemm(
            step.name, after, m=each.m, n=each.n, k=each.k, batch=each.batch, width=each.width
        )
    operations = step.cost.operations + step.cost.transcendentals
    return made.compute(
        step.name, after, operations=operations, bytes=step.cost.bytes, kernel=step.kernel
    )


def _copy(made: Program, step: Copy, after: Sequence[int]) -> int:
    return made.memory(step.name, after, step.bytes, store=step.store, reach=step.reach)


def _summary(
    title: str,
    count: int,
    programs: Sequence[Program],
    memory: Allocations | None,
    notes: tuple[str, ...],
) -> Summary:
    held = Memory()
    if memory is not None:
        held = Memory(weights=memory.parameters + memory.constants, temporary=memory.rest)
    shown = programs if len(programs) <= _MOST_CLASSES else programs[:16]
    alike = max(1, count // len(programs))
    classes = tuple(
        RankClass(f"program {number}", alike, each.operations, each.volumes, held)
        for number, each in enumerate(shown)
    )
    notes = (*notes, f"{counted(len(programs), 'program')} for {counted(count, 'rank')}")
    return Summary(title, "compiled", count, 0, 0, 0, 0, 0, 0.0, classes, notes)
