"""Notes on an import that a user must know, as sentences with numbers. The workload's summary
contains them.

Here: what was assumed, inferred, left out; bounds of an extrapolation. Not here: the counts
(`coverage.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from ...units import PS_PER_MS, counted
from . import one_rank
from .agreement import Agreed, Placed
from .coverage import Coverage
from .one_rank import Analysed
from .ranks import RecordedRun
from .spread import Spread

_NOTABLE = 0.05
_MANY = 4
"""Ranks from which on a note on all of them is said once."""


def recorded_notes(
    run: RecordedRun, ranks: Sequence[Analysed], agreed: Agreed, covered: Sequence[Coverage]
) -> list[str]:
    """About the recorded ranks."""
    notes = _for_each(ranks)
    assumed = sum(sum(rank.resolver.assumed.values()) for rank in ranks)
    if assumed and run.world > 1:
        notes.append(
            f"{assumed} calls in groups without recorded members are assumed to involve all "
            f"{counted(run.world, 'rank')}"
        )
    if agreed.uneven:
        worst = max(agreed.uneven, key=lambda entry: entry.most / max(1, entry.least))
        notes.append(
            f"{len(agreed.uneven)} collectives are uneven across ranks: each rank gets the mean, "
            "which keeps the total "
            f"(widest: {worst.kind}, {worst.least:,} to {worst.most:,} bytes, mean {worst.mean:,})"
        )
    if agreed.borrowed:
        notes.append(
            f"{agreed.borrowed} calls without a size take the size of the same call on another rank"
        )
    unsized = sum(entry.collectives - entry.sized for entry in covered)
    if unsized:
        time = sum(
            p.time_ps
            for entry in covered
            for p in entry.omissions
            if p.what.startswith("communication")
        )
        notes.append(
            f"{unsized} of {sum(entry.collectives for entry in covered)} communication kernels "
            f"({time / PS_PER_MS:,.3f} ms) have no recorded size and become barriers that move "
            "nothing; only a replay (scheduler.replay_only) gives them time"
        )
    idle = sum(
        p.time_ps for entry in covered for p in entry.omissions if p.what.startswith("idling")
    )
    whole = sum(entry.recorded_ps for entry in covered)
    if whole and idle / whole > _NOTABLE:
        notes.append(
            f"{idle / whole:.1%} of the recorded time the device idled without a recorded cause; "
            "the durations of what came after include it, which makes what-ifs less certain"
        )
    overlapped, kernels = (
        sum(entry.overlapped_ps for entry in covered),
        sum(rank.line.kernels for rank in ranks),
    )
    if kernels and overlapped / kernels > _NOTABLE:
        notes.append(
            f"{overlapped / kernels:.1%} of the kernel time overlapped with other kernels and is "
            "counted once"
        )
    return notes


def _for_each(ranks: Sequence[Analysed]) -> list[str]:
    """Notes on single ranks; what all of many say alike is said once."""
    found: dict[str, list[str]] = {}
    for rank in ranks:
        for text in _about(rank):
            found.setdefault(text, []).append(rank.trace.file.rpartition("/")[2])
    return [
        f"{file}: {text}" if len(files) < max(_MANY, len(ranks)) else f"each rank: {text}"
        for text, files in found.items()
        for file in (files if len(files) < max(_MANY, len(ranks)) else files[:1])
    ]


def _about(rank: Analysed) -> list[str]:
    notes = []
    window, line = rank.window, rank.line
    if window.step.number < 0:
        notes.append(f"no {rank.trace.step_mark}: the whole trace is one step")
    notes += _contradictions(rank)
    if not rank.trace.device:
        notes.append(
            "no device operations: only host time and collectives count, the device takes no time"
        )
    if rank.host.nodes and rank.host.share < 0.5:
        notes.append(
            f"only {rank.host.share:.1%} of the execution trace's operators were found in the "
            "Kineto trace"
        )
    if line.dropped:
        notes.append(
            f"{len(line.dropped)} dependencies contradict the recorded order and were dropped: "
            f"{line.dropped[0]}"
        )
    if window.drift > _NOTABLE * window.step.span:
        before, after = window.lag_before / PS_PER_MS, window.lag_after / PS_PER_MS
        notes.append(
            f"not a steady step: the device lagged by {before:,.3f} ms at its begin and by "
            f"{after:,.3f} ms at its end; its time includes waits for the step before, and its "
            "replay may be shorter"
        )
    together = one_rank.overlap(rank)
    if together > _NOTABLE:
        notes.append(
            f"{together:.1%} of the host operators' time two threads were busy at once: they are "
            "replayed one after another"
        )
    devices = {op.device for op in rank.trace.device}
    if len(devices) > 1:
        notes.append(
            f"one process drives {len(devices)} devices ({', '.join(sorted(devices))}): treated as "
            "one NPU"
        )
    return notes


def _contradictions(rank: Analysed) -> list[str]:
    """About recorded times that cannot all be true."""
    trace, found, notes = rank.trace, rank.trace.contradictions, []
    device = sum(op.end - op.start for op in trace.device)
    if found.time > _NOTABLE * device:
        notes.append(
            f"{counted(found.cut.total(), 'device operation')} of {len(trace.device):,} lasted "
            f"beyond {', '.join(found.cut)}, and {'was' if found.cut.total() == 1 else 'were'} cut "
            f"there: {found.time / PS_PER_MS:,.3f} ms less, most of {found.longest[:80]!r}"
        )
    if found.early > _NOTABLE * len(trace.device):
        notes.append(
            f"{found.early:,} of {len(trace.device):,} device operations begin before the call "
            "that launched them: the clocks of host and device differ, and launches explain less"
        )
    if found.crossing > _NOTABLE * len(trace.ops):
        notes.append(
            f"{found.crossing:,} of {len(trace.ops):,} host operators cross another one of their "
            "thread: they begin within it and end after it"
        )
    return notes


def spread_notes(
    plan: Spread, placed: dict[int, list[Placed]], covered: Sequence[Coverage]
) -> list[str]:
    """About ranks that were not recorded."""
    notes = []
    if len(plan.recorded) < plan.world:
        notes.append(
            f"{len(plan.recorded)} of {plan.world} ranks were recorded; the others repeat them "
            f"(rank r that of index r mod {len(plan.recorded)})"
        )
    if plan.grows:
        notes += _growth(plan, placed, covered)
    return notes


def _growth(
    plan: Spread, placed: dict[int, list[Placed]], covered: Sequence[Coverage]
) -> list[str]:
    found = {
        (entry.members, entry.call.kind): plan.extent(rank, entry.members, entry.call.kind)
        for rank, calls in placed.items()
        for entry in calls
    }
    extents = {(extent, kind) for (_, kind), extent in found.items()}
    grown = {entry for entry in extents if entry[0].grown}
    notes = [
        f"{plan.ranks} ranks are {plan.ranks // plan.world} copies of the {plan.world} of the run, "
        f"joined by {len(grown)} of {len(extents)} kinds of groups that grow; batch and work of a "
        "rank stay (weak scaling)"
    ]
    if not grown:
        notes.append(
            "no group grows: the copies do not communicate, so the step takes as long as that of "
            "one copy"
        )
    if any(kind == "all_to_all" for _, kind in grown):
        notes.append(
            "all-to-alls go to all ranks with a rank's bytes unchanged: tables or experts spread "
            "over all ranks"
        )
    times = sorted(entry.recorded_ps for entry in covered)
    if times:
        notes.append(
            f"recorded steps take {times[0] / PS_PER_MS:,.3f} to {times[-1] / PS_PER_MS:,.3f} ms; "
            "every copy repeats one of them: stragglers among ranks that were not recorded are "
            "missing, so the step of more ranks is a lower bound"
        )
    return notes
