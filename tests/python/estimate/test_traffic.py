"""Where groups lie and what they put on each dimension: against the formulas, and against simulated
collectives."""

from __future__ import annotations

import math

import pytest

import armillary as arm
from armillary.estimate import topology, traffic
from armillary.estimate.topology import Topology, factorisations, space
from armillary.estimate.traffic import Members

SHAPES = ["R(8)_SW(16)", "R(2)_FC(8)_R(4)", "FC(4)_R(4)_SW(4)_R(2)"]


def parse(text: str) -> Topology:
    found = topology.parse(text)
    assert found is not None
    return found


def test_notation() -> None:
    assert str(parse("Ring(8)_FullyConnected(4)_switch(16)")) == "R(8)_FC(4)_SW(16)"
    for wrong in ("", "R(1)", "R(8)_", "Torus(4)", "R(8)SW(4)", "_".join(["R(2)"] * 6)):
        assert topology.parse(wrong) is None


def test_the_space_of_1024() -> None:
    """Compositions of 10 in up to 4 parts, each part one of 3 blocks: 3 + 9 9 + 36 27 + 84 81 =
    7,860."""
    sizes = [each for dims in (1, 2, 3, 4) for each in factorisations(1024, dims)]
    assert len(sizes) == sum(math.comb(9, dims - 1) for dims in (1, 2, 3, 4)) == 130
    assert all(math.prod(each) == 1024 for each in sizes)
    assert sum(space(each, topology.BLOCKS, {}).count for each in sizes) == 7860
    assert list(factorisations(12, 2)) == [(2, 6), (3, 4), (4, 3), (6, 2)]


@pytest.mark.parametrize(
    ("ranks", "sizes", "expected"),
    [
        (range(16), (8, 128), ((0, 8, 1), (1, 2, 1))),
        (range(0, 1024, 16), (8, 128), ((1, 64, 2),)),
        (range(0, 1024, 128), (2, 8, 8, 8), ((3, 8, 1),)),
        (range(4), (8, 4), ((0, 4, 1),)),
        (range(0, 8, 2), (8, 4), ((0, 4, 2),)),
        (range(12), (8, 4), None),
        (range(4, 12), (8, 4), None),
        ([0, 1, 4, 5], (4, 4), ((0, 2, 1), (1, 2, 1))),
        ([0, 1, 4, 6], (4, 4), None),
        ([3], (4, 4), ()),
    ],
)
def test_where_a_group_lies(
    ranks: range | list[int], sizes: tuple[int, ...], expected: tuple[tuple[int, ...], ...] | None
) -> None:
    assert traffic.extents(Members.of(list(ranks)), sizes) == expected


