"""Collectives on what a fit has not seen: other sizes, collectives, sweeps, sources and scales of
the same hardware.

Every fit is `calibrate`'s, from the same round values (`BEGIN`) and never from a preset's, which
were fitted to all of these. These are held out: every second size of a sweep; other collectives
than all-reduce of a machine; each of several sweeps on the same hardware, and all sweeps of a
source, in the bands that the others have; and larger numbers of nodes than two or eight. The rest
is fitted. Hardware is the same where the GPUs are of a generation within a node, and where the
preset is the same between nodes. Several hosts of a rack are not the same as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from armillary.calibrate import Case, Fit, MeasuredTable, fit
from armillary.calibrate.case import parameters
from armillary.platform import Platform
from armillary.uncertainty.collectives import network

from ..measured.sweeps import BANDS, SEND, Error, MeasuredSweep, band, by_band, percent, sweeps
from ..study import StudyRow, limit
from . import without_a_model

AFTER = (10.0, 8.0, 3.0)
"""Allowed errors of an all-reduce in each band after calibration, percent; other collectives 1.5
times that."""

FAMILY = {
    "H200": "H100",
    "GB200": "B200",
    "GB300": "B200",
    "B300": "B200",
    "MI325X": "MI300X",
    "MI350X": "MI355X",
}
"""GPUs whose nodes are alike to a library."""

BEGIN = {
    "call_overhead": 20.0,
    "node.efficiency": 0.8,
    "node.ramp_up": 0.2,
    "node.step_latency[0]": 0.6,
    "node.step_latency[1]": 1.9,
    "node.step_latency[2]": 3.4,
    "node.simple_overhead": 10.0,
    "node.ll_efficiency[0]": 0.25,
    "node.ll_efficiency[1]": 0.92,
    "node.tree_efficiency": 0.8,
    "node.peer_latency": 2.0,
    "node.all_to_all_efficiency": 0.75,
    "node.ll_peer.latency": 2.0,
    "node.ll_peer.efficiency": 0.02,
    "node.hosts.efficiency": 0.8,
    "node.hosts.step_latency[0]": 0.6,
    "node.hosts.step_latency[1]": 1.9,
    "node.hosts.step_latency[2]": 3.4,
    "nvls.efficiency": 0.65,
    "nvls.latency": 60.0,
    "network.efficiency": 0.85,
    "network.step_latency[0]": 2.7,
    "network.step_latency[1]": 4.0,
    "network.step_latency[2]": 14.0,
    "network.tree_level_latency[0]": 5.0,
    "network.tree_level_latency[1]": 8.5,
    "network.tree_level_latency[2]": 14.0,
    "network.step_interval": 1.5,
    "network.ll_efficiency[0]": 0.05,
    "network.ll_efficiency[1]": 0.92,
    "network.tree_efficiency": 0.9,
    "network.two_node_tree_efficiency": 0.9,
    "network.peer_latency": 5.0,
    "network.all_to_all_efficiency": 0.8,
    "network.inline.peer_latency": 5.0,
}
"""Where fits begin. Steps and levels are NCCL's own constants (NVIDIA/nccl@5067397c
src/graph/tuning.cc line 149)."""

_LEAST = 6
"""Fewest sizes of a sweep that is cut in two."""


@cache
def _platform(preset: str, settings: tuple[tuple[str, str], ...]) -> Platform:
    return Platform.load(preset, dict(settings))


@cache
def _keys(preset: str) -> frozenset[str]:
    return frozenset(parameters(Platform.load(preset)))


def _case(sweep: MeasuredSweep, points: Sequence[tuple[int, float]] | None = None) -> Case:
    chosen = sweep.points if points is None else tuple(points)
    return Case(
        MeasuredTable(sweep.name, sweep.collective, sweep.gpus, chosen),
        _platform(sweep.preset, sweep.settings),
    )


def _nodes(sweep: MeasuredSweep) -> int:
    """Nodes as a library sees them: a rack whose GPUs share a switch is one."""
    return _case(sweep).place[1]


def _learn(cases: Sequence[Case], rooms: Sequence[str]) -> Fit:
    """A fit of the parameters in `rooms` that all platforms have."""
    common = frozenset.intersection(*(frozenset(parameters(case.platform)) for case in cases))
    keys = {f"library.{key}": value for key, value in BEGIN.items() if key.split(".")[0] in rooms}
    return fit("", cases, {key: value for key, value in keys.items() if key in common})


def _try(
    sweep: MeasuredSweep, learnt: Fit, points: Sequence[tuple[int, float]] | None = None
) -> list[Error]:
    """Errors of what was learnt on a sweep, or on some of its points; with corrections where it was
    measured before."""
    case = _case(sweep, points)
    made = zip(case.table.points, learnt.times(case), strict=True)
    return by_band(sweep, ((size, abs(math.log(ours / us))) for (size, us), ours in made))


def _fair() -> list[MeasuredSweep]:
    return [sweep for sweep in sweeps() if sweep.fair and sweep.collective != SEND]


ALL = ("call_overhead", "node", "nvls", "network")
SCALES = (2, 8)
"""Nodes that are fitted before more are tried."""


def other_sizes() -> list[Error]:
    """Every second size of a sweep, from the others; both ways round."""
    return [error for sweep in _halved() for error in _halves(sweep)]


def _halved() -> list[MeasuredSweep]:
    return [sweep for sweep in _fair() if len(sweep.points) >= _LEAST]


def _halves(sweep: MeasuredSweep) -> Iterator[Error]:
    for first in (0, 1):
        learnt = _learn([_case(sweep, sweep.points[first::2])], ALL)
        yield from _try(sweep, learnt, sweep.points[1 - first :: 2])


def other_collectives() -> list[Error]:
    """Collectives of a machine from its all-reduces."""
    machines: dict[tuple[object, ...], list[MeasuredSweep]] = {}
    for sweep in _fair():
        machines.setdefault((sweep.repository, sweep.preset, sweep.settings), []).append(sweep)
    return [error for machine in machines.values() for error in _from_reduced(machine)]


def _from_reduced(machine: Sequence[MeasuredSweep]) -> Iterator[Error]:
    reduced = [sweep for sweep in machine if sweep.collective == "all_reduce"]
    rings = [sweep for sweep in machine if sweep.collective not in ("all_reduce", "all_to_all")]
    if reduced and rings:
        learnt = _learn([_case(sweep) for sweep in reduced], ALL)
        for sweep in rings:
            yield from _try(sweep, learnt)


def _hardware(sweep: MeasuredSweep) -> tuple[str, tuple[str, ...]]:
    """Key of equal hardware, and the parameters that a fit learns of it: between nodes the network,
    else the node."""
    if _nodes(sweep) > 1:
        return sweep.preset, ("call_overhead", "network", "nvls")
    gpus = FAMILY.get(sweep.gpu, sweep.gpu)
    hosts = "library.node.hosts.efficiency" in _keys(sweep.preset) and sweep.nodes > 1
    return f"{gpus}, hosts" if hosts else gpus, ("call_overhead", "node", "nvls")


def _without(part: Callable[[MeasuredSweep], object]) -> list[Error]:
    """Sweeps that are partly left out and predicted from the others of the same hardware."""
    groups: dict[tuple[str, tuple[str, ...]], list[MeasuredSweep]] = {}
    for sweep in _fair():
        groups.setdefault(_hardware(sweep), []).append(sweep)
    found: list[Error] = []
    for (_, rooms), group in groups.items():
        for left in dict.fromkeys(map(part, group)):
            others = [sweep for sweep in group if part(sweep) != left]
            kinds = {sweep.collective == "all_to_all" for sweep in others}
            tried = [
                s for s in group if part(s) == left and (s.collective == "all_to_all") in kinds
            ]
            if others and tried:
                learnt = _learn([_case(sweep) for sweep in others], rooms)
                seen = {band(size) for sweep in others for size, _ in sweep.points}
                found += [
                    error for sweep in tried for error in _try(sweep, learnt) if error.band in seen
                ]
    return found


def other_sweeps() -> list[Error]:
    """Each sweep from the others of the same hardware."""
    return _without(lambda sweep: sweep.name)


def other_sources() -> list[Error]:
    """All sweeps of a source (a repository) from those of others on the same hardware."""
    return _without(lambda sweep: sweep.repository)


def other_scales(most: int) -> list[Error]:
    """Sweeps over more than `most` nodes from those over at most `most` of the same machine."""
    machines: dict[str, list[MeasuredSweep]] = {}
    for sweep in _fair():
        if _nodes(sweep) > 1:
            machines.setdefault(sweep.preset, []).append(sweep)
    return [error for machine in machines.values() for error in _scaled(machine, most)]


def _scaled(machine: Sequence[MeasuredSweep], most: int) -> Iterator[Error]:
    small = [sweep for sweep in machine if _nodes(sweep) <= most]
    kinds = {sweep.collective for sweep in small}
    large = [sweep for sweep in machine if _nodes(sweep) > most and sweep.collective in kinds]
    if large and any(_nodes(sweep) == most for sweep in small):
        learnt = _learn([_case(sweep) for sweep in small], ("call_overhead", "network", "nvls"))
        for sweep in large:
            yield from _try(sweep, learnt)


def rows() -> list[StudyRow]:
    """All of these, by collective and band; scales machine by machine."""
    return list(_rows())


def _rows() -> Iterator[StudyRow]:
    sizes, lines = (
        other_sizes(),
        [error for sweep in _halved() for error in without_a_model.neighbours(sweep)],
    )
    yield from _reduced_and_others("after calibration, other sizes held out", sizes, AFTER, lines)
    steady, lines = ([error for error in found if _steady(error.sweep)] for found in (sizes, lines))
    yield from _reduced_and_others(
        "the same without Slingshot and times of a profiler", steady, AFTER, lines
    )
    yield from _reduced_and_others(
        "measured twice on the same machine", without_a_model.repeated(_fair()), None
    )
    yield from _reduced_and_others("after calibration on all-reduce", other_collectives(), AFTER)
    yield from _reduced_and_others("sweep held out", other_sweeps(), None)
    yield from _reduced_and_others("source held out", other_sources(), None)
    for most in SCALES:
        yield from _scale_rows(most, other_scales(most))


def _steady(sweep: MeasuredSweep) -> bool:
    """Whether sizes can be predicted from their neighbours: not over Slingshot, nor where a
    profiler counted the waiting."""
    slingshot = network(sweep.preset) == "Slingshot"
    return not slingshot and not sweep.source.startswith("microsoft/vidur")


def _scale_rows(most: int, found: Sequence[Error]) -> Iterator[StudyRow]:
    words = f"fitted on up to {most} nodes, tried on more"
    for at, size in enumerate(BANDS):
        yield from _row(
            f"{words}: all sweeps, {size}", [error for error in found if error.band == at], None
        )
    for preset in dict.fromkeys(error.sweep.preset for error in found):
        for at, size in enumerate(BANDS):
            chosen = [error for error in found if (error.sweep.preset, error.band) == (preset, at)]
            yield from _row(f"{words}: {preset}, {size}", chosen, None)


def _reduced_and_others(
    words: str, found: Sequence[Error], most: Sequence[float] | None, lines: Sequence[Error] = ()
) -> Iterator[StudyRow]:
    for reduced, kind, times in ((True, "all_reduce", 1.0), (False, "other collectives", 1.5)):
        for at, size in enumerate(BANDS):
            chosen, neighbours = (
                [
                    e
                    for e in errors
                    if e.band == at and (e.sweep.collective == "all_reduce") is reduced
                ]
                for errors in (found, lines)
            )
            yield from _row(
                f"{words}: {kind}, {size}", chosen, most[at] * times if most else None, neighbours
            )


def _row(
    setup: str, found: Sequence[Error], most: float | None, lines: Sequence[Error] = ()
) -> Iterator[StudyRow]:
    if not found:
        return
    means = _means(found)
    worst = max(means, key=lambda sweep: means[sweep])
    ordered = sorted(means.values())
    middle = percent(ordered[(len(ordered) - 1) // 2])
    half = f"half of them up to {middle:.0f} %; " if len(ordered) > 2 else ""
    line = f"a line through the measured neighbours {_mean(_means(lines)):.1f} %; " if lines else ""
    why = f"{line}{half}worst: {worst.name}, {percent(means[worst]):.0f} %"
    reference = limit(most, "<")
    yield StudyRow(f"{setup} ({len(means)})", "analytical", reference, _mean(means), "%", why)


def _mean(means: Mapping[MeasuredSweep, float]) -> float:
    return percent(sum(means.values()) / len(means))


def _means(found: Sequence[Error]) -> Mapping[MeasuredSweep, float]:
    """Mean of the errors of each sweep."""
    logs: dict[MeasuredSweep, list[float]] = {}
    for error in found:
        logs.setdefault(error.sweep, []).append(error.log)
    return {sweep: sum(each) / len(each) for sweep, each in logs.items()}
