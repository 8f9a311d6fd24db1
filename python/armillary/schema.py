"""The form of a report, `armillary.report/1`, as types.

Generated from `crates/stats/src` by `make generate`; do not edit. Times end in `_ns`, bytes are
bytes, shares are 0..1. Whole numbers have 64 bits, `Large` ones 128: sums over all ranks."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypedDict

Large: TypeAlias = Annotated[int, "128 bits"]
"""A whole number that can exceed 64 bits."""


class OutsideContents(TypedDict):
    """Bytes by what they are."""

    weights_bytes: int
    """Parameters that the workload offloads."""
    gradients_bytes: int
    """Gradients that the workload offloads."""
    optimizer_bytes: int
    """Optimizer state that the workload offloads, that of tables too."""
    tables_bytes: int
    """Embedding tables."""
    spilled_bytes: int
    """Bytes that did not fit in the NPUs."""
    other_bytes: int
    """Other tensors: the workload does not say what they are."""


class Outside(TypedDict):
    """Memories of one kind outside of the NPUs, and what lies in the fullest of them when that is
    most. A tensor lies there once, however often it is accessed, and until the end of the step."""

    name: str
    """`memory pool`, `remote memory`, `CPU memory` or `NVMe`."""
    memories: int
    """Number of them in which something lies."""
    ranks: int
    """Ranks whose tensors lie in the fullest one."""
    least_bytes: int
    """The least that lies in the fullest one."""
    most_bytes: int
    """The most that may lie in the fullest one: more than `least_bytes` if accesses do not say to
    which tensor they are."""
    peak_ns: float
    """When that much lies there first."""
    contents: OutsideContents
    """The bytes by kind. The sum is `least_bytes`."""
    capacity_bytes: int | None
    """Capacity of one of them. Null where it is unknown."""


class Class(TypedDict):
    """Ranks that behave alike. At every moment a rank is in one state: the first part of the step
    that holds. The parts sum to `step_time_ns`, to the picosecond."""

    label: str
    """The name that the workload's generator gives them, `stage 3`. Empty where it gives none."""
    ranks: str
    """Ranks as `0-7,16`, or `0-56:8` for every eighth."""
    count: int
    """Number of ranks."""
    program: int
    """Index of their program."""
    finish_ns: float
    """End of the last operation."""
    compute_finish_ns: float
    """End of the last operation that computes; 0 without one. What follows is communication that
    the step ends with."""
    compute_ns: float
    """The NPU computes."""
    exposed_comm_ns: float
    """The rank communicates (a collective, a send, or a message on its way to a posted receive) and
    does not compute."""
    exposed_remote_ns: float
    """The rank accesses memory outside the NPU and neither computes nor communicates."""
    exposed_local_ns: float
    """The rank accesses the NPU's own memory by a load or store node and does nothing else. What
    kernels read and write is part of `compute_ns`."""
    exposed_launch_ns: float
    """Nothing is in flight. A kernel, a collective, a send or a receive could begin, but the host
    has not launched it yet."""
    exposed_host_ns: float
    """Only work of the host is in flight: recorded operators, data loading."""
    idle_ns: float
    """Nothing is in flight: pipeline bubbles, and the time after the rank's end."""
    at_peak_ns: float | None
    """The least time for the rank's operations: each at the peak rate of its number format. `null`
    where durations are recorded, or nothing says the peak."""
    comm_ns: float
    """Communicating, overlapped with computing or not."""
    peak_memory_bytes: int
    """The most that the NPU's memory held. 0 where the workload doesn't say."""
    finish_minus_compute_ns: float
    """`finish_ns` less the durations of the rank's own compute. ASTRA-sim prints this as "exposed
    communication"; it counts idle time as well."""


class Symmetry(TypedDict):
    """The symmetry of the workload on the platform. The same whether the run was folded or not."""

    classes: int
    """Number of sets of ranks that must behave alike. A folded run simulates one rank of each."""
    reason: str
    """Which rank, group or choice sets ranks apart. Empty when all ranks are alike."""


