"""A PyTorch execution trace without a Kineto trace: structure and sizes, no durations.

Here: collectives with sizes and groups, matrix products and convolutions with shapes, in the order
of the host; a collective depends on the arithmetic before it, and arithmetic on the collectives
whose `wait` came before it. Not here: durations; a platform computes them (`npu.peak`, roofline or
systolic), and element-wise kernels take no time. A convolution is the product of its unrolled
input: m = images x output points, k = channels x window, n = filters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import InputError, Problem
from . import collectives, groups, host_trace
from .agreement import Placed
from .building import Product, RankSource
from .collectives import CommunicationCall
from .groups import Members, Resolver
from .host_trace import HostNode, HostTrace
from .ranks import RecordedRun
from .timeline import TimelineItem


@dataclass(slots=True)
class HostWork:
    """One node to be: a product or a call, with the indices it depends on."""

    name: str
    deps: list[int]
    product: Product | None = None
    call: CommunicationCall | None = None


@dataclass
class Skeleton:
    """Parts of a step that an execution trace alone shows."""

    work: list[HostWork] = field(default_factory=list)
    operators: int = 0
    waits: int = 0
    cycles: list[str] = field(default_factory=list)


def skeleton(trace: HostTrace, step: int | None) -> Skeleton:
    """Products and collectives in the order of the host, of one step or (None) of everything."""
    first, last_id = (
        host_trace.steps(trace)[step] if step is not None else (0, trace.nodes[-1].id + 1)
    )
    nodes = [node for node in trace.nodes if first <= node.id < last_id]
    result = Skeleton(operators=len(nodes), cycles=cycle(trace))
    by_sequence: dict[int, int] = {}
    last, pending = -1, list[int]()
    for node in nodes:
        if node.name == "record_param_comms":
            awaited = by_sequence.get(_sequence(node, 0), -1) if "wait" in node.inputs else -1
            result.waits += awaited >= 0
            pending += [awaited] if awaited >= 0 else []
            call = collectives.from_host_node(node)
            if call is not None:
                by_sequence[_sequence(node, 1)] = len(result.work)
                result.work.append(HostWork(node.name, _deps(last, pending), call=call))
            continue
        for product in products(node):
            result.work.append(HostWork(node.name, _deps(last, pending), product=product))
            last, pending = len(result.work) - 1, []
    return result


def _deps(last: int, pending: list[int]) -> list[int]:
    return sorted({*pending, *([last] if last >= 0 else [])})


def _sequence(node: HostNode, place: int) -> int:
    value = node.inputs[place] if len(node.inputs) > place else -1
    return value if isinstance(value, int) else -1


def products(node: HostNode) -> list[Product]:
    """The matrix products of an operator; none for one that is not a product or has no shapes."""
    shapes = [shape for shape in node.shapes if _is_shape(shape)]
    width = next((tensor[4] for tensor in host_trace.tensors(node.inputs)), 0)
    if width not in (1, 2, 4, 8):
        return []
    if node.name in ("aten::mm", "aten::bmm") and len(shapes) >= 2:
        return _product(shapes[0], shapes[1], width)
    if node.name in ("aten::addmm", "aten::baddbmm") and len(shapes) >= 3:
        return _product(shapes[1], shapes[2], width)
    if node.name == "aten::convolution" and len(shapes) >= 2 and node.results:
        return _convolution(node.results[0], shapes[1], width)
    if node.name == "aten::convolution_backward" and len(shapes) >= 3:
        return _convolution(shapes[0], shapes[2], width) * 2
    return []


def _is_shape(value: Any) -> bool:  # noqa: ANN401
    return (
        isinstance(value, list) and bool(value) and all(isinstance(length, int) for length in value)
    )


def _product(left: list[int], right: list[int], width: int) -> list[Product]:
    if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
        return []
    found = Product(math.prod(left[:-2]), left[-2], right[-1], left[-1], width)
    return [found] if min(found.batch, found.m, found.n, found.k) > 0 else []


def _convolution(output: list[int], weight: list[int], width: int) -> list[Product]:
    if len(output) < 3 or len(weight) < 3:
        return []
    points, window = output[0] * math.prod(output[2:]), math.prod(weight[1:])
    found = Product(1, points, weight[0], window, width)
    return [found] if min(found.m, found.n, found.k) > 0 else []


def cycle(trace: HostTrace) -> list[str]:
    """A circle of parents, as names with ids; empty for a sound trace."""
    parents = {node.id: node.parent for node in trace.nodes}
    names = {node.id: node.name for node in trace.nodes}
    done: set[int] = set()
    for start in parents:
        path: dict[int, int] = {}
        at = start
        while at in parents and at not in done and at not in path:
            path[at] = len(path)
            at = parents[at]
        if at in path and parents[at] != at:
            circle = [identity for identity, place in path.items() if place >= path[at]]
            return [f"{names[identity]} ({identity})" for identity in circle]
        done.update(path)
    return []


@dataclass
class Outlined:
    """One rank's skeleton with the members of its calls' groups."""

    rank: int
    skeleton: Skeleton
    placed: list[Placed]


def choose(run: RecordedRun, wanted: int | None) -> int | None:
    """The step to take: the wanted one, else the middle of those on every rank that hold work,
    without the first; None for everything.

    Raises `InputError` when the wanted one is not on every rank.
    """
    steps = [host_trace.steps(entry.host) for entry in run.ranks if entry.host is not None]
    common = sorted(set.intersection(*map(set, steps)))
    if wanted is not None and wanted not in common:
        works = "steps on every rank: " + (
            " ".join(map(str, common)) or "none; leave --step out for everything"
        )
        raise InputError(
            [
                Problem(
                    run.ranks[0].file,
                    f"step {wanted}",
                    f"no annotation ProfilerStep#{wanted}",
                    works,
                )
            ]
        )
    if wanted is not None:
        return wanted
    hosts = [entry.host for entry in run.ranks if entry.host is not None]
    full = [
        number for number in common if any(skeleton(host, number).work for host in hosts)
    ] or common
    candidates = full[1:] or full
    return candidates[len(candidates) // 2] if candidates else None


def analyse(
    run: RecordedRun, given: Mapping[str, Members], step: int | None
) -> tuple[list[Outlined], list[Problem]]:
    """Every rank's skeleton, and everything that is wrong with them."""
    found, problems = [], list[Problem]()
    for entry in run.ranks:
        assert entry.host is not None
        outline = skeleton(entry.host, step)
        problems += _faults(entry.host, outline)
        declared = groups.declared({}, host_trace.process_groups(entry.host))
        resolver = Resolver(entry.file, entry.rank, run.world, declared, given)
        try:
            calls = [
                (number, work.call)
                for number, work in enumerate(outline.work)
                if work.call is not None
            ]
            placed = [Placed(call, resolver.members(call.group), number) for number, call in calls]
            found.append(Outlined(entry.rank, outline, placed))
            problems += groups.check_assumptions(resolver)
        except InputError as error:
            problems += error.problems
    return found, problems


