"""A single all-reduce over TCP and switches with buffers (HOTI 2020, Figs. 7 to 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING

from .._peers import packet_all_reduce
from ..study import Study, StudyRow, claimed, drawn, printed, unreferenced

if TYPE_CHECKING:
    from armillary.report.chart import Chart

HOSTS, BANDWIDTH = 128, 12_500_000_000
SIZES = (8, 16, 32, 64, 128, 256)
"""MB."""
BUFFERS = {"64 MB": 500_000, "1 GB": 7_812_500}
"""Buffer of the switch, and the bytes of each of its 128 ports."""
ALGORITHMS = ("direct", "trees")
ROTATION, RANDOM = 1, 2
"""Orders in which a host opens its messages: to the next host first, or at random."""
CHUNKS, UNDER_WAY = 1024, 64
PS_PER_US = 1_000_000
FIRST, SECOND, THIRD, FOURTH = (f"section IV-A, observation {at}" for at in (1, 2, 3, 4))

ORDER = (
    "the paper names no order of destinations. In rotation no two hosts send to one; at random "
    "some ports get several windows at once. The paper's run lies between the two"
)
SETTINGS = "our choice: the paper prints neither the MTU nor what acknowledges"
TREE = "1,024 chunks. A host has 64 of them under way, as in our Table IV systems"
BARS = "the figures print no numbers. Round trips are means of flows, sampled every ms"
AT_RANDOM = "direct in random order; " + ORDER


@dataclass(frozen=True, slots=True)
class Run:
    """Result of an all-reduce."""

    ideal_us: float
    """Bytes over bandwidth."""
    hosts: int
    time_us: float
    retransmits: float
    timeouts: float
    round_trips: tuple[float, float, float]
    """Mean, median and 99th percentile over the flows of each flow's mean, us, sampled every ms.
    Zero where the run is shorter than that."""

    @property
    def deviation(self) -> float:
        """Percent above the bytes over the bandwidth."""
        return 100 * (self.time_us / self.ideal_us - 1)

    @property
    def utilization(self) -> float:
        """Percent of the links that data uses."""
        return 100 * self.ideal_us * (self.hosts - 1) / self.hosts / self.time_us


@cache
def run(
    size: int,
    buffer: str,
    order: int = RANDOM,
    tree: bool = False,
    mtu: int = 9000,
    hosts: int = HOSTS,
) -> Run:
    """An all-reduce of `size` MB: direct in an order, or over two trees."""
    grain = 2 * CHUNKS
    bytes_ = size * 1_000_000 // grain * grain if tree else size * 1_000_000
    found = packet_all_reduce(
        {
            "hosts": hosts,
            "bytes": bytes_,
            "buffer": BUFFERS[buffer],
            "mtu": mtu,
            "header": 40,
            "framing": 2,
            "control": "newreno",
            "window": 500_000,
            "initial_window": 10,
            "ack_every": 2,
            "sack": 1,
            "order": order,
            "seed": 1,
            "chunks": CHUNKS if tree else 0,
            "open_chunks": UNDER_WAY if tree else 0,
            "bandwidth": BANDWIDTH,
            "latency_ps": PS_PER_US // 2,
            "rto_min_ps": 50_000 * PS_PER_US,
            "ack_delay_ps": 1_000 * PS_PER_US,
        }
    )
    ideal = 2 * bytes_ / BANDWIDTH * 1e6
    trips = [found.get(f"rtt_sampled_{what}_us", 0.0) for what in ("mean", "p50", "p99")]
    losses = found["retransmits"], found["timeouts"]
    return Run(ideal, hosts, found["time_us"], *losses, (trips[0], trips[1], trips[2]))


def rows(_backends: Sequence[str], hosts: int = HOSTS) -> list[StudyRow]:
    """The paper's numbers and claims, then what it does not print; the paper has 128 hosts."""
    at = partial(run, hosts=hosts)
    return [*_direct(at), *_trees(at), *_sensitivity(at), *_bars(at)]


def _bars(run: Callable[..., Run]) -> Iterator[StudyRow]:
    """The bars of the figures: two algorithms, two buffers, six sizes."""
    for algorithm, buffer, size in product(ALGORITHMS, BUFFERS, SIZES):
        found = run(size, buffer, tree=algorithm == ALGORITHMS[1])
        mean, median, most = found.round_trips
        for what, figure, value, unit in (
            ("time", "Fig. 7", found.time_us, "us"),
            ("utilization", "Fig. 8", found.utilization, "%"),
            ("timeouts", "Fig. 8", found.timeouts, ""),
            ("round trip, median", "Fig. 9", median, "us"),
            ("round trip, 99th percentile", "Fig. 9", most, "us"),
            ("round trip, mean", "Fig. 10", mean, "us"),
            ("sent again", "Fig. 10", found.retransmits, ""),
        ):
            setup = f"{algorithm}, {buffer} buffer, {size} MB: {what}"
            yield StudyRow(setup, "packet", drawn(figure), value, unit, BARS)


def _row(setup: str, reference: float | None, ours: float, unit: str, why: str) -> StudyRow:
    where = FIRST if "8 MB" in setup or "16 MB" in setup else THIRD
    known = unreferenced() if reference is None else printed(reference, where)
    return StudyRow(setup, "packet", known, ours, unit, why)