class Bounds(TypedDict):
    """Lower bounds of the step from the bytes it sends, whatever the schedule. Both hold where no
    dimension's `utilisation` is above 1. `step_time_ns` over a bound is the gap to the ideal."""

    dimension_ns: float
    """With these bytes on each dimension: the largest `bound_ns` of a dimension."""
    network_ns: float
    """With the bytes moved between dimensions so that all are busy: sum of bytes over sum of usable
    bandwidth and NPUs."""


class Dimension(TypedDict):
    """One network dimension."""

    name: str
    """`Ring(4)`."""
    link_gb_per_s: float
    """Bandwidth of one link in one direction, GB/s (1e9)."""
    npu_gb_per_s: float
    """Outgoing bandwidth of one NPU over all its links, GB/s (1e9). On a graph the mean."""
    usable_gb_per_s: float
    """The part of `npu_gb_per_s` that the algorithms of the run can use: the fastest phase by
    itself, times the chunks that may run at once, up to the links in the directions taken. A ring
    run one way uses one link. All links on graphs, with rendezvous, and where messages, algorithms
    from files or groups that are not lines use the network."""
    bytes: Large
    """Bytes sent by all NPUs over this dimension. Every hop of a ring counts. On a graph: what
    leaves NPUs (link queues), what is sent (analytical)."""
    utilisation: float
    """`bytes / (npu_gb_per_s * step time * NPUs)`. Above 1 only where the network has no contention
    behind the first link."""
    bound_ns: float
    """`bytes / (usable_gb_per_s * NPUs)`: the least time for them."""
    busy_ns: float
    """Time in which at least one chunk of the mean NPU was in a phase on this dimension. Sends and
    receives of the workload don't count. 0 with `logical` dimensions."""
    link_busy_ns: float | None
    """Time that its busiest link was sending. Null for a backend without links."""
    link_sends: str | None
    """Percent of each bin of `network` in which the busiest link was sending, two hexadecimal
    digits each. Null for a backend without links, and without detail."""


class Phase(TypedDict):
    """One phase position of multi-phase collectives."""

    name: str
    """`P1 reduce_scatter Ring(4)`: the first phase of its chunk; `P0 ready queue`: the wait before
    it, where the scheduler has a ready queue."""
    count: Large
    """Chunk phases over all ranks."""
    queue_ns: float
    """Mean wait in the queue."""
    network_ns: float
    """Mean time from leaving the queue to the end of the phase."""


class Operation(TypedDict):
    """Operations of one kind whose names differ only in numbers, over all ranks."""

    name: str
    """Their name, with a star for each number: `*.layer*.attention.norm`."""
    kind: str
    """`compute`, `host`, `load`, `store`, `send`, `recv`, `metadata`, `invalid`, or the
    collective."""
    count: Large
    """Number of operations, over all ranks."""
    cost_ns: float
    """Time of all ranks that is charged to them. Each moment of a rank goes to one operation: to
    what computes, else to the communication that ends first, else to memory, a launch or the host.
    So a receive that is posted early costs nothing. The sum over all operations is the time of all
    ranks less their idle time."""
    total_ns: float
    """Sum of their durations over all ranks, overlapped or not. A receive lasts from when it is
    posted."""
    max_ns: float
    """The longest duration."""
    bytes: Large
    """Bytes of communication and memory accesses over all ranks, as the trace gives them."""
    flops: Large
    """Floating-point operations over all ranks."""
    compute_bytes: Large
    """Bytes that computations read and write, over all ranks."""


class Link(TypedDict):
    """One link, and the number of links that were used just like it."""

    name: str
    """The first of them: `npu3 -> npu4 (dimension 1)`."""
    count: int
    """Number of links."""
    bytes: int
    """Bytes that each carried."""
    busy_ns: float
    """Time that each was sending."""
    messages: int
    """Messages that each carried."""
    queue_mean_ns: float
    """Mean wait in the link's queue."""
    queue_max: int
    """Most messages waiting at once."""


class Flow(TypedDict):
    """Transfers of one size, over all ranks."""

    bytes: int
    """Bytes of each."""
    transfers: Large
    """How many."""
    mean_ns: float
    """Mean time from the start of a transfer to its arrival."""
    max_ns: float
    """Longest time of a transfer."""


