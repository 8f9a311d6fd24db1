"""A generated workload on a terminal: what it is, what a rank of each kind computes, sends and keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..workload import RankClass, Summary, Workload
from .quantity import counted, number, operations, share, size
from .rates import of
from .terminal import emit

_CLASSES = 16


def show(summary: Summary, workload: Workload, console: Console) -> None:
    """Prints the summary to fit the console's width."""
    emit(console, _parts(summary, workload))


def rates(summary: Summary, step_ns: float, peak_flops: int | None) -> list[str]:
    """Samples a second, FLOP/s of an NPU and its share of the peak, where known: model FLOPs utilisation."""
    found = of(summary, step_ns, peak_flops)
    if found is None:
        return []
    share_of = f", {share(found.utilisation)} of its peak (MFU)" if peak_flops else ""
    lines = [f"{found.samples:,.1f} samples/s, {operations(found.flops)}/s an NPU{share_of}"]
    if found.is_optimistic:
        lines.append("more than kernels reach: give the NPU's efficiencies (npu.compute.efficiency, docs/compute.md)")
    return lines


def _parts(summary: Summary, workload: Workload) -> Iterator[RenderableType]:
    yield Text(summary.model, "bold green").append(
        f"  {summary.family}, {counted(summary.ranks, 'rank')}, {counted(workload.programs, 'program')}", "default"
    )
    yield from _facts(summary)
    kinds = _merged(summary.classes)
    yield from _heading("Operations of a rank in a step, and its peak memory")
    yield Padding(_memory(kinds), (0, 0, 0, 2))
    if any(item.volumes for _, _, item in kinds):
        yield from _heading("What a rank hands to collectives in a step")
        yield Padding(_volumes(kinds), (0, 0, 0, 2))
    for note in summary.notes:
        yield Text("note: ", "bold yellow").append(note, "default")


def _facts(summary: Summary) -> Iterator[RenderableType]:
    active = summary.active_parameters
    extra = f", {number(active)} active" if active != summary.parameters else ""
    yield Text(f"  parameters   {number(summary.parameters)}{extra}")
    hardware = summary.hardware_flops
    more = f", {operations(hardware)} with recomputation" if hardware != summary.flops else ""
    yield Text(f"  operations   {operations(summary.flops)} a step{more}")
    yield Text(f"  batch        {number(summary.batch)} samples a step")
    if summary.bubble:
        yield Text(f"  bubble       {share(summary.bubble)} of a step")


def _merged(classes: Sequence[RankClass]) -> list[tuple[str, int, RankClass]]:
    """Neighbours that do and keep the same as one: name, ranks, one of them."""

    def what(item: RankClass) -> tuple[object, ...]:
        return (item.operations, item.volumes, item.memory)

    rows = []
    for _, run in groupby(classes, what):
        same = list(run)
        name = same[0].name if len(same) == 1 else f"{same[0].name} ... {same[-1].name}"
        rows.append((name, sum(item.ranks for item in same), same[0]))
    return rows


def _memory(kinds: Sequence[tuple[str, int, RankClass]]) -> Table:
    table = _table("Ranks", "NPUs", "Operations", "Weights", "Gradients", "Optimizer", "Activ.", "Temp.", "Memory")
    for name, ranks, item in kinds[:_CLASSES]:
        kept = item.memory
        parts = (kept.weights, kept.gradients, kept.optimizer, kept.activations, kept.temporary, kept.total)
        table.add_row(name, number(ranks), operations(item.operations), *(size(part) for part in parts))
    return table


def _volumes(kinds: Sequence[tuple[str, int, RankClass]]) -> Table:
    table = _table("Ranks", "Group", "Kind", "Count", "Bytes")
    for name, _, item in kinds[:_CLASSES]:
        for i, volume in enumerate(item.volumes):
            group = volume.group or ("" if volume.kind == "send" else "all")
            table.add_row("" if i else name, group, volume.kind, number(volume.count), size(volume.bytes))
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    left = {"Ranks", "Group", "Kind"}
    for head in heads:
        table.add_column(head, justify="left" if head in left else "right", no_wrap=True)
    return table


def _heading(text: str) -> Iterator[RenderableType]:
    yield ""
    yield Text(text, "bold")