def test_all_reduce_sends_what_the_paper_says() -> None:
    """ASTRA-sim 2.0, Table IV: 1 GiB on 2_8_8_4 puts 1024, 896, 112 and 12 MiB on the
    dimensions."""
    net = parse("R(2)_FC(8)_R(8)_SW(4)")
    spans = traffic.extents(Members(0, 512, 1), net.sizes)
    assert spans is not None
    assert [each / 2**20 for each in traffic.loads("all_reduce", 2**30, spans, net)] == [
        1024,
        896,
        112,
        12,
    ]
    gathered = traffic.loads("all_gather", 2**30 / 512, spans, net)
    assert (
        gathered
        == traffic.loads("reduce_scatter", 2**30, spans, net)
        == [each * 2**20 for each in (512, 448, 56, 6)]
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_a_slow_dimension_takes_its_bytes_over_its_bandwidth(shape: str, kind: str) -> None:
    """With one dimension at 1 GB/s and the others at 10 TB/s, the simulated time is that
    dimension's load in ns."""
    net = parse(shape)
    per = ["link" if each == "Ring" else "npu" for each in net.blocks]
    size = 2**22 * net.npus
    spans = traffic.extents(Members(0, net.npus, 1), net.sizes)
    assert spans is not None
    input_size = size / net.npus if kind == "all_gather" else size
    loads = traffic.loads(kind, input_size, spans, net)
    settings = {
        "scheduler.chunks": 64,
        "scheduler.endpoint_delay": "0 ns",
        "collectives.rings": "one_way",
    }
    for slow, load in enumerate(loads):
        bandwidth = ["1 GB/s" if d == slow else "10 TB/s" for d in range(len(net))]
        platform = arm.Platform(
            shape, bandwidth=bandwidth, latency="0 ns", per=per, settings=settings
        )
        time = arm.collective(kind, size, platform)["time_us"][0] * 1e3
        assert time == pytest.approx(load, rel=0.01), (slow, time, load)


def test_part_of_a_fully_connected_dimension_uses_part_of_its_links() -> None:
    """Groups of 2 in a FullyConnected(8): one link of seven, so an all-reduce of m takes 7 m /
    bw."""
    net = parse("FC(8)")
    spans = traffic.extents(Members(0, 2, 1), net.sizes)
    assert spans is not None
    assert traffic.loads("all_reduce", 1e9, spans, net) == [pytest.approx(7e9)]
    program = arm.workload.Program()
    program.collective("pair", [], "all_reduce", 10**9, "pair")
    pairs = arm.workload.Workload.mesh(
        "pairs", [("pair", 2), ("rest", 4)], {"pair": ["pair"]}, [], [program]
    )
    settings = {"scheduler.endpoint_delay": "0 ns"}
    platform = arm.Platform(
        "FC(8)", bandwidth="7 GB/s", latency="0 ns", per="npu", settings=settings
    )
    assert arm.simulate(pairs, platform).step_time_ns == pytest.approx(1e9, rel=1e-6)


def test_rounds() -> None:
    """docs/models/collectives.md: 2 (n - 1) on a ring, 2 at once, 2 log2 n by halving; one way for
    half of an all-reduce."""
    net = parse("R(8)_FC(4)_SW(16)_SW(6)")
    spans = traffic.extents(Members(0, net.npus, 1), net.sizes)
    assert spans is not None
    assert traffic.rounds("all_reduce", spans, net) == [(14, 1), (2, 1), (8, 2), (2, 2)]
    assert traffic.rounds("reduce_scatter", spans, net) == [(7, 1), (1, 1), (4, 2), (1, 2)]
    assert traffic.rounds("all_to_all", spans, net) == [(28, 1), (1, 1), (1, 2), (1, 2)]


def test_volumes_of_a_generated_workload() -> None:
    """The extension's tally is the generator's own."""
    made = arm.workload.build("llama-3-8b", tp=2, dp=2, pp=2)
    summary = made.summary
    assert summary is not None
    ours = {(v.program, v.kind, v.count, v.bytes) for v in traffic.volumes(made)}
    theirs = {
        (i, v.kind, v.count, v.bytes)
        for i, each in enumerate(summary.classes)
        for v in each.volumes
    }
    assert ours == theirs
    assert {v.group for v in traffic.volumes(made)} == {"tp", "dp", "messages"}


@pytest.mark.parametrize(
    ("offset", "sizes", "expected"),
    [
        (128, (8, 256), ((1, 2, 16),)),
        (1024, (8, 256), ((1, 2, 128),)),
        (8, (16, 16), ((0, 2, 8), (1, 2, 1))),
        (60, (16, 16), ((0, 2, 4), (1, 2, 4))),
        (1920, (8, 16, 16), ((2, 2, 1),)),
        (16, (16, 16), ((1, 2, 1),)),
    ],
)
def test_a_message_has_a_way_on_every_stack(
    offset: int, sizes: tuple[int, ...], expected: tuple[tuple[int, ...], ...]
) -> None:
    """Against every pair of ranks so far apart, the shorter way round."""
    found = traffic.crossed(offset, sizes)
    assert found == expected
    ways: dict[int, int] = {}
    for rank in range(math.prod(sizes)):
        peer, inner = (rank + offset) % math.prod(sizes), 1
        for index, size in enumerate(sizes):
            apart = abs(rank // inner % size - peer // inner % size)
            ways[index] = max(ways.get(index, 0), min(apart, size - apart))
            inner *= size
    assert {index: far for index, _, far in found} == {
        index: far for index, far in ways.items() if far
    }


@pytest.mark.parametrize("shape", ["R(4)_SW(8)", "FC(4)_SW(3)", "SW(6)_R(3)", "R(3)_FC(4)_SW(2)"])
@pytest.mark.parametrize("kind", ["broadcast", "reduce", "gather", "scatter"])
def test_a_root_keeps_a_slow_dimension_busy_with_its_bytes(shape: str, kind: str) -> None:
    """A gather goes up the dimensions, a scatter down, as docs/models/hierarchies.md says: a
    dimension carries what those before it left."""
    net = parse(shape)
    per = ["link" if each == "Ring" else "npu" for each in net.blocks]
    spans = traffic.extents(Members(0, net.npus, 1), net.sizes)
    assert spans is not None
    size = 2**20 * net.npus
    loads = traffic.loads(kind, size / net.npus if kind == "gather" else size, spans, net)
    settings = {
        "scheduler.chunks": 64,
        "scheduler.endpoint_delay": "0 ns",
        "collectives.rings": "one_way",
    }
    for slow, load in enumerate(loads):
        bandwidth = ["1 GB/s" if d == slow else "10 TB/s" for d in range(len(net))]
        platform = arm.Platform(
            shape, bandwidth=bandwidth, latency="0 ns", per=per, settings=settings
        )
        time = arm.collective(kind, size, platform)["time_us"][0] * 1e3
        assert time == pytest.approx(load, rel=0.05), (slow, time, load)