class Series(TypedDict):
    """A quantity over time, and the number of links with the same."""

    name: str
    """The first of the links: `npu3 -> npu4 (dimension 1)`."""
    count: int
    """Number of links."""
    quantity: str
    """`utilisation` (share of the bin in which the link sends, 0..1), `waiting` (mean number of
    messages in its queue, or of flits that wait for it) or `occupancy` (mean number of flits in the
    buffers behind it)."""
    values: list[float]
    """One number per bin."""


class Network(TypedDict):
    """Observations of the backend while the network ran."""

    kind: str
    """The backend that observed it: `analytical`, `link`."""
    flows: list[Flow]
    """Transfers by size, the most bytes in all first, at most 20 rows."""
    bin_ns: float
    """Width of the bins of `series`, ns. The last bin ends with the step."""
    series: list[Series]
    """Links over time, those that send the longest first, equal ones in one row, at most 20 links.
    Empty for a backend without links."""


class Port(TypedDict):
    """One port."""

    name: str
    """`switch0 -> npu4 (dimension 1)`."""
    drops: int
    """Packets dropped."""
    marks: int
    """Packets marked."""
    queue_p50_bytes: int
    """Median of the bytes that packets found waiting when they came, to 3 %."""
    queue_p99_bytes: int
    """Their 99th percentile, to 3 %."""
    queue_max_bytes: int
    """Most bytes that waited; 0 for a port of an NPU, whose packets wait in its memory."""
    pauses: int
    """How often it was paused."""
    paused_ns: float
    """How long, in all."""


class Connection(TypedDict):
    """One connection."""

    source: int
    """NPU that sends."""
    destination: int
    """NPU that receives."""
    bytes: int
    """Data that has arrived, each byte once."""
    first_ns: float
    """When its first message started."""
    last_ns: float
    """When its last data arrived."""
    goodput_gb_per_s: float
    """`bytes` over the time between the two, GB/s (1e9)."""
    retransmits: int
    """Packets sent again."""
    fast_recoveries: int
    """Fast recoveries."""
    timeouts: int
    """Retransmission timeouts."""
    rtt_mean_ns: float
    """Mean of the round trips that it measured."""
    rtt_p50_ns: float
    """Their median, to 3 %."""
    rtt_p99_ns: float
    """Their 99th percentile, to 3 %."""
    rtt_max_ns: float
    """The longest of them."""
    rtt_sampled_mean_ns: float | None
    """Mean of one each millisecond. Null where no millisecond passed."""


class Packets(TypedDict):
    """Packets of a run, over all links and connections."""

    data: int
    """Packets with data, those that were sent again included."""
    acknowledgements: int
    """Acknowledgements and reports of congestion."""
    hops: int
    """Links crossed by packets."""
    link_utilisation: float
    """Part of the step in which the mean link sends, those without traffic included."""
    drops: int
    """Packets dropped for want of room."""
    marks: int
    """Packets marked (explicit congestion notification)."""
    pauses: int
    """Times that a port was paused (priority flow control)."""
    retransmits: int
    """Packets sent again."""
    fast_recoveries: int
    """Fast recoveries."""
    timeouts: int
    """Retransmission timeouts."""
    queue_max_bytes: int
    """Most bytes that waited in a port of a switch."""
    round_trips: int
    """Round trips that were measured."""
    rtt_mean_ns: float
    """Their mean."""
    rtt_p50_ns: float
    """Their median, to 0.8 %."""
    rtt_p99_ns: float
    """Their 99th percentile, to 0.8 %."""
    rtt_sampled_mean_ns: float | None
    """Each millisecond the latest round trip of each connection is taken, and a mean is made for
    each connection (as in HOTI 2020, Fig. 9): the mean of these means. Null where no connection
    lasted a millisecond."""
    rtt_sampled_p50_ns: float | None
    """The median of these means."""
    rtt_sampled_p99_ns: float | None
    """Their 99th percentile."""
    skips: int
    """Steady states that were skipped."""
    skipped_ns: float
    """Their length in all."""
    skip_error_ns: float
    """Estimate of what skipping changes at the end of the run."""
    ports: list[Port]
    """Ports by drops, then by their longest queue, at most 20."""
    connection_count: int
    """Number of connections."""
    connections: list[Connection]
    """Connections by timeouts, then by what they sent again, then by bytes, at most 20."""


