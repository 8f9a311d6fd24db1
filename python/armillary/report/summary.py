"""A generated workload as a page: what it is, what a rank of each kind computes, sends and
keeps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..units import counted
from ..workload import RankClass, Summary, Workload
from ..workload.summary import spans
from ..workload.workload import OutsideMemory
from .parts import Fact, Section, Table
from .quantity import number, operations, rate, share, size
from .rates import Rates

if TYPE_CHECKING:
    from .page import Page

_CLASSES = 16
_MEMORY = "Operations of a rank in a step, and its peak memory"
_VOLUMES = "What a rank hands to collectives in a step"
_HEADS = ("Weights", "Gradients", "Optimizer", "Activ.", "Temp.", "Memory")


def rates(found: Rates | None) -> list[str]:
    """Samples and tokens a second, FLOP/s of an NPU and its share of the peak, where known: MFU and
    HFU."""
    if found is None:
        return []
    tokens = f", {rate(found.tokens)} tokens/s" if found.tokens else ""
    lines = [f"{rate(found.samples)} samples/s{tokens}, {operations(found.flops)}/s per NPU"]
    if found.utilisation:
        lines[0] += f", {share(found.utilisation)} of its peak (MFU)"
        if found.hardware:
            lines[0] += f", {share(found.hardware)} by the operations that run (HFU)"
    if found.is_optimistic:
        lines.append(
            "more than kernels reach: give the NPU's efficiencies (npu.compute.efficiency, "
            "docs/models/compute.md)"
        )
    return lines


def host(found: Summary | None) -> str | None:
    """The bytes in the memory outside of the NPUs, where a workload offloads anything."""
    if found is None or not found.host:
        return None
    return (
        f"{size(found.host)} of an NPU are offloaded to its host, {size(found.host_total)} in all"
    )


def page(summary: Summary, workload: Workload, outside: Sequence[OutsideMemory] = ()) -> Page:
    """The page of a summary; its volumes only where a rank hands anything to collectives. `outside`
    are the fullest memories outside of the NPUs of its platform."""
    from .page import Page

    sections = [Section(_MEMORY, [_memory(summary.classes)])]
    if any(item.volumes for item in summary.classes):
        sections.append(Section(_VOLUMES, [_volumes(summary.classes)]))
    if summary.notes:
        sections.append(Section("Notes", list(summary.notes)))
    return Page(
        title=summary.model,
        lead=f"{summary.family}, {counted(summary.ranks, 'rank')}, "
        f"{counted(workload.programs, 'program')}",
        facts=[*_facts(summary), *map(_outside, outside)],
        sections=sections,
    )


def _facts(summary: Summary) -> Iterator[Fact]:
    active = summary.active_parameters
    extra = f"{number(active)} active" if active != summary.parameters else ""
    yield Fact("Parameters", number(summary.parameters), extra)
    hardware = summary.hardware_flops
    more = f"{operations(hardware)} with recomputation" if hardware != summary.flops else ""
    yield Fact("Operations of a step", operations(summary.flops), more)
    yield Fact("Batch of a step", counted(summary.batch, "sample"))
    if summary.bubble:
        yield Fact("Bubble", share(summary.bubble), "of a step")


def _outside(memory: OutsideMemory) -> Fact:
    """Bytes in the fullest memory of a kind, of all its NPUs together."""
    limit = f"of {size(memory.capacity_bytes)}, " if memory.capacity_bytes is not None else ""
    extra = f"{limit}for {counted(memory.ranks, 'NPU')}"
    return Fact(f"Fullest {memory.name}", size(memory.bytes), extra)


def _alike(
    classes: Sequence[RankClass], what: Callable[[RankClass], Hashable]
) -> list[tuple[str, int, RankClass]]:
    """Groups with the same `what`: names, ranks and one member of each, in the order of the first
    members."""
    rows: dict[Hashable, list[RankClass]] = {}
    for item in classes:
        rows.setdefault(what(item), []).append(item)
    return [
        (spans([item.name for item in same]), sum(item.ranks for item in same), same[0])
        for same in rows.values()
    ]


def _memory(classes: Sequence[RankClass]) -> Table:
    offloads = any(item.outside for item in classes)
    heads = ("Ranks", "NPUs", "Operations", *_HEADS, *(("Host",) if offloads else ()))
    alike = _alike(classes, lambda item: (item.operations, item.memory, item.outside))
    rows = []
    for name, ranks, item in alike[:_CLASSES]:
        kept = item.memory
        parts = (
            kept.weights,
            kept.gradients,
            kept.optimizer,
            kept.activations,
            kept.temporary,
            kept.total,
            *((item.outside,) if offloads else ()),
        )
        rows.append((name, number(ranks), operations(item.operations), *map(size, parts)))
    return Table(_MEMORY, heads, rows)


def _volumes(classes: Sequence[RankClass]) -> Table:
    rows = [
        (
            "" if at else name,
            volume.group or ("" if volume.kind == "send" else "all"),
            volume.kind,
            number(volume.count),
            size(volume.bytes),
        )
        for name, _, item in _alike(classes, lambda item: item.volumes)[:_CLASSES]
        for at, volume in enumerate(item.volumes)
    ]
    return Table(_VOLUMES, ("Ranks", "Group", "Kind", "Count", "Bytes"), rows, labels=3)
