"""What would help most: the same run again with one thing changed.

Derivatives: 10 % more bandwidth or less latency of each dimension, faster compute and memory, less endpoint delay.
Choices: other algorithms, hierarchies, numbers of chunks. The number of runs is bounded, and so is their time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ..errors import ArmillaryError
from ..report.page import Section, Table
from ..report.quantity import time
from ..schema import Collective, Report
from .network import dimensions
from .rows import detail

Again = Callable[[Mapping[str, str], bool], Report]
"""Runs again with some keys of the platform set; true keeps the detail. Raises `ArmillaryError`."""

MOST = 40
"""Runs at most."""
_MORE = 1.1
_LESS = 0.9
_HIERARCHIES = ("baseline", "enhanced", "hierarchical", "hierarchical_optimal")
_ALGORITHMS = ("ring", "direct", "halving_doubling")
_BY_BLOCK = {"Ring": "ring", "FullyConnected": "direct", "Switch": "halving_doubling"}


@dataclass(frozen=True)
class Change:
    """One thing changed: what, the keys of the platform, and whether it is a derivative (by a tenth) or a choice."""

    what: str
    settings: Mapping[str, str]
    derivative: bool


@dataclass(frozen=True)
class Effect:
    """What a change would do to the step, and to the operation that was asked for, ns."""

    change: Change
    step_ns: float
    operation_ns: float | None

    def as_dict(self, now: float) -> dict[str, Any]:
        """For JSON; `elasticity` is the relative gain for the relative change of a derivative."""
        gain = now - self.step_ns
        share = gain / now if now else 0.0
        return {
            "change": self.change.what,
            "settings": dict(self.change.settings),
            "derivative": self.change.derivative,
            "step_ns": self.step_ns,
            "operation_ns": self.operation_ns,
            "gain_ns": gain,
            "elasticity": share / 0.1 if self.change.derivative else None,
        }


@dataclass(frozen=True)
class WhatIf:
    """Effects, the largest gain first, and why there are no more."""

    effects: Sequence[Effect]
    left_out: Sequence[str]


def effects(
    report: Report,
    again: Again | str,
    row: Collective | None = None,
    seconds: float = 20.0,
    progress: Callable[[float, float], None] | None = None,
) -> WhatIf:
    """Runs again for every change that applies, for about `seconds`; `again` is text where it can't be, and why.

    With `row` the changes are those that touch it, and its own time is told too.
    """
    if isinstance(again, str):
        return WhatIf([], [again])
    wanted = list(changes(report, row))
    found, left_out = [], [f"{len(wanted) - MOST} more changes: {MOST} are the most"] if len(wanted) > MOST else []
    begin = monotonic()
    for done, change in enumerate(wanted[:MOST]):
        if done and monotonic() - begin > seconds:
            left_out.append(f"{min(len(wanted), MOST) - done} changes, for the others took {monotonic() - begin:.0f} s")
            break
        if progress:
            progress(done / min(len(wanted), MOST), 0.0)
        try:
            found.append(_effect(change, again(change.settings, row is not None), row))
        except ArmillaryError as error:
            left_out.append(f"{change.what}: {error.problems[0].message}")
    return WhatIf(sorted(found, key=lambda effect: _key(effect, row)), left_out)


def _key(effect: Effect, row: Collective | None) -> float:
    return effect.operation_ns if row is not None and effect.operation_ns is not None else effect.step_ns


def _effect(change: Change, report: Report, row: Collective | None) -> Effect:
    if row is None:
        return Effect(change, report["step_time_ns"], None)
    same = [other for other in detail(report)["collectives"] if same_operation(other, row)]
    return Effect(change, report["step_time_ns"], same[0]["mean_ns"] if same else None)


def same_operation(a: Collective, b: Collective) -> bool:
    """Whether two rows, of two runs, are of the same operation."""
    return all(a[key] == b[key] for key in ("name", "kind", "bytes", "ranks"))


def changes(report: Report, row: Collective | None = None) -> Iterator[Change]:
    """What can be changed of the platform, with `row` only what touches it."""
    used = None if row is None else {phase["dim"] for phase in row["phases"]} | {t["dim"] for t in row["terms"]}
    yield from _links(report, used)
    yield from _npu(report, row)
    yield from _host(report)
    yield from _scheduler(report)
    yield from _collectives(report, row)


def _links(report: Report, used: set[int] | None) -> Iterator[Change]:
    for at, dim in enumerate(dimensions(report)):
        if dim.size > 1 and (used is None or at in used):
            key = f"links[{at}]"
            yield Change(
                f"10 % more bandwidth of {dim.name}", {f"{key}.bandwidth": f"{dim.link * _MORE:.9f} GB/s"}, True
            )
            if dim.latency_ns:
                yield Change(
                    f"10 % less latency of {dim.name}", {f"{key}.latency": f"{dim.latency_ns * _LESS:.3f} ns"}, True
                )


def _npu(report: Report, row: Collective | None) -> Iterator[Change]:
    npu = report["config"]["platform"]["npu"]
    if npu["peak_flops"] and row is None:
        yield Change("10 % faster compute", {"npu.peak": f"{npu['peak_flops'] * _MORE / 1e12:.12f} TFLOPS"}, True)
    if npu["memory_bandwidth"]:
        value = f"{npu['memory_bandwidth'] * _MORE / 1e9:.9f} GB/s"
        yield Change("10 % faster memory", {"npu.memory.bandwidth": value}, True)


def _host(report: Report) -> Iterator[Change]:
    """Without its launches, where they are waited for; the NPU does what it did."""
    if any(each["exposed_launch_ns"] for each in report["classes"]):
        yield Change("launches that take no time, as of a CUDA graph", {"npu.launch": "0 ns"}, False)


def _scheduler(report: Report) -> Iterator[Change]:
    scheduler = report["config"]["platform"]["scheduler"]
    if delay := scheduler["endpoint_delay_ps"]:
        yield Change("10 % less endpoint delay", {"scheduler.endpoint_delay": f"{delay * _LESS / 1e3:.3f} ns"}, True)
    if not any(row["kind"] != "send" for row in detail(report)["collectives"]):
        return
    chunks, active = scheduler["chunks"], scheduler["active_chunks"]
    for count in (2 * chunks, chunks // 2):
        if count:
            yield Change(f"{count} chunks instead of {chunks}", {"scheduler.chunks": str(count)}, False)
    if chunks > active:
        yield Change(
            f"{2 * active} active chunks instead of {active}", {"scheduler.active_chunks": str(2 * active)}, False
        )


def _collectives(report: Report, row: Collective | None) -> Iterator[Change]:
    rows = [row] if row is not None else detail(report)["collectives"]
    kinds = {each["kind"]: each for each in reversed(rows) if each["phases"]}
    dims = {phase["dim"] for each in kinds.values() for phase in each["phases"]}
    chosen = report["config"]["platform"]["hierarchy"]
    if "all_reduce" in kinds and len(dims) > 1 and not report["config"]["platform"]["library"]:
        for hierarchy in _HIERARCHIES:
            if hierarchy != chosen:
                yield Change(f"hierarchy {hierarchy} instead of {chosen}", {"collectives.hierarchy": hierarchy}, False)
    for kind, each in kinds.items():
        yield from _algorithms(report, kind, each)


def _algorithms(report: Report, kind: str, row: Collective) -> Iterator[Change]:
    """Each dimension's algorithm exchanged for the others; none from a file, of a library or of a flat group."""
    network = dimensions(report)
    choice = report["config"]["platform"]["collectives"][kind]
    if not network or choice["flat"] or choice["custom"] or report["config"]["platform"]["library"]:
        return
    now = {phase["dim"]: phase["algorithm"].replace("-", "_").replace(" ", "_") for phase in row["phases"]}
    words = choice["algorithms"] or [now.get(at, _BY_BLOCK.get(dim.block, "ring")) for at, dim in enumerate(network)]
    words = [*words, *words[-1:] * (len(network) - len(words))]
    for at in sorted(now):
        for word in _ALGORITHMS:
            if word not in (now[at], words[at]):
                listed = ", ".join([*words[:at], word, *words[at + 1 :]])
                what = f"{word} instead of {words[at]} for {kind} on {network[at].name}"
                yield Change(what, {f"collectives.{kind}": f"[{listed}]"}, False)