def _faults(trace: HostTrace, outline: Skeleton) -> list[Problem]:
    if outline.cycles:
        message = "parents run in a circle: " + " -> ".join(outline.cycles[:8])
        return [Problem(trace.file, "ctrl_deps", message, "a tree of operators")]
    if not outline.work:
        message = (
            f"{outline.operators} operators, but no collective and no matrix product: nothing has "
            "a size or a duration"
        )
        return [
            Problem(
                trace.file,
                "nodes",
                message,
                "the Kineto trace of the same recording, in the same place",
            )
        ]
    return []


def source(rank: Outlined) -> RankSource:
    """Source of the rank's program."""
    items = [TimelineItem(work.name, 0, 0, 0, -1, work.deps) for work in rank.skeleton.work]
    calls = {entry.item: [entry] for entry in rank.placed}
    shapes = {
        number: work.product
        for number, work in enumerate(rank.skeleton.work)
        if work.product is not None
    }
    return RankSource(rank.rank, items, calls, shapes)


def note(ranks: list[Outlined], step: int | None) -> str:
    """Note on the use of such an import."""
    part = "everything in them" if step is None else f"ProfilerStep {step}"
    operators = sum(rank.skeleton.operators for rank in ranks)
    calls = sum(len(rank.placed) for rank in ranks)
    products = sum(len(rank.skeleton.work) for rank in ranks) - calls
    return (
        f"execution traces alone have no durations: of {operators:,} operators ({part}) {calls:,} "
        f"collectives with sizes and {products:,} matrix products with shapes were taken, the rest "
        "takes no time; simulate with npu.peak"
    )
