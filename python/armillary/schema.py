"""The form of a report, `armillary.report/1`, as types. The truth is `crates/stats/src/lib.rs`; a
test compares them.

Times end in `_ns`, bytes are bytes, shares are 0..1. Whole numbers have 64 bits, `Large` ones 128:
sums over all ranks."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypedDict

Large: TypeAlias = Annotated[int, "128 bits"]
"""A whole number that can exceed 64 bits."""


class Class(TypedDict):
    """Ranks that behave alike; `label` is their generator's. Compute, exposed parts and idle sum to
    the step time."""

    label: str
    ranks: str
    count: int
    program: int
    finish_ns: float
    compute_ns: float
    exposed_comm_ns: float
    exposed_remote_ns: float
    exposed_local_ns: float
    exposed_launch_ns: float
    exposed_host_ns: float
    idle_ns: float
    comm_ns: float
    peak_memory_bytes: int
    finish_minus_compute_ns: float


class Symmetry(TypedDict):
    """Sets of ranks that must behave alike, and what sets ranks apart; the same whether the run was
    folded or not."""

    classes: int
    reason: str


class Bounds(TypedDict):
    """Times below which the bytes sent cannot come: as they lie on the dimensions, and moved so
    that all are busy."""

    dimension_ns: float
    network_ns: float


class Dimension(TypedDict):
    """One network dimension."""

    name: str
    link_gb_per_s: float
    npu_gb_per_s: float
    usable_gb_per_s: float
    bytes: Large
    utilisation: float
    bound_ns: float
    busy_ns: float


class Phase(TypedDict):
    """One phase position of multi-phase collectives."""

    name: str
    count: Large
    queue_ns: float
    network_ns: float


class Operation(TypedDict):
    """Operations of one kind whose names differ in numbers only, over all ranks.

    `cost_ns` is the time charged to them: each moment of a rank goes to one operation. `total_ns`
    sums durations."""

    name: str
    kind: str
    count: Large
    cost_ns: float
    total_ns: float
    max_ns: float
    bytes: Large
    flops: Large
    compute_bytes: Large


class Link(TypedDict):
    """Links used alike, the busiest first (link backend): name of the first, how many, and the
    numbers of each."""

    name: str
    count: int
    bytes: int
    busy_ns: float
    messages: int
    queue_mean_ns: float
    queue_max: int


class Counts(TypedDict):
    """Work done."""

    operations: Large
    transfers: Large


class Layer(TypedDict):
    """One layer on ranks of `rank_class`, an index into `classes`. Exposed parts sum over the
    layers to the class's."""

    rank_class: int
    layer: str
    compute_ns: float
    comm_ns: float
    exposed_comm_ns: float
    remote_ns: float
    exposed_remote_ns: float
    local_ns: float
    exposed_local_ns: float
    exposed_launch_ns: float
    host_ns: float
    exposed_host_ns: float


class Activity(TypedDict):
    """Activity over time, a number a bin: shares of NPUs (0..1), and chunks in queues of the mean
    NPU."""

    compute: list[float]
    communication: list[float]
    remote: list[float]
    local: list[float]
    launch: list[float]
    host: list[float]
    dimensions: list[list[float]]
    waiting: list[list[float]]


class GanttBar(TypedDict):
    """A stretch of time: a pass of a micro-batch (`label`), or what the rank did or waited for in a
    layer."""

    start_ns: float
    end_ns: float
    kind: str
    label: str


class GanttLane(TypedDict):
    """What the first rank of `rank_class`, an index into `classes`, does over time; gaps are idle
    time."""

    rank_class: int
    label: str
    bars: list[GanttBar]


class HeldMemory(TypedDict):
    """Memory of an NPU of `rank_class`, an index into `classes`: the most that it holds within each
    bin, bytes."""

    rank_class: int
    bytes: list[int]


class PathSeries(TypedDict):
    """One kind of operation on the critical path: its time in each bin. The kinds of a bin sum to
    its width."""

    kind: str
    ns: list[float]


class PathSegment(TypedDict):
    """A stretch of the critical path: an operation, when the path comes to it and leaves it, and
    why it began then."""

    rank: int
    node: int
    name: str
    kind: str
    layer: str
    start_ns: float
    end_ns: float
    cause: str


class PathPart(TypedDict):
    """Segments of the critical path by kind, layer or cause: how many, and their time."""

    name: str
    count: int
    ns: float


class PathOperation(TypedDict):
    """Operations of one kind and name (a star a number in it) on the critical path; why most of it
    began then."""

    name: str
    kind: str
    count: int
    ns: float
    cause: str


class CriticalPath(TypedDict):
    """Operations without a gap from the beginning of the step to its end: the longest segments, and
    sums of all."""

    count: int
    segments: list[PathSegment]
    over_time: list[PathSeries]
    by_kind: list[PathPart]
    by_layer: list[PathPart]
    by_cause: list[PathPart]
    by_operation: list[PathOperation]


class CollectivePhase(TypedDict):
    """One phase of a full chunk: on which dimension, what, how, over how many, what the mean
    position sends."""

    dim: int
    name: str
    kind: str
    algorithm: str
    ranks: int
    sends: float
    sent_bytes: float


class CollectiveTerms(TypedDict):
    """What the mean time of a collective is made of on one dimension; means of counts are
    fractions."""

    dim: int
    messages: float
    bytes: float
    latency_ns: float
    transfer_ns: float
    port_ns: float
    endpoint_ns: float
    reduction_ns: float
    contention_ns: float
    congestion_ns: float
    queue_ns: float
    algorithm_ns: float


class Collective(TypedDict):
    """Collectives or sends of one name, kind and size: `late_ns - ahead_ns` and all terms sum to
    `mean_ns`."""

    name: str
    kind: str
    bytes: int
    ranks: int
    chunks: int
    count: Large
    nodes: list[int]
    mean_ns: float
    max_ns: float
    late_ns: float
    ahead_ns: float
    phases: list[CollectivePhase]
    terms: list[CollectiveTerms]
    behind: list[PathPart]


class Detail(TypedDict):
    """What takes a log of the run to tell."""

    layers: list[Layer]
    bin_ns: float
    activity: Activity
    gantt: list[GanttLane]
    memory: list[HeldMemory]
    critical_path: CriticalPath
    collectives: list[Collective]


class Report(TypedDict):
    """A report."""

    schema: str
    version: str
    config: dict[str, Any]
    seed: int
    digest: str
    warnings: list[str]
    assumptions: list[str]
    step_time_ns: float
    ranks: int
    classes: list[Class]
    symmetry: Symmetry
    bounds: Bounds
    dimensions: list[Dimension]
    phases: list[Phase]
    operations: list[Operation]
    links: list[Link]
    counts: Counts
    detail: Detail | None
