"""Process groups: who is in the group that a rank's trace names.

Here: membership from kernel metadata, from `distributedInfo`'s `pg_config`, from an execution
trace's declaration, from a file; what is assumed where none says. A group is known by its members,
not by its name: ranks may name one differently, or two alike. Not here: the calls themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import InputError, Problem
from .collectives import GroupRef

Members = tuple[int, ...]


@dataclass
class Declared:
    """Groups that one rank's traces declare, for each name. `sizes` has groups whose members were
    not written down."""

    members: dict[str, Members] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


def declared(distributed: Mapping[str, Any], host: Sequence[Mapping[str, Any]]) -> Declared:
    """From `pg_config` of Kineto and `process_group:init` of an execution trace."""
    found = Declared()
    for entry in (*_entries(distributed.get("pg_config")), *host):
        name = str(entry.get("pg_name", ""))
        ranks = entry.get("ranks")
        size = entry.get("pg_size", entry.get("group_size", 0))
        if isinstance(ranks, list) and ranks and all(isinstance(rank, int) for rank in ranks):
            found.members[name] = tuple(ranks)
            found.members.setdefault(str(entry.get("backend_id", name)), tuple(ranks))
        elif isinstance(size, int) and size:
            found.sizes[name] = size
            found.sizes.setdefault(str(entry.get("backend_id", name)), size)
    return found


def _entries(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


@dataclass
class Resolver:
    """Resolves references of one rank. `assumed` counts calls by the name of a group taken to be
    everybody."""

    file: str
    rank: int
    world: int
    declared: Declared
    given: Mapping[str, Members]
    assumed: dict[str, int] = field(default_factory=dict)

    def members(self, ref: GroupRef) -> Members:
        """The group's members in ring order. Raises `InputError` when the rank is not one of
        them."""
        found = self._find(ref)
        if self.rank not in found:
            message = f"group {ref.name!r} is {list(found)}, without the rank that calls it"
            raise InputError(
                [Problem(self.file, f"rank {self.rank}", message, "ranks and groups of one run")]
            )
        return found

    def _find(self, ref: GroupRef) -> Members:
        everybody = tuple(range(self.world))
        for members in (self.given.get(ref.name), ref.ranks, self.declared.members.get(ref.name)):
            if members:
                return tuple(members)
        size = ref.size or self.declared.sizes.get(ref.name, 0)
        if size in (0, self.world):
            if size == 0 and ref.name not in ("0", "default_pg"):
                self.assumed[ref.name] = self.assumed.get(ref.name, 0) + 1
            return everybody
        said = (
            f"group {ref.name!r} has {size} of {self.world} members, and the trace does not "
            "say which"
        )
        file = '--groups FILE with {"' + ref.name + '": [' + str(self.rank) + ", ...]}"
        raise InputError(
            [
                Problem(
                    self.file, f"rank {self.rank}", said, f"{file}, or a trace with NCCL metadata"
                )
            ]
        )


def check_assumptions(resolver: Resolver) -> list[Problem]:
    """Several groups of unknown membership can't all be everybody: a problem that names them with
    their calls."""
    names = resolver.assumed
    if len(names) <= 1:
        return []
    said = ", ".join(
        f"{name or 'no name'} ({count} calls)" for name, count in sorted(names.items())
    )
    message = f"{len(names)} process groups with unknown members: {said}"
    help_ = (
        '--groups FILE, {"name": [ranks], ...}, or traces with NCCL metadata (PyTorch 2.3 '
        "and later)"
    )
    return [Problem(resolver.file, f"rank {resolver.rank}", message, help_)]


def name_of(members: Members, world: int) -> str:
    """A name for a group, the same on all its members; empty for everybody in order of rank."""
    if members == tuple(range(world)):
        return ""
    return (
        "-".join(map(str, members))
        if len(members) <= 8
        else f"{members[0]}-{members[1]}..{members[-1]}x{len(members)}"
    )


def distinct(groups: set[Members], world: int) -> dict[Members, str]:
    """Names of groups, made distinct where long ones would share one."""
    names: dict[Members, str] = {}
    taken: set[str] = set()
    for members in sorted(groups):
        name = name_of(members, world)
        names[members] = name if name not in taken else f"{name}#{len(names)}"
        taken.add(name)
    return names
