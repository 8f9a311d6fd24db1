"""Who takes part in a collective: groups of devices as XLA writes them.

    {{0,1},{2,3}}                   groups one by one
    [2,4]<=[4,2]T(1,0)              the devices 0, 1, ... as a table of 4 x 2, its transpose in
                                    rows of 4
    mesh['a'=2,'b'=4] {'b'}         devices as the points of a mesh, a group along some axes

Here: these forms as lists, and which numbers they are: of replicas, of partitions or of both. Not
here: what the collectives do (`programs.py`)."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

from .module import MOST_DEVICES, DamagedError, Groups, Instruction, Module, whole

ALLOWED = "{{0,1},{2,3}}, [2,4]<=[8], [2,4]<=[4,2]T(1,0), or mesh['a'=2,'b'=4] {'b'}"
_IOTA = re.compile(r"\[([\d,]*)\]<=\[([\d,]*)\](?:T\(([\d,]*)\))?")
_MESH = re.compile(r"mesh\[([^\]]*)\]\s*\{([^}]*)\}")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_PART = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")
_LIST = re.compile(r"\{([\d,\s]*)\}")
_PLAIN = re.compile(r"\{\s*(?:\{[\d,\s]*\}\s*,?\s*)*\}")
FLATTENING = ("all-reduce", "all-gather", "reduce-scatter")
"""Collectives whose groups can have numbers of devices; those of others with a channel are of
partitions."""


def _numbers(text: str, where: str) -> list[int]:
    return [whole(part.strip(), where, MOST_DEVICES) for part in text.split(",") if part.strip()]


def parse(text: str, where: str) -> Groups:
    """Groups from their text. Raises `DamagedError`."""
    text = text.strip()
    if match := _IOTA.fullmatch(text):
        shape, table = _numbers(match[1], where), _numbers(match[2], where)
        order = _numbers(match[3], where) if match[3] is not None else None
        return iota(shape, table, order, where)
    if match := _MESH.fullmatch(text):
        axes = [(name, whole(size, where, MOST_DEVICES)) for name, size in _AXIS.findall(match[1])]
        names = [name for name, _ in axes]
        chosen = []
        for name, before, size in _PART.findall(match[2]):
            if name not in names:
                raise DamagedError(where, f"unknown axis: {name[:40]!r}", ", ".join(names))
            part = (whole(before, where), whole(size, where)) if size else None
            chosen.append((names.index(name), part))
        return meshed([size for _, size in axes], chosen, where)
    if _PLAIN.fullmatch(text):
        return tuple(tuple(_numbers(part, where)) for part in _LIST.findall(text[1:-1]))
    raise DamagedError(where, f"groups of an unknown form: {text[:60]!r}", ALLOWED)


def iota(
    shape: Sequence[int], table: Sequence[int], order: Sequence[int] | None, where: str
) -> Groups:
    """Groups of a table of devices, its dimensions in another order. Raises `DamagedError`."""
    count = math.prod(table)
    order = order or list(range(len(table)))
    if len(shape) == 1:
        shape = [1, *shape]
    sound = len(shape) == 2 and math.prod(shape) == count and 0 < count <= MOST_DEVICES
    if not sound or sorted(order) != list(range(len(table))):
        said = f"groups that do not fit together: {list(shape)} of {list(table)} by {list(order)}"
        raise DamagedError(where, said[:200], ALLOWED)
    devices = _transposed(table, order)
    size = shape[1]
    return tuple(tuple(devices[at : at + size]) for at in range(0, count, size))


def _transposed(table: Sequence[int], order: Sequence[int]) -> list[int]:
    """Numbers of a table in rows, read along its dimensions in another order."""
    strides = [math.prod(table[at + 1 :]) for at in range(len(table))]
    found = [0]
    for dimension in order:
        stride = strides[dimension]
        found = [base + stride * at for base in found for at in range(table[dimension])]
    return found


def meshed(
    sizes: Sequence[int], chosen: Sequence[tuple[int, tuple[int, int] | None]], where: str
) -> Groups:
    """Groups along some axes of a mesh, or along parts of them: `(m)k` is the part of size `k`
    behind those of size `m`. Raises `DamagedError`."""
    if not 0 < math.prod(sizes) <= MOST_DEVICES:
        raise DamagedError(where, f"a mesh of {list(sizes)[:8]} devices", ALLOWED)
    table: list[int] = []
    places: dict[tuple[int, int, int], int] = {}
    for axis, size in enumerate(sizes):
        cuts = {1, size}
        for each, part in chosen:
            if each == axis and part is not None:
                cuts |= {part[0], part[0] * part[1]}
        ordered = sorted(cuts)
        if any(low < 1 or size % low or high % low for low, high in _pairs(ordered)):
            raise DamagedError(where, f"parts of an axis of {size} that do not divide it", ALLOWED)
        for low, high in _pairs(ordered):
            places[axis, low, high // low] = len(table)
            table.append(high // low)
        if size == 1:
            places[axis, 1, 1] = len(table)
            table.append(1)
    along: list[int] = []
    for axis, part in chosen:
        low, size = part or (1, sizes[axis])
        along += [
            place
            for (each, start, width), place in places.items()
            if each == axis and start >= low and start * width <= low * size
        ]
    if len({*along}) < len(along):
        raise DamagedError(where, "groups along one axis twice", ALLOWED)
    size = math.prod(table[place] for place in along)
    rest = [place for place in range(len(table)) if place not in along]
    devices = _transposed(table, [*rest, *along])
    return tuple(tuple(devices[at : at + size]) for at in range(0, len(devices), size))


def _pairs(values: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(values))


def parse_pairs(text: str, where: str) -> Groups:
    """Source and target of each message. Raises `DamagedError`."""
    text = text.strip()
    if not _PLAIN.fullmatch(text):
        raise DamagedError(where, f"pairs of an unknown form: {text[:60]!r}", "{{0,1},{1,2}}")
    return tuple(tuple(_numbers(part, where)) for part in _LIST.findall(text[1:-1]))


def ranks_of(module: Module, instruction: Instruction, opcode: str) -> Groups:
    """Groups of a collective in numbers of ranks: replica * partitions + partition. Raises
    `DamagedError`."""
    groups: Groups = instruction.get("groups", ())
    replicas, partitions, where = module.replicas, module.partitions, instruction.name
    if not instruction.get("channel"):
        listed = groups or (tuple(range(replicas)),)
        found = [
            tuple(replica * partitions + part for replica in group)
            for group in listed
            for part in range(partitions)
        ]
    elif opcode not in FLATTENING:
        listed = groups or (tuple(range(partitions)),)
        found = [
            tuple(replica * partitions + part for part in group)
            for group in listed
            for replica in range(replicas)
        ]
    elif instruction.get("global_ids"):
        found = list(groups or (tuple(range(module.devices)),))
    else:
        listed = groups or (tuple(range(replicas)),)
        found = [
            tuple(r * partitions + p for r in group for p in range(partitions)) for group in listed
        ]
    return _checked(found, module.devices, where)


def _checked(groups: Sequence[tuple[int, ...]], ranks: int, where: str) -> Groups:
    members = list(itertools.chain.from_iterable(groups))
    if len({*members}) < len(members):
        raise DamagedError(where, "has a device in two groups", ALLOWED)
    if any(each >= ranks for each in members):
        said = f"names device {max(members):,} of {ranks:,}"
        raise DamagedError(where, said, "num_partitions and replica_count of the module")
    if len(members) < ranks:
        said = f"has groups of {len(members):,} devices, where the module has {ranks:,}"
        raise DamagedError(where, said, "groups of all devices")
    return tuple(groups)


def pairs_of(module: Module, instruction: Instruction) -> tuple[tuple[int, int], ...]:
    """Messages between ranks: source and target. Raises `DamagedError`."""
    found = []
    replicas, partitions, where = module.replicas, module.partitions, instruction.name
    for pair in instruction.get("pairs", ()):
        if len(pair) != 2:
            raise DamagedError(where, f"a pair of {len(pair)} devices", "{{0,1},{1,2}}")
        source, target = pair
        if max(pair) >= (partitions if instruction.get("channel") else replicas):
            raise DamagedError(where, f"names device {max(pair):,}", "devices of the module")
        if instruction.get("channel"):
            found += [(r * partitions + source, r * partitions + target) for r in range(replicas)]
        else:
            spread = range(partitions)
            found += [(source * partitions + p, target * partitions + p) for p in spread]
    for side in (0, 1):
        ends = [pair[side] for pair in found]
        if len({*ends}) < len(ends):
            said = f"has a device that {'receives' if side else 'sends'} twice"
            raise DamagedError(where, said, "each at most once")
    return tuple(found)