class PacketTimes(TypedDict):
    """Times of packets."""

    mean_ns: float
    """Mean."""
    p50_ns: float
    """Median, to 0.8 %."""
    p99_ns: float
    """99th percentile, to 0.8 %."""
    p99_9_ns: float
    """99.9th percentile, to 0.8 %."""
    max_ns: float
    """Longest."""


class FlitClass(TypedDict):
    """A class of the virtual channels of a link."""

    number: int
    """Number of the class; packets begin in 0."""
    flits: int
    """Flits."""
    packets: int
    """Packets."""
    no_credit_ns: float
    """Time in which flits waited to enter it without a credit, summed over flits."""
    no_channel_ns: float
    """Time in which first flits waited to enter it while no virtual channel was idle, likewise."""
    lost_allocation_ns: float
    """Time in which flits could enter it and others were chosen, likewise."""
    occupancy_mean: float
    """Flits in the buffers behind it, mean over the step."""
    occupancy_max: int
    """Most flits in them at once."""


class FlitLink(TypedDict):
    """A link, or several that are alike."""

    name: str
    """`npu3 -> npu4 (dimension 1)`."""
    count: int
    """Links of this row."""
    utilisation: float
    """Part of the step in which it sends."""
    flits: int
    """Flits."""
    packets: int
    """Packets."""
    no_credit_ns: float
    """Time in which flits waited to enter it without a credit, summed over flits."""
    no_channel_ns: float
    """Time in which first flits waited to enter it while no virtual channel was idle, likewise."""
    lost_allocation_ns: float
    """Time in which flits could enter it and others were chosen, likewise."""
    occupancy_mean: float
    """Flits in the buffers behind it, mean over the step."""
    occupancy_max: int
    """Most flits in them at once."""
    classes: list[FlitClass]
    """Flits of each class of virtual channels, where several carried flits."""


class Flits(TypedDict):
    """Flits of a run, over all links."""

    packets: int
    """Packets."""
    flits: int
    """Flits that crossed a link between routers, each link counted."""
    virtual_channels: int
    """Virtual channels of each class of a link."""
    buffer: int
    """Flits that a virtual channel of a router holds."""
    hops_mean: float
    """Links between routers that a packet crosses, mean."""
    hops_max: int
    """Most links that one crosses."""
    source_wait: PacketTimes
    """Time of packets in the queue of their network interface."""
    network: PacketTimes
    """Time of packets from there to the arrival of their last flit."""
    latency: PacketTimes
    """Both together."""
    no_credit_ns: float
    """Time in which flits waited in routers without a credit, summed over flits."""
    no_channel_ns: float
    """Time in which first flits of packets waited while no virtual channel was idle, likewise. With
    adaptive routing all that they wait."""
    lost_allocation_ns: float
    """Time in which flits could move and others were chosen, likewise."""
    link_count: int
    """Number of links that carried flits."""
    links: list[FlitLink]
    """Links by the time in which flits waited for them, at most 20; equal ones are one row."""


class PictureCell(TypedDict):
    """One or more nodes that are drawn as one."""

    name: str
    """Name of the first node."""
    last: str
    """Name of the last node."""
    count: int
    """Number of nodes."""
    tier: int
    """Row from the NPUs (0) outwards."""
    failed: int
    """Nodes that have failed."""
    at: list[int]
    """Place of the cell: with `tiers` the path of its group from the outermost inwards, else
    coordinates, innermost first."""


class PictureCable(TypedDict):
    """The links between two cells, or inside one."""

    a: int
    """One cell, by its place in `cells`."""
    b: int
    """The other cell, or the same."""
    links: int
    """One-way links, with those that have failed."""
    failed: int
    """One-way links that have failed."""
    slowest_gb_per_s: float
    """Bandwidth of the slowest link, GB/s (1e9)."""
    fastest_gb_per_s: float
    """Bandwidth of the fastest link, GB/s (1e9)."""
    least_latency_ns: float
    """Latency of the nearest link."""
    most_latency_ns: float
    """Latency of the farthest link."""
    busy_ns: float | None
    """Time that the busiest link was sending. Null for a backend without links."""
    bytes: int | None
    """Bytes that the link with the most carried. Null likewise."""
    sends: str | None
    """Percent of each bin of `network` in which the busiest link was sending, two hexadecimal
    digits each. Null likewise, and without detail."""