def _direct(run: Callable[..., Run]) -> Iterator[StudyRow]:
    small, double, large = run(8, "64 MB"), run(16, "64 MB"), run(256, "1 GB")
    even = run(8, "64 MB", ROTATION)
    yield _row("direct, 8 MB, 64 MB buffer: above 2 D / BW", 37, small.deviation, "%", AT_RANDOM)
    yield _row("the same in rotation", None, even.deviation, "%", ORDER)
    yield _row("direct, 8 MB, 64 MB buffer: utilization", 81, small.utilization, "%", AT_RANDOM)
    yield _row("direct, 8 MB, 64 MB buffer: sent again", 907, small.retransmits, "", AT_RANDOM)
    ratio = double.time_us / double.ideal_us
    yield _row("direct, 16 MB, 64 MB buffer: over 2 D / BW", 50, ratio, "x", AT_RANDOM)
    yield _row("direct, 16 MB, 64 MB buffer: timeouts", 997, double.timeouts, "", AT_RANDOM)
    yield _row("direct, 256 MB, 1 GB buffer: utilization", 52, large.utilization, "%", AT_RANDOM)


def _trees(run: Callable[..., Run]) -> Iterator[StudyRow]:
    trees = [run(size, "1 GB", tree=True) for size in SIZES]
    most = max(each.deviation for each in trees)
    within = claimed(16, THIRD, "<", 0)
    yield StudyRow("trees, 1 GB buffer: most above 2 D / BW", "packet", within, most, "%", TREE)
    least = min(each.utilization for each in trees)
    full = claimed(90, THIRD, ">", 0)
    yield StudyRow("trees, 1 GB buffer: least utilization", "packet", full, least, "%", TREE)
    again = sum(each.retransmits for each in trees)
    none = claimed(1, THIRD, "<", 0)
    yield StudyRow("trees, 1 GB buffer: sent again", "packet", none, again, "", TREE)
    for size in (8, 16, 32, 64):
        again = run(size, "1 GB").retransmits
        none = claimed(1, FOURTH, "<", 0)
        setup = f"direct, {size} MB, 1 GB buffer: sent again"
        yield StudyRow(setup, "packet", none, again, "", AT_RANDOM)
    for size in (8, 16, 32, 64):
        ratio = run(size, "1 GB", tree=True).time_us / run(size, "1 GB").time_us
        faster = claimed(1, "section IV-A, conclusions", "<", 0)
        setup = f"{size} MB, 1 GB buffer: trees over direct"
        yield StudyRow(setup, "packet", faster, ratio, "x", AT_RANDOM)
    for size, relation in ((8, "<"), (256, ">")):
        ratio = run(size, "64 MB", tree=True).time_us / run(size, "64 MB").time_us
        better = claimed(1, SECOND, "<" if relation == "<" else ">", 0)
        setup = f"{size} MB, 64 MB buffer: trees over direct"
        yield StudyRow(setup, "packet", better, ratio, "x", AT_RANDOM)
    tree, direct = run(64, "64 MB", tree=True), run(64, "64 MB")
    few = claimed(0.01, SECOND, "<", 0)
    setup = "64 MB, 64 MB buffer: timeouts, trees over direct"
    why = (
        f"{tree.timeouts:.0f} timeouts make trees {tree.time_us / tree.ideal_us:.0f} times slower; "
        + TREE
    )
    yield StudyRow(setup, "packet", few, tree.timeouts / direct.timeouts, "x", why)


def _sensitivity(run: Callable[..., Run]) -> Iterator[StudyRow]:
    for mtu in (1500, 4096, 9000):
        for name, order in (("rotation", ROTATION), ("random", RANDOM)):
            off = run(8, "1 GB", order, mtu=mtu).deviation
            setup = f"direct, 8 MB, 1 GB buffer, MTU {mtu}, {name}: above 2 D / BW"
            yield StudyRow(setup, "packet", unreferenced(), off, "%", SETTINGS)


FIGURES = {
    "time": ("Completion time (Fig. 7)", "log"),
    "utilization": ("Utilization of links (Fig. 8)", "linear"),
    "timeouts": ("Timeouts (Fig. 8)", "symlog"),
    "round trip, median": ("Round trip, median (Fig. 9)", "log"),
    "round trip, 99th percentile": ("Round trip, 99th percentile (Fig. 9)", "log"),
    "round trip, mean": ("Round trip, mean (Fig. 10)", "log"),
    "sent again": ("Packets that were sent again (Fig. 10)", "symlog"),
}
"""Charts by what a row shows: title and scale."""


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Figs. 7 to 10: by size, a line for each algorithm and buffer."""
    from armillary.report.chart import Chart

    found: dict[str, list[dict[str, object]]] = {what: [] for what in FIGURES}
    for row in rows:
        place, _, what = row.setup.partition(": ")
        if what in FIGURES and row.reference.source.kind == "figure":
            algorithm, buffer, size = place.split(", ")
            series = f"{algorithm}, {buffer}"
            mb = int(size.removesuffix(" MB"))
            found[what].append({"MB": mb, "system": series, "value": row.ours, "unit": row.unit})
    return [
        Chart(f"packet-all-reduce-{at}", FIGURES[what][0], records, _lines(what, records))
        for at, (what, records) in enumerate(found.items())
        if records
    ]


def _lines(what: str, records: Sequence[dict[str, object]]) -> dict[str, object]:
    y = {"field": "value", "type": "quantitative", "title": records[0]["unit"] or what}
    x = {"field": "MB", "type": "quantitative", "title": "MB", "scale": {"type": "log", "base": 2}}
    return {
        "mark": {"type": "line", "point": True, "tooltip": True},
        "encoding": {
            "x": x,
            "y": {**y, "scale": {"type": FIGURES[what][1]}},
            "color": {"field": "system", "type": "nominal", "title": None, "sort": None},
        },
    }


STUDY = Study(
    "128 hosts at one switch, 100 Gb/s, window 0.5 MB, least timeout 50 ms, as the paper has it. "
    "NewReno with selective acknowledgements and packets of 9,000 B, as in ns-3.44: our choice. "
    "This study runs on packets whatever `--backend` says.",
    rows,
    charts,
)
