"""LIBRA's own inputs: network, communicator, cost model, workload text.

Here: reading them into what this package uses. Not here: LIBRA's constraints and training loops,
which are programs; the loop without overlap, its default, is the one built here. ASTRA-sim 1.0's
text with its two head lines is read by `armillary.load`.

    network        Topology: [Ring, Switch]  NpusCount: [4, 32]
                   CostDimension: [InterChiplet, InterPod]
    communicator   Forward: [4, -1]  InputGrad: [4, -1]  WeightGrad: [-1, 32]
                   extents of the groups, -1 for none
    cost model     InterPod: {Link: 7.8, Switch: 18, Nic: 31.6}   dollars for a GB/s
    workload       name -1 ns kind bytes  ns kind bytes  ns kind bytes  update
                   one line for each layer

Source: github.com/astra-sim/libra@ff225aa, inputs/ and its README.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import documents
from ..declared import Source
from ..errors import InputError, Problem
from ..estimate.topology import BLOCKS, StackDimension, Topology, block
from ..sweep.source import read
from ..workload import Program, Workload
from .cost import CostTable, Technology

_KINDS = {
    "none": "",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
_PASSES = ("Forward", "InputGrad", "WeightGrad")
_LAYER = 12


@dataclass(frozen=True, slots=True)
class LibraNetwork:
    """A network file: the topology, and what each dimension's prices are called."""

    topology: Topology
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A line of a workload: for each pass its time (ns), collective and bytes."""

    name: str
    passes: tuple[tuple[int, str, int], ...]


def is_cost_model(values: Mapping[str, Any]) -> bool:
    """Whether a mapping is one of LIBRA's cost models."""
    parts = {"Link", "Switch", "Nic"}
    return bool(values) and all(
        isinstance(each, dict) and each and set(each) <= parts for each in values.values()
    )


def network(path: str | os.PathLike[str]) -> LibraNetwork:
    """Reads a network. Raises `InputError` listing every problem."""
    source = read(path)
    blocks, sizes, stack = (
        _list(source, key) for key in ("Topology", "NpusCount", "CostDimension")
    )
    if not len(blocks) == len(sizes) == len(stack):
        said = f"{len(blocks)} blocks, {len(sizes)} sizes, {len(stack)} cost dimensions"
        source.fault(("NpusCount",), said, "the same number of each")
    for index, each in enumerate(blocks):
        if block(str(each)) is None:
            source.fault(("Topology", index), f"unknown block {each!r}", ", ".join(BLOCKS))
    for index, each in enumerate(sizes):
        if not isinstance(each, int) or isinstance(each, bool) or each < 2:
            source.fault(("NpusCount", index), f"invalid size: {each!r}", "a whole number from 2")
    source.finish()
    dims = [
        StackDimension(block(str(name)) or "", size)
        for name, size in zip(blocks, sizes, strict=True)
    ]
    return LibraNetwork(Topology(tuple(dims)), tuple(map(str, stack)))


def cost_model(source: Source, name: str) -> CostTable:
    """A cost model, with each direction of a link counted. Raises `InputError` listing every
    problem."""
    for key, parts in source.values.items():
        for part, value in parts.items():
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 < value <= 1e12
            ):
                source.fault(
                    (key, part), f"invalid price: {value!r}", "dollars for a GB/s, above 0"
                )
    source.finish()
    found = [
        Technology(str(key), {part.lower(): float(value) for part, value in parts.items()})
        for key, parts in source.values.items()
    ]
    return CostTable(name, f"{source.file}, a cost model of LIBRA", "directions", tuple(found))