class PictureSort(TypedDict):
    """The links of a kind."""

    name: str
    """The word for the kind, or the rows that its links join: `NPU - tier 1`."""
    links: int
    """One-way links."""
    slowest_gb_per_s: float
    """Bandwidth of the slowest link, GB/s (1e9)."""
    fastest_gb_per_s: float
    """Bandwidth of the fastest link, GB/s (1e9)."""
    least_latency_ns: float
    """Latency of the nearest link."""
    most_latency_ns: float
    """Latency of the farthest link."""


class Picture(TypedDict):
    """A graph made small enough to draw. Alike nodes in the middle of a long row share a cell."""

    layout: str
    """How the cells lie: `tiers`, `grid`, `groups` or `circle`."""
    cells: list[PictureCell]
    """Cells that are drawn for its nodes, by tier and place."""
    cables: list[PictureCable]
    """Cables that are drawn for its links."""
    sorts: list[PictureSort]
    """Links of the network by kind."""


class Counts(TypedDict):
    """Work done, over all ranks."""

    operations: Large
    """Number of operations."""
    transfers: Large
    """Number of transfers."""


class LayerPass(TypedDict):
    """One layer in one pass. The numbers sum over the passes to those of the layer."""

    pass_name: str
    """`forward`, `input_gradient` (of inputs, and of weights where one operation computes both),
    `weight_gradient`, `recompute`; `other` where names of operations say no pass."""
    compute_ns: float
    """Computation."""
    comm_ns: float
    """Raw communication: the sum of the times that its collectives, sends and receives were in
    flight."""
    exposed_comm_ns: float
    """The part of communication in which nothing computed."""


class Layer(TypedDict):
    """One layer on one class of ranks. `compute_ns` and the exposed parts sum over the layers to
    those of the class."""

    rank_class: int
    """Index into `classes`."""
    layer: str
    """Name of the layer."""
    compute_ns: float
    """Charged to the layer. The NPU computes."""
    comm_ns: float
    """Sum of the times that its operations of this kind were in flight (communication)."""
    exposed_comm_ns: float
    """Charged to the layer. The rank communicates (a collective, a send, or a message on its way to
    a posted receive) and does not compute."""
    remote_ns: float
    """Sum of the times that its operations of this kind were in flight (remote memory)."""
    exposed_remote_ns: float
    """Charged to the layer. The rank accesses memory outside the NPU and neither computes nor
    communicates."""
    local_ns: float
    """Sum of the times that its operations of this kind were in flight (local memory)."""
    exposed_local_ns: float
    """Charged to the layer. The rank accesses the NPU's own memory by a load or store node and does
    nothing else. What kernels read and write is part of `compute_ns`."""
    exposed_launch_ns: float
    """Charged to the layer. Nothing is in flight. A kernel, a collective, a send or a receive could
    begin, but the host has not launched it yet."""
    host_ns: float
    """Sum of the times that its operations of this kind were in flight (host)."""
    exposed_host_ns: float
    """Charged to the layer. Only work of the host is in flight: recorded operators, data
    loading."""
    passes: list[LayerPass]
    """Work of the layer in each pass."""


class LayerPhase(TypedDict):
    """Chunks of the collectives of one layer in one pass, in one phase."""

    layer: str
    """Name of the layer."""
    pass_name: str
    """The pass, as in `layers`."""
    phase: str
    """The phase, as in `phases`."""
    dim: int | None
    """Dimension of the phase, from 0. Null for the ready queue."""
    count: Large
    """Chunk phases over all ranks."""
    queue_ns: float
    """Mean wait in the queue."""
    network_ns: float
    """Mean time from leaving the queue to the end of the phase."""


class Activity(TypedDict):
    """Activity over time, one number per bin."""

    compute: list[float]
    """Share of NPUs, 0..1: compute."""
    communication: list[float]
    """Share of NPUs, 0..1: communication."""
    remote: list[float]
    """Share of NPUs, 0..1: remote memory."""
    local: list[float]
    """Share of NPUs, 0..1: local memory."""
    launch: list[float]
    """Share of NPUs, 0..1: waiting for launches."""
    host: list[float]
    """Share of NPUs, 0..1: host."""
    dimensions: list[list[float]]
    """Share of NPUs with a chunk in a phase on it, by dimension that collectives run over."""
    waiting: list[list[float]]
    """Chunks in queues of the mean NPU, by dimension that collectives run over."""


