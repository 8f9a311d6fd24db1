"""A generated workload on a terminal: what it is, what a rank of each kind computes, sends and
keeps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..units import counted
from ..workload import RankClass, Summary, Workload
from ..workload.summary import spans
from .quantity import number, operations, rate, share, size
from .rates import Rates
from .terminal import emit

_CLASSES = 16
_HEADS = ("Weights", "Gradients", "Optimizer", "Activ.", "Temp.", "Memory")


def show(summary: Summary, workload: Workload, console: Console) -> None:
    """Prints the summary to fit the console's width."""
    emit(console, _parts(summary, workload))


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


def _parts(summary: Summary, workload: Workload) -> Iterator[RenderableType]:
    yield Text(summary.model, "bold green").append(
        f"  {summary.family}, {counted(summary.ranks, 'rank')}, "
        f"{counted(workload.programs, 'program')}",
        "default",
    )
    yield from _facts(summary)
    yield from _heading("Operations of a rank in a step, and its peak memory")
    yield Padding(_memory(summary.classes), (0, 0, 0, 2))
    if any(item.volumes for item in summary.classes):
        yield from _heading("What a rank hands to collectives in a step")
        yield Padding(_volumes(summary.classes), (0, 0, 0, 2))
    for note in summary.notes:
        yield Text("note: ", "bold yellow").append(note, "default")


def _facts(summary: Summary) -> Iterator[RenderableType]:
    active = summary.active_parameters
    extra = f", {number(active)} active" if active != summary.parameters else ""
    yield Text(f"  parameters   {number(summary.parameters)}{extra}")
    hardware = summary.hardware_flops
    more = f", {operations(hardware)} with recomputation" if hardware != summary.flops else ""
    yield Text(f"  operations   {operations(summary.flops)} a step{more}")
    yield Text(f"  batch        {counted(summary.batch, 'sample')} a step")
    if summary.bubble:
        yield Text(f"  bubble       {share(summary.bubble)} of a step")


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
    table = _table(*heads)
    for name, ranks, item in _alike(
        classes, lambda item: (item.operations, item.memory, item.outside)
    )[:_CLASSES]:
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
        table.add_row(
            name, number(ranks), operations(item.operations), *(size(part) for part in parts)
        )
    return table


def _volumes(classes: Sequence[RankClass]) -> Table:
    table = _table("Ranks", "Group", "Kind", "Count", "Bytes")
    for name, _, item in _alike(classes, lambda item: item.volumes)[:_CLASSES]:
        for i, volume in enumerate(item.volumes):
            group = volume.group or ("" if volume.kind == "send" else "all")
            table.add_row(
                "" if i else name, group, volume.kind, number(volume.count), size(volume.bytes)
            )
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    left = {"Ranks", "Group", "Kind"}
    for head in heads:
        table.add_column(head, justify="left" if head in left else "right")
    return table


def _heading(text: str) -> Iterator[RenderableType]:
    yield ""
    yield Text(text, "bold")
