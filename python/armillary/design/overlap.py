"""How much of its communication a workload hides: measured, once a workload, by simulating it.

Groups whose members differ along the same ranks' axes form a cluster. On a network whose dimensions
are just these axes, all switches, a cluster's dimensions get a bandwidth and all others carry
anything at once; latencies are 0. The step is simulated with a few bandwidths. Step time less
compute against the time `t` of the cluster's collectives, as the model has it, is convex for what a
fixed order can hide: it grows slowly while there is computation to hide it, then as `t` itself. Its
chords are the lines of `phi` (`build.Cluster`).

On a topology clusters may share dimensions. How much they hold one another up there is measured on
one switch for all ranks: what a step takes beyond compute and the clusters' `phi`, over the time of
all clusters but the most exposed one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..api import simulate
from ..estimate import traffic
from ..estimate.terms import Cluster, Job, Timing, busiest, step_model
from ..estimate.topology import MOST_DIMENSIONS, StackDimension, Topology
from ..estimate.traffic import GroupVolume
from ..platform import Platform
from ..units import GB, NS_PER_S
from ..workload import Workload
from .timing import pace

Progress = Callable[[float], None]
_AMPLE = "1000000 TB/s"
_POINTS = (0.02, 0.06, 0.12, 0.2, 0.3, 0.45, 0.7, 1.0, 2.0, 5.0)
"""Times of the communication over compute at which the step is simulated."""
_CROWDS = (0.2, 0.45, 0.7)
_FLAT = {"scheduler.endpoint_delay": "0 ns"}


def job(
    name: str,
    workload: Workload,
    settings: Mapping[str, object],
    *,
    weight: float = 1.0,
    limit: float | None = None,
    measured: bool = True,
    progress: Progress | None = None,
) -> Job:
    """A workload with its compute time and, if `measured`, what it hides; `settings` are keys of a
    platform file.

    Raises `InputError` for a workload that can't run, `StalledError`.
    """
    report = progress or (lambda _: None)
    volumes = busiest(traffic.volumes(workload))
    own = axes(volumes, workload.ranks)
    network = str(own or f"SW({max(workload.ranks, 2)})")
    ideal = Platform(network, bandwidth=_AMPLE, latency="0 ns", settings={**settings, **_FLAT})
    plain = Job(name, workload, volumes, _seconds(workload, ideal), weight=weight, limit=limit)
    if not measured or own is None:
        return plain
    clusters = _clusters(volumes, own.sizes)
    found = []
    for index, groups in enumerate(clusters):
        report(index / len(clusters))
        found.append(_measured(plain, settings, own, groups))
    exposed = sorted(found, key=lambda each: -each.lines[0][0])
    made = replace(plain, clusters=tuple(exposed))
    return replace(made, crowding=_crowding(made, settings)) if len(exposed) > 1 else made


def _crowding(made: Job, settings: Mapping[str, object]) -> float:
    """The mean over a few bandwidths of a switch that all ranks share."""
    net = Topology((StackDimension("Switch", made.workload.ranks),))
    chunks, _, reduction = pace({**settings, **_FLAT}, made.workload.ranks)
    model = step_model(made, net, Timing(chunks, (0.0,), 0.0, reduction))
    unit = 0.0 if model is None else model.communication([GB])
    if model is None or unit == 0 or made.compute == 0:
        return 0.0
    later = [g for g, name in enumerate(model.terms) if not _of(made.clusters[0], name)]
    found = []
    for share in _CROWDS:
        bandwidth = int(GB * unit / (share * made.compute)) or 1
        platform = Platform(
            str(net), bandwidth=f"{bandwidth} B/s", latency="0 ns", settings={**settings, **_FLAT}
        )
        beyond = _seconds(made.workload, platform) - model.time([float(bandwidth)])
        held = float(model.term_times([float(bandwidth)])[later].sum())
        found.append(max(0.0, beyond) / held if held else 0.0)
    return min(1.0, sum(found) / len(found))


def _of(cluster: Cluster, term: str) -> bool:
    """Whether a term is of one of the cluster's groups."""
    return any(term == group or term.startswith(f"{group} ") for group in cluster.groups)


def _seconds(workload: Workload, platform: Platform) -> float:
    return simulate(workload, platform).step_time_ns / NS_PER_S


def axes(volumes: Sequence[GroupVolume], ranks: int) -> Topology | None:
    """The axes of the groups as dimensions; nothing where there are none, too many, or they are not
    axes.

    The distance of messages is a mark of its own where it fits between those of the groups.
    """
    collectives = [each for each in volumes if each.kind != "send"]
    if any(each.members.step == 0 for each in collectives):
        return None
    marks = {1, ranks} | {each.members.step for each in collectives}
    marks |= {each.members.step * each.members.count for each in collectives}
    apart = math.gcd(
        *(
            abs(last - first)
            for first, last in (each.members.ends for each in volumes if each not in collectives)
        )
    )
    found = _stack(marks | {apart}) if apart else None
    found = found or _stack(marks)
    if found is None or not all(
        traffic.spans(each, found.sizes) for each in volumes if each.members.count > 1
    ):
        return None
    return found


def _stack(marks: set[int]) -> Topology | None:
    """Switches between neighbouring marks; nothing where one mark does not divide the next."""
    ratios = [b // a if b % a == 0 else 0 for a, b in itertools.pairwise(sorted(marks))]
    if not 1 <= len(ratios) <= MOST_DIMENSIONS or 0 in ratios:
        return None
    return Topology(tuple(StackDimension("Switch", each) for each in ratios))


def _clusters(
    volumes: Sequence[GroupVolume], sizes: Sequence[int]
) -> list[tuple[set[str], set[int]]]:
    """Groups that share a dimension, with the dimensions they are on."""
    found: list[tuple[set[str], set[int]]] = []
    for each in volumes:
        dims = {span[0] for span in traffic.spans(each, sizes) or ()}
        if not dims:
            continue
        names = {each.group}
        for other in [other for other in found if other[1] & dims or other[0] & names]:
            found.remove(other)
            names, dims = names | other[0], dims | other[1]
        found.append((names, dims))
    return found


def _measured(
    plain: Job, settings: Mapping[str, object], axes: Topology, cluster: tuple[set[str], set[int]]
) -> Cluster:
    """Simulates the step with more and more communication in one cluster."""
    names, dims = cluster
    own = replace(plain, volumes=tuple(each for each in plain.volumes if each.group in names))
    chunks, _, reduction = pace({**settings, **_FLAT}, plain.workload.ranks)
    timing = Timing(chunks, (0.0,) * len(axes), 0.0, reduction)
    model = step_model(own, axes, timing)
    unit = model.communication([GB] * len(axes)) if model is not None else 0.0
    if model is None or unit == 0 or plain.compute == 0:
        return Cluster(tuple(sorted(names)))
    points = [(0.0, 0.0)]
    for share in _POINTS:
        bandwidth = int(GB * unit / (share * plain.compute)) or 1
        given = [f"{bandwidth} B/s" if d in dims else _AMPLE for d in range(len(axes))]
        network = Platform(
            str(axes), bandwidth=given, latency="0 ns", settings={**settings, **_FLAT}
        )
        time = model.communication([float(bandwidth)] * len(axes))
        points.append((time, max(points[-1][1], _seconds(plain.workload, network) - plain.compute)))
    return Cluster(tuple(sorted(names)), _chords(points))


def _chords(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Slopes and offsets of the lines through neighbouring points."""
    lines = []
    for (x, y), (right, up) in itertools.pairwise(points):
        slope = (up - y) / (right - x)
        lines.append((slope, y - slope * x))
    return tuple(lines)