class GanttBar(TypedDict):
    """A stretch of time in a lane."""

    start_ns: float
    """Begin."""
    end_ns: float
    """End."""
    kind: str
    """Kind of a pass of a micro-batch: `forward`, `backward`, `weight_grad` or `recompute`; else
    `optimizer`, or the activity or wait of the rank (`compute`, `communication`, `memory`,
    `launch`, `host`)."""
    label: str
    """The micro-batch, or the layer."""


class GanttLane(TypedDict):
    """Activity of the first rank of a class over time. One lane per pipeline stage (the first of
    its classes), or per class where the generator named no stage."""

    rank_class: int
    """Index into `classes`."""
    label: str
    """`stage 3`, or the first rank."""
    bars: list[GanttBar]
    """In order of time, without overlaps. Gaps are waits for other stages and idle time."""


class HeldMemory(TypedDict):
    """Memory of an NPU over time."""

    rank_class: int
    """Index into `classes`."""
    bytes: list[int]
    """The most that it holds within each bin, bytes."""


class OutsideOverTime(TypedDict):
    """The fullest memory of one kind over time."""

    name: str
    """The name in `outside`."""
    bytes: list[int]
    """The most that lies there within each bin, at least, bytes."""


class PathSegment(TypedDict):
    """A segment of the critical path: an operation, when the path reaches it and leaves it, and why
    it began then."""

    rank: int
    """The rank it is on: the first of its class."""
    node: int
    """Id of the operation in the trace."""
    name: str
    """Name of the operation."""
    kind: str
    """Kind of the operation: `compute`, `all_reduce`, ...; `launch` while it waits for its host to
    launch it."""
    layer: str
    """Layer of the operation."""
    start_ns: float
    """When the path reaches it."""
    end_ns: float
    """When it ends."""
    cause: str
    """Why it began then: `dependency` (ended), `resource` (what it needs became free), `last
    member` (of its collective arrived), `message` (was sent), `launch` (by its host), `start` (of
    the run)."""


class PathSeries(TypedDict):
    """One kind of operation on the critical path, over time."""

    kind: str
    """`compute`, `all_reduce`, ..., `launch`."""
    ns: list[float]
    """Time of the path in each bin."""


class PathPart(TypedDict):
    """Segments of the critical path of one kind, layer or cause."""

    name: str
    """Kind, layer or cause."""
    count: int
    """Number of segments."""
    ns: float
    """Their time."""


class PathOperation(TypedDict):
    """Operations of the same kind and name on the critical path."""

    name: str
    """Their name, with a star for each number."""
    kind: str
    """Their kind."""
    count: int
    """Number of segments."""
    ns: float
    """Their time."""
    cause: str
    """Why most of it began when it did; see the causes of a segment."""


class CriticalPath(TypedDict):
    """A chain of operations without a gap, from the beginning of the step to its end."""

    count: int
    """Number of segments."""
    segments: list[PathSegment]
    """The longest segments (at most 400), in order of time."""
    over_time: list[PathSeries]
    """By kind of operation, the time of the path in each bin of `bin_ns`. The kinds of a bin sum to
    its width, so no moment is missing."""
    by_kind: list[PathPart]
    """Sums of all segments by kind of operation, largest first."""
    by_layer: list[PathPart]
    """Sums of all segments by layer, largest first."""
    by_cause: list[PathPart]
    """Sums of all segments by cause, largest first."""
    by_operation: list[PathOperation]
    """Sums of all segments by operation, largest first, at most 200."""


class CollectivePhase(TypedDict):
    """One phase of a full chunk."""

    dim: int
    """Index of the dimension, from 0."""
    name: str
    """Name of the dimension."""
    kind: str
    """Kind of the phase."""
    algorithm: str
    """The algorithm."""
    ranks: int
    """Number of ranks in a line."""
    sends: float
    """Messages that the mean position sends."""
    sent_bytes: float
    """Bytes that the mean position sends."""


