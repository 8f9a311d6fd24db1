"""From a workload to the model of its step on a topology.

Here: which collectives a step holds, and how their time adds to it. Not here: how the simulator is
asked about overlap (`design/overlap.py`), bytes by dimension (`traffic.py`), the formula
(`step_model.py`).

    T = compute + sum over clusters of phi(sum of the times of their collectives)

Where clusters share a dimension they hold one another up: a share `crowding` of what all but the
most exposed one send there is in series, too. `compute` is the step on a network that carries
anything at once. `phi` says how much of a cluster's communication the step is longer for: itself
where everything waits for it (the paper's model), less where computation runs at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..workload import Workload
from . import traffic
from .step_model import StepModel, StepPart, Vector
from .topology import Topology
from .traffic import GroupVolume

_SCATTERING = ("all_reduce", "reduce_scatter", "all_gather")
"""Collectives whose bytes are in the same ratio over the dimensions."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times that keep a dimension busy in addition to its bytes, and the number of chunks of a
    collective."""

    chunks: int
    latency: tuple[float, ...]
    """[D] seconds of one link."""
    endpoint: float = 0.0
    """Seconds before a phase and after each reception."""
    reduction: float = 0.0
    """Seconds to reduce a byte received."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Groups whose communication is in each other's way, and what a step is longer for it: `phi(t)
    = max slope t + offset`."""

    groups: tuple[str, ...]
    lines: tuple[tuple[float, float], ...] = ((1.0, 0.0),)
    """Slope, and offset in seconds."""


@dataclass(frozen=True, eq=False)
class Job:
    """A workload as the design problem sees it."""

    name: str
    workload: Workload
    volumes: tuple[GroupVolume, ...]
    """Bytes of the program that communicates most."""
    compute: float
    """Seconds of a step on an ideal network, a pipeline's bubble included."""
    clusters: tuple[Cluster, ...] = ()
    """Those that overlap; all other groups' communication is in series with everything."""
    crowding: float = 0.0
    """How much longer a step gets for a second that all clusters but the first spend on dimensions
    others use, too."""
    weight: float = 1.0
    limit: float | None = None
    """Longest step, s."""


def busiest(volumes: Sequence[GroupVolume]) -> tuple[GroupVolume, ...]:
    """The volumes of the program with the most bytes."""
    totals: dict[int, int] = {}
    for each in volumes:
        totals[each.program] = totals.get(each.program, 0) + each.bytes
    most = max(totals, key=lambda program: totals[program], default=0)
    return tuple(each for each in volumes if each.program == most)


def step_model(job: Job, topology: Topology, timing: Timing | None = None) -> StepModel | None:
    """The model of a step; nothing where a group lies on no grid of the topology.

    Without `timing` it is the paper's, in which only bandwidth takes time and nothing overlaps.
    """
    dims = len(topology)
    names: dict[str, int] = {}
    loads: list[Vector] = []
    fixed: list[Vector] = []
    groups: list[str] = []
    for each in job.volumes:
        spans = traffic.spans(each, topology.sizes)
        if spans is None:
            return None
        for name, some in _terms(each, spans):
            if names.setdefault(name, len(loads)) == len(loads):
                loads.append(np.zeros(dims))
                fixed.append(np.zeros(dims))
                groups.append(each.group)
            loads[names[name]] += traffic.loads(each.kind, float(each.bytes), some, topology)
            if timing is not None:
                fixed[names[name]] += _fixed(each, some, topology, timing)
    parts = _parts(job, groups, timing is not None)
    repeated = 0
    if timing is not None and job.crowding > 0:
        again = _crowded(job, groups, loads)
        repeated = len(again)
        names |= {f"{list(names)[g]} with others": len(loads) + i for i, (g, _) in enumerate(again)}
        loads += [loads[g] * shared for g, shared in again]
        fixed += [fixed[g] * shared for g, shared in again]
        counts = np.array([[0.0] * len(groups) + [job.crowding] * repeated])
        wide = [
            StepPart(each.offsets, np.pad(each.counts, ((0, 0), (0, repeated)))) for each in parts
        ]
        parts = (*wide, StepPart(np.zeros(1), counts))
    return StepModel(
        job.name,
        tuple(names),
        np.array(loads).reshape(-1, dims),
        job.compute,
        parts,
        np.array(fixed).reshape(-1, dims),
        1 / timing.chunks if timing is not None else 0.0,
        repeated,
    )


def _crowded(job: Job, groups: Sequence[str], loads: Sequence[Vector]) -> list[tuple[int, Vector]]:
    """Terms of all clusters but the first, and on which dimensions [D] other clusters are, too."""
    cluster = {group: index for index, each in enumerate(job.clusters) for group in each.groups}
    found = []
    for g, group in enumerate(groups):
        others = [
            loads[i] > 0
            for i, other in enumerate(groups)
            if cluster.get(other) != cluster.get(group)
        ]
        shared = (
            np.any(others, axis=0) & (loads[g] > 0)
            if others
            else np.zeros(len(loads[g]), dtype=bool)
        )
        if cluster.get(group, 0) > 0 and shared.any():
            found.append((g, shared.astype(float)))
    return found


def _terms(volume: GroupVolume, spans: traffic.Extents) -> list[tuple[str, traffic.Extents]]:
    """Names of a volume's terms, with the dimensions of each.

    Collectives whose bytes are in the same ratio over the dimensions share one term, others have
    their own. A message takes one dimension after another, so it has a term for each."""
    if volume.kind == "send":
        return [(f"{volume.group} send {each[0]}", (each,)) for each in spans]
    return [
        (volume.group if volume.kind in _SCATTERING else f"{volume.group} {volume.kind}", spans)
    ]


def _fixed(
    volume: GroupVolume, spans: traffic.Extents, topology: Topology, timing: Timing
) -> Vector:
    """[D] seconds that no bandwidth shortens: each chunk of each collective waits for its rounds;
    bytes are reduced."""
    chunks = volume.count * (1 if volume.kind == "send" else timing.chunks)
    waits = [
        chunks * (count * (hops * latency + timing.endpoint) + (timing.endpoint if count else 0.0))
        for (count, hops), latency in zip(
            traffic.rounds(volume.kind, spans, topology), timing.latency, strict=True
        )
    ]
    reduced = traffic.reduced(volume.kind, float(volume.bytes), spans, topology)
    return np.array(waits) + timing.reduction * np.array(reduced)


def _parts(job: Job, groups: Sequence[str], overlapping: bool) -> tuple[StepPart, ...]:
    """One part a cluster, and one for all groups that are in none."""
    clusters = job.clusters if overlapping else ()
    parts = []
    for each in clusters:
        held = np.array([1.0 if group in each.groups else 0.0 for group in groups])
        slopes, offsets = (np.array(side) for side in zip(*each.lines, strict=True))
        parts.append(StepPart(offsets, slopes[:, None] * held))
    rest = [all(group not in each.groups for each in clusters) for group in groups]
    return (
        (*parts, StepPart(np.zeros(1), np.array([rest], dtype=float)))
        if any(rest)
        else tuple(parts)
    )