def section(report: Report, found: WhatIf, row: Collective | None) -> Section:
    """What is told of it."""
    now = row["mean_ns"] if row is not None else report["step_time_ns"]
    rows = [_row(effect, report, row) for effect in found.effects]
    told: list[str | Table] = []
    better = [effect for effect in found.effects if _key(effect, row) < now * (1 - 1e-6)]
    best, slope = next(iter(better), None), next((effect for effect in better if effect.change.derivative), None)
    if slope is not None:
        told.append(f"Of changes by a tenth, what helps most is {_said(slope, row, now)}.")
    if best is not None and best is not slope:
        told.append(f"What helps most of all is {_said(best, row, now)}.")
    if found.effects and best is None:
        told.append("None of these changes makes it faster.")
    told += [f"Left out: {reason}." for reason in found.left_out]
    if rows:
        columns = ("Change", *(("This operation", "") if row is not None else ()), "Step", "")
        told.append(Table("One change at a time, simulated again", columns, rows))
    return Section("What would help", told)


def _said(effect: Effect, row: Collective | None, now: float) -> str:
    new = _key(effect, row)
    return f"{effect.change.what}: {time(new)} instead of {time(now)} ({_percent(new, now)})"


def _row(effect: Effect, report: Report, row: Collective | None) -> tuple[str, ...]:
    step = (time(effect.step_ns), _percent(effect.step_ns, report["step_time_ns"]))
    if row is None:
        return (effect.change.what, *step)
    own = (
        ("-", "")
        if effect.operation_ns is None
        else (time(effect.operation_ns), _percent(effect.operation_ns, row["mean_ns"]))
    )
    return (effect.change.what, *own, *step)


def _percent(new: float, old: float) -> str:
    return f"{(new / old - 1) * 100:+.2f} %" if old else ""