class CollectiveTerms(TypedDict):
    """Parts of the mean time of a collective on one dimension. Means of counts are fractions."""

    dim: int
    """Index of the dimension, from 0."""
    messages: float
    """Messages that waited for one another."""
    bytes: float
    """Bytes of those messages."""
    latency_ns: float
    """Latency of their paths."""
    transfer_ns: float
    """Bytes over bandwidth of the links they crossed."""
    port_ns: float
    """Waiting for the link out of the NPU behind messages of the same collective: their bytes over
    its bandwidth."""
    endpoint_ns: float
    """Endpoint delays."""
    reduction_ns: float
    """Reducing what was received."""
    contention_ns: float
    """Waiting for the link out of the NPU behind messages of other operations."""
    congestion_ns: float
    """Waiting for links inside the network (link queues)."""
    queue_ns: float
    """Chunks waiting in queues for those of other operations."""
    algorithm_ns: float
    """In an algorithm from a file."""


class Collective(TypedDict):
    """Collectives, or sends, of one name, kind and size. Means are over all ranks: `late_ns -
    ahead_ns` and all times of `terms` sum to `mean_ns`."""

    name: str
    """Their name, with a star for each number."""
    kind: str
    """`all_reduce`, ..., `send`."""
    bytes: int
    """Bytes of each, as the trace gives them."""
    ranks: int
    """Number of ranks that take part in one."""
    chunks: int
    """Number of chunks that each is cut into."""
    count: Large
    """Number of collectives, over all ranks."""
    nodes: list[int]
    """The first 64 ids in the traces."""
    mean_ns: float
    """Mean time from a rank's start to its end."""
    max_ns: float
    """The longest time."""
    late_ns: float
    """Mean wait for the rank whose arrival determines the end. Of a send with rendezvous: for its
    receiver."""
    ahead_ns: float
    """Mean time between the start of what determines the end and the rank's own later arrival."""
    phases: list[CollectivePhase]
    """The phases of a full chunk."""
    terms: list[CollectiveTerms]
    """Parts of the time, by dimension, along the chain of operations that waited for each other."""
    behind: list[PathPart]
    """The names of what was waited for longest in queues and for links, with the mean waits of
    those that waited for it longest."""


class Detail(TypedDict):
    """Results that need a log of the run."""

    layers: list[Layer]
    """Sums by layer of the first rank of each class (at most 64 classes), in order of
    appearance."""
    layer_phases: list[LayerPhase]
    """Waits and times of chunks of collectives, by layer, pass and phase over all ranks, at most
    20,000 rows. The counts sum to those of `phases`."""
    bin_ns: float
    """Width of the bins of `activity`, ns: a power of two picoseconds so that there are at most
    512. The last bin ends with the step."""
    activity: Activity
    """Activity of NPUs and dimensions over time."""
    gantt: list[GanttLane]
    """Activity of pipeline stages or classes of ranks over time, to be drawn as one bar chart. At
    most 64 lanes."""
    memory: list[HeldMemory]
    """Memory that the first rank of each class (at most 64) holds over time, where its workload
    says so."""
    outside: list[OutsideOverTime]
    """Bytes in memory outside of the NPUs over time, a row for each one of `outside`."""
    critical_path: CriticalPath
    """The chain of operations that determines the step time."""
    collectives: list[Collective]
    """Parts of the time of collectives and sends, similar ones in one row, by total time, at most
    50."""


class RooflineParts(TypedDict):
    """Times of the parts of Eq. 1."""

    bottom_forward: float
    """Bottom MLP, forward."""
    lookup: float
    """Lookup and pooling of embedding rows."""
    all_to_all_forward: float
    """Exchange of pooled rows; with tables sharded by rows, their reduce-scatter."""
    interaction_forward: float
    """Interaction, forward."""
    top_forward: float
    """Top MLP, forward."""
    top_backward: float
    """Top MLP, backward."""
    interaction_backward: float
    """Interaction, backward."""
    all_to_all_backward: float
    """Exchange of the gradients of pooled rows; with tables sharded by rows, their all-gather."""
    update: float
    """Backward pass and optimizer of the tables."""
    bottom_backward: float
    """Bottom MLP, backward."""
    top_all_reduce: float
    """All-reduce of the gradients of top MLP and interaction, or of all MLPs together."""
    bottom_all_reduce: float
    """All-reduce of the gradients of bottom MLP and copied tables."""


