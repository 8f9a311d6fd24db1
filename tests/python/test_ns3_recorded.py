"""`packet` against answers that ns-3 gave before. Live: `test_ns3.py`."""

import pytest
from ns3 import TCP, Drawn, recorded

import armillary as arm


@pytest.mark.parametrize(("workload", "us"), recorded(), ids=str)
def test_packet_takes_what_ns3_took(workload: Drawn, us: float) -> None:
    """Within 0.5 % without losses: both congestion controls, latencies of 1 us to 1 ms, with marks
    and without."""
    found = workload.run("packet")
    assert found["us"] == pytest.approx(us, rel=0.005)
    assert found["drops"] == 0


LINK = "  - {{between: [npu{}, npu{}], bandwidth: 40 Gb/s, latency: {} ns}}"


@pytest.mark.parametrize(
    ("latencies", "ack_every", "us"),
    [
        ((10495, 10493, 10499), 1, 1830.58),
        ((10391, 10493, 10477), 1, 1846.66),
        ((10495, 10493, 10499), 2, 2320.18),
        ((10391, 10493, 10477), 2, 2295.41),
    ],
)
def test_equal_links_apart_by_nanoseconds_take_what_ns3_took(
    latencies: tuple[int, ...], ack_every: int, us: float
) -> None:
    """Four chunks that wait 3 us for their injection, in a row of four NPUs. No packets meet to the
    picosecond, which would leave their order to the order of events."""
    links = [LINK.format(at, at + 1, latency) for at, latency in enumerate(latencies)]
    platform = arm.Platform.parse("\n".join(["graph:", "  npus: 4", "  links:", *links]) + "\n")
    settings = TCP | {
        "network.packet.injection_latency": "3 us",
        "network.packet.tcp.initial_window": 1,
        "network.packet.tcp.ack_every": ack_every,
        "collectives.all_reduce": "double_binary_tree",
        "scheduler.chunks": 4,
        "scheduler.endpoint_delay": "0 ns",
    }
    found = arm.collective("all_reduce", 1_051_600, platform.changed(settings), backend="packet")
    assert found["time_us"][0] == pytest.approx(us, rel=0.0001)