def is_workload(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a workload of LIBRA: its first line is a layer."""
    try:
        with documents.open_plain(path) as stream:
            words = stream.readline(1000).decode().split()
    except (OSError, UnicodeDecodeError):
        return False
    return len(words) == _LAYER and words[3].lower() in _KINDS and words[2].isdigit()


def workload(
    path: str | os.PathLike[str], communicator: str | os.PathLike[str], topology: Topology
) -> Workload:
    """A workload with its communicator, run as LIBRA does without overlap: one thing after another.

    Groups are consecutive ranks, inner ones for Forward and InputGrad or for WeightGrad. Raises
    `InputError` listing every problem: groups that span dimensions in another way than consecutive
    ranks do, lines that are not layers."""
    layers = _layers(os.fspath(path))
    spans = _communicator(communicator, topology)
    inner, outer = _axes(os.fspath(communicator), spans, topology)
    groups = {
        each: "inner" if spans[each] == inner else "outer"
        for each in _PASSES
        if math.prod(_real(spans[each])) > 1
    }
    program = Program()
    after: list[int] = []
    for layer in layers:
        after = _pass(program, layer, 0, groups.get("Forward", ""), after)
    for layer in reversed(layers):
        for index, name in enumerate(_PASSES[1:], 1):
            after = _pass(program, layer, index, groups.get(name, ""), after)
    axes = [("inner", math.prod(_real(inner))), ("outer", math.prod(_real(outer)))]
    rest = topology.npus // (axes[0][1] * axes[1][1])
    used = {name: [name] for name in sorted(set(groups.values()))}
    return Workload.mesh(Path(path).stem, [*axes, ("rest", rest)], used, [], [program])


def _pass(program: Program, layer: _Layer, index: int, group: str, after: list[int]) -> list[int]:
    """Computes, then communicates; what the next thing waits for."""
    ns, kind, size = layer.passes[index]
    name = f"{layer.name} {_PASSES[index]}"
    if ns:
        after = [program.compute(name, after, duration_ps=ns * 1000)]
    if kind and size and group:
        after = [program.collective(f"{name} {kind}", after, kind, size, group)]
    return after


def _real(span: Sequence[int]) -> list[int]:
    """Extents without the dimensions that take no part."""
    return [each for each in span if each > 0]


def _communicator(path: str | os.PathLike[str], topology: Topology) -> dict[str, tuple[int, ...]]:
    source = read(path)
    found = {}
    for key in _PASSES:
        span = _list(source, key)
        if len(span) != len(topology):
            source.fault(
                (key,),
                f"{len(span)} extents",
                f"{len(topology)}, one for each dimension of {topology}",
            )
        for index, (each, size) in enumerate(zip(span, topology.sizes, strict=False)):
            if (
                not isinstance(each, int)
                or isinstance(each, bool)
                or each == 0
                or (each > 0 and size % each)
            ):
                source.fault(
                    (key, index),
                    f"{each!r} is not a part of a dimension of {size}",
                    f"-1, or a divisor of {size}",
                )
        found[key] = tuple(each if isinstance(each, int) else -1 for each in span)
    source.finish()
    return found


def _axes(
    file: str, spans: Mapping[str, tuple[int, ...]], topology: Topology
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents of the inner and the outer group, which together go through the ranks in
    order."""
    different = list(dict.fromkeys(span for span in spans.values() if math.prod(_real(span)) > 1))
    none = (-1,) * len(topology)
    ordered = sorted(different, key=lambda span: next(d for d, each in enumerate(span) if each > 1))
    if len(ordered) > 2:
        raise InputError(
            [Problem(file, "", "three different groups", "one for activations, one for weights")]
        )
    pair = (*ordered, none, none)[:2]
    product = [max(a, 1) * max(b, 1) for a, b in zip(*pair, strict=True)]
    full = list(topology.sizes)
    starts_inside = any(b > 1 for b in pair[1]) and any(
        a > 1 for a in pair[0][next(d for d, b in enumerate(pair[1]) if b > 1) + 1 :]
    )
    filled = all(each == size for each, size in zip(product, full, strict=True)) or _prefix(
        product, full
    )
    if starts_inside or not filled:
        said = (
            f"groups of {list(pair[0])} and {list(pair[1])} are not consecutive ranks of {topology}"
        )
        raise InputError(
            [
                Problem(
                    file,
                    "",
                    said,
                    "an inner group that fills dimensions from the first on, an outer one the rest",
                )
            ]
        )
    return pair[0], pair[1]


def _prefix(product: Sequence[int], full: Sequence[int]) -> bool:
    """Whether dimensions are filled from the inside, up to one that may be filled in part."""
    parts = [d for d, (each, size) in enumerate(zip(product, full, strict=True)) if each != size]
    return all(product[d] == 1 for d in parts[1:])


def _layers(path: str) -> list[_Layer]:
    lines = documents.read_text(path, "a workload of LIBRA").splitlines()
    problems, layers = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        layer = _layer(line.split())
        if layer is None:
            help_ = (
                "name, -1, then ns, collective and bytes for each of three passes, and an "
                "update time"
            )
            problems.append(
                Problem(path, f"line {number}", f"invalid layer: {line.strip()[:60]!r}", help_)
            )
        else:
            layers.append(layer)
    if problems or not layers:
        raise InputError(problems or [Problem(path, "", "has no layers", "one layer in each line")])
    return layers


def _layer(words: Sequence[str]) -> _Layer | None:
    if len(words) != _LAYER:
        return None
    triples = [words[at : at + 3] for at in (2, 5, 8)]
    if not all(
        _count(ns) and kind.lower() in _KINDS and _count(size) for ns, kind, size in triples
    ):
        return None
    return _Layer(
        words[0], tuple((int(ns), _KINDS[kind.lower()], int(size)) for ns, kind, size in triples)
    )


def _count(text: str) -> bool:
    return re.fullmatch(r"\d{1,15}", text) is not None


def _list(source: Source, key: str) -> list[Any]:
    value = source.values.get(key)
    if not isinstance(value, list) or not 1 <= len(value) <= 5:
        source.fault(
            (key,),
            "is missing" if value is None else f"{value!r} is not a list",
            "a list of 1 to 5, one for each dimension",
        )
        return []
    return value