class RooflineResource(TypedDict):
    """A resource that a step needs."""

    name: str
    """`memory bandwidth of tables`, `compute`, `all-to-all` or `all-reduce`."""
    time_ns: float
    """Time of a step that it needs by itself."""
    samples_per_second: float | None
    """Samples per second that it allows. Null where samples are unknown."""


class Roofline(TypedDict):
    """The least time of a recommendation model's step by the times of its parts: Eq. 1 of Neo and
    `ZionEX` (Mudigere et al., ISCA 2022, appendix B). Parts are as long as in this run, the mean of
    all ranks, so the times of exchanges contain what ranks wait for each other."""

    parts: RooflineParts
    """The parts of Eq. 1."""
    forward_ns: float
    """Forward pass."""
    backward_ns: float
    """Backward pass."""
    step_ns: float
    """Both."""
    reached: float
    """Ratio of Eq. 1 to the time of a step in this run, 0 to 1; above 1 where steps overlap."""
    samples: int | None
    """Samples of a step on all ranks. Null where the workload does not say."""
    samples_per_second: float | None
    """Samples per second by Eq. 1. Null where samples are."""
    binding: str
    """The resource that needs most of the step."""
    resources: list[RooflineResource]
    """Time that each resource needs by itself."""


class Report(TypedDict):
    """Result of a run. The same input gives the same bytes."""

    schema: str
    """`armillary.report/1`. Changes when a field changes its meaning."""
    version: str
    """Version of Armillary."""
    config: dict[str, Any]
    """Request, fully resolved."""
    seed: int
    """Seed of every random stream. No model of this release draws from one."""
    digest: str
    """16 hexadecimal digits over (node, time) of every completion of every rank. Equal digests mean
    equal runs, folded or not."""
    warnings: list[str]
    """Models used outside their validity (a dimension that carried more than its links can),
    settings without effect, counted oddities of the input."""
    assumptions: list[str]
    """Assumptions of the result where the platform leaves something out, and which preset has it.
    Only those that matter to this run."""
    step_time_ns: float
    """End of the last rank, ns."""
    ranks: int
    """Number of ranks."""
    fits: str | None
    """Whether the workload fits the memory of its NPUs: `yes`, `no`, or `near` where what it needs
    is closer to the capacity than predictions are exact (docs/models/memory.md). Null where what it
    needs or the capacity is unknown."""
    memory_bytes: int | None
    """Memory that the most heavily loaded NPU needs, as the workload's generator says or, where
    that is more, as the run held. Null where neither says anything."""
    outside: list[Outside]
    """Contents of memory outside of the NPUs, one row per kind of memory. Empty where nothing is
    there, and in a replay."""
    classes: list[Class]
    """Ranks with the same program and the same times, by first rank."""
    symmetry: Symmetry
    """The symmetry that folding uses."""
    bounds: Bounds
    """How fast the network could be at best."""
    dimensions: list[Dimension]
    """One row per network dimension, innermost first. An explicit graph is one dimension."""
    phases: list[Phase]
    """One row per position, kind and dimension of collective phases."""
    operations: list[Operation]
    """Operations by kind and pattern of names, the most costly first, at most 1,000."""
    links: list[Link]
    """Links by busy time, equal ones in one row, at most 20 rows. Empty for a backend without
    queues."""
    network: Network | None
    """Transfers by size, and links over time. Null unless asked for, as `detail`, and for a backend
    that observes nothing."""
    packets: Packets | None
    """Counts of packets. Null for a backend without packets."""
    flits: Flits | None
    """Counts of flits. Null for a backend without flits."""
    picture: Picture | None
    """The network as pages draw it. Null for stacks that have blocks other than rings and meshes,
    which are drawn from `config`. Null for more than 64 nodes unless asked for, as `detail`."""
    counts: Counts
    """Work done, over all ranks."""
    detail: Detail | None
    """Layers, activity over time and the critical path. Null unless asked for: `--json`,
    `--report`, `simulate(detail=True)`."""
    roofline: Roofline | None
    """The roofline of a recommendation model's step. Null for other workloads. The Python package
    fills it in (`explain/dlrm_parts.py`), which knows what the operations of models mean."""
