"""Reference runs of other simulators, written in Rust (`lab/crates/py-peers`)."""

from typing import TypedDict, type_check_only

__all__ = [
    "booksim_alone",
    "booksim_at_load",
    "booksim_batches",
    "garnet_all_reduce",
    "garnet_all_to_all",
    "garnet_synthetic",
    "packet_all_reduce",
]

@type_check_only
class Grid(TypedDict):
    """A mesh of `k` nodes in each of `n` dimensions; a torus where `wraps` is not 0."""

    k: int
    n: int
    wraps: int

@type_check_only
class GarnetRouter(TypedDict):
    """A router of Garnet: virtual channels of a virtual network, flits that each holds, cycles."""

    channels: int
    buffer: int
    router_latency: int

@type_check_only
class GarnetAllReduce(GarnetRouter):
    """An all-reduce on rings in three dimensions: one within a package, two between packages."""

    local: int
    vertical: int
    horizontal: int
    local_rings: int
    vertical_rings: int
    horizontal_rings: int
    flit: int
    local_width: int
    package_width: int
    local_latency: int
    package_latency: int
    interface_latency: int
    local_packet: int
    package_packet: int
    bytes: int
    chunks: int
    enhanced: int
    delay: int

@type_check_only
class GarnetAllToAll(GarnetRouter):
    """An all-to-all on a ring."""

    npus: int
    both_ways: int
    bytes: int
    flit: int
    packet: int
    link_latency: int
    interface_latency: int

@type_check_only
class GarnetSynthetic(GarnetRouter, Grid):
    """Traffic with a pattern at a load, flits per node and cycle."""

    pattern: str
    load: float
    flits: int
    cycles: int
    link_latency: int
    interface_latency: int

@type_check_only
class GarnetFound(TypedDict):
    """Results of a run of Garnet; `cycles` is `None` if the network locks up."""

    cycles: int | None
    traversals: int
    packets: int
    network_latency: float
    queue_latency: float

@type_check_only
class BookSimRouter(Grid):
    """A network of BookSim2's input-queued routers."""

    link_latency: int
    channels: int
    buffer: int
    routing: int
    channel_allocation: int
    switch_allocation: int
    traversal: int
    credit_processing: int
    speculative: int
    waits_for_tail_credit: int
    iterations: int

@type_check_only
class BookSimAlone(BookSimRouter):
    """Single packets of so many flits."""

    flits: int

@type_check_only
class BookSimBatches(BookSimAlone):
    """Batches of packets of each node, one batch after the other."""

    pattern: str
    packets: int
    batches: int

@type_check_only
class BookSimSeededBatches(BookSimBatches):
    """Batches, and the seed of what is random."""

    seed: int

@type_check_only
class BookSimRun(BookSimAlone):
    """All of a run at a load but the load and the seed."""

    pattern: str
    period: int
    warmup: int
    most: int
    limit: float

@type_check_only
class BookSimAtLoad(BookSimRun):
    """A run at a load, flits per node and cycle."""

    load: float
    seed: int

@type_check_only
class BookSimFound(TypedDict):
    """Results at a load; `None` if the network is saturated."""

    latency: float | None
    network_latency: float | None
    accepted: float | None
    hops: float | None
    cycles: int | None

@type_check_only
class PacketAllReduce(TypedDict):
    """An all-reduce of hosts at one switch, over TCP. `order` 0 is ascending, 1 rotated, 2 random;
    with `chunks` it goes over two trees."""

    hosts: int
    bytes: int
    buffer: int
    mtu: int
    header: int
    framing: int
    control: str
    window: int
    initial_window: int
    ack_every: int
    sack: int
    order: int
    seed: int
    chunks: int
    open_chunks: int
    bandwidth: int
    latency_ps: int
    rto_min_ps: int
    ack_delay_ps: int

def garnet_all_reduce(case: GarnetAllReduce) -> GarnetFound:
    """Garnet's all-reduce on rings in three dimensions.

    Raises:
        ValueError: a key is missing, or a value is out of range.
    """

def garnet_all_to_all(case: GarnetAllToAll) -> GarnetFound:
    """Garnet's all-to-all on rings.

    Raises:
        ValueError: a key is missing, or a value is out of range.
    """

def garnet_synthetic(case: GarnetSynthetic) -> GarnetFound:
    """Garnet's synthetic traffic on a grid.

    Raises:
        ValueError: a key is missing, or a value is out of range.
    """

def booksim_alone(case: BookSimAlone) -> dict[int, int]:
    """Latency of BookSim2's empty network: cycles by links between routers.

    Raises:
        ValueError: a key is missing, or a value is out of range.
    """

def booksim_batches(case: BookSimSeededBatches) -> list[int] | None:
    """Cycles of BookSim2's batches in a row; `None` if the network locks up.

    Raises:
        ValueError: a key is missing, or a value is out of range.
    """

def booksim_at_load(case: BookSimAtLoad) -> BookSimFound:
    """BookSim2's latency at a load.

    Raises:
        ValueError: a key is missing, or a value is out of range.
    """

def packet_all_reduce(case: PacketAllReduce) -> dict[str, float]:
    """An all-reduce of ns-3 or htsim, straight on the packet backend.

    Raises:
        ValueError: a key is missing, or a value is out of range.
        RuntimeError: the network is stuck.
    """
