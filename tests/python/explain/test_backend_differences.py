"""Why network models differ: each cause of a difference of step times, against formulas."""

import sys
from pathlib import Path

import pytest

import armillary as arm
from armillary.explain.backend_differences import Run, split

QUEUES = f"external:{sys.executable} {Path(__file__).parents[3] / 'adapters/python/queues.py'}"
GB_PER_S = 12.5
LATENCY = 500.0
"""ns."""
HEADERS = 40 + 38
"""IPv4, TCP and Ethernet, bytes of a packet."""


def causes(
    topology: str, size: int, networks: list[str], **settings: object
) -> list[dict[str, float]]:
    """Causes of each network's difference from the first, for a gather of `size` bytes."""
    program = arm.workload.Program()
    program.collective("gather", [], "gather", size)
    keys = {name.replace("__", "."): value for name, value in settings.items()}
    platform = arm.Platform(
        topology,
        bandwidth=f"{GB_PER_S} GB/s",
        per="link",
        latency=f"{LATENCY} ns",
        settings={"scheduler.endpoint_delay": "0 ns", "collectives.gather": "direct", **keys},
    )
    workload = arm.Workload.listed("one", [program], [0] * platform.npus, {})
    found = arm.ladder(workload, platform, networks).data["networks"]
    for each in found:
        assert sum(each["causes"].values()) == pytest.approx(each["step_ns"] - found[0]["step_ns"])
    return [each["causes"] for each in found]


def test_headers_and_windows_of_a_message() -> None:
    """Two packets of 1,460 B from one NPU to another. With an initial window of one segment, the
    second one waits until an acknowledgement is back."""
    for window, expected in ((10, {}), (1, {"windows": 2 * LATENCY + HEADERS / GB_PER_S})):
        found = causes(
            "FullyConnected(2)",
            2920,
            ["analytical", "flow", "packet"],
            network__packet__tcp__initial_window=window,
        )
        assert found[:2] == [{}, {}]
        assert found[2] == pytest.approx(expected | {"headers": 2 * HEADERS / GB_PER_S}, abs=2e-3)


def test_packets_that_are_stored_at_a_switch_and_injection() -> None:
    """The last of two packets is stored once more than on `flow`, without headers."""
    found = causes(
        "Switch(2)",
        2920,
        ["flow", "packet"],
        network__packet__injection_latency="3 us",
    )
    # Without headers the first packet has 1,500 B, and the second one the rest.
    headers = (3 * (1460 + HEADERS) - 2920 - 1500) / GB_PER_S
    expected = {"hosts": 3000.0, "headers": headers, "packets": 1500 / GB_PER_S}
    assert found[1] == pytest.approx(expected, abs=2e-3)


def test_messages_that_are_stored_at_a_switch() -> None:
    found = causes("Switch(2)", 10_000, ["link", "analytical"])
    assert found == [{}, {}]
    found = causes(
        "Switch(2)",
        10_000,
        ["analytical", "link", QUEUES],
        network__link__switching="store_and_forward",
    )
    stored = 10_000 / GB_PER_S
    assert found[1] == pytest.approx({"store and forward": stored})
    assert found[2] == pytest.approx({"network model": stored})


def test_packets_that_are_lost_wait_for_the_timeout() -> None:
    """Eight packets meet at a port with room for two, and one leaves it at once. The least timeout
    is far longer than all else."""
    [_, found] = causes(
        "Switch(9)",
        1460,
        ["flow", "packet"],
        network__packet__buffer="3076 B",
        network__packet__tcp__rto_min="10 ms",
    )
    assert found["losses"] >= 1e7
    assert found["headers"] < 1e4


def test_the_reasons_name_the_link_that_queues_most() -> None:
    """Four messages of 10,000 B meet at the port of NPU 0 and wait 0, 1, 2 and 3 transfers."""
    program = arm.workload.Program()
    program.collective("gather", [], "gather", 10_000)
    platform = arm.Platform(
        "Switch(5)",
        bandwidth=f"{GB_PER_S} GB/s",
        per="link",
        latency=f"{LATENCY} ns",
        settings={"scheduler.endpoint_delay": "0 ns", "collectives.gather": "direct"},
    )
    workload = arm.Workload.listed("one", [program], [0] * platform.npus, {})
    _, found = arm.ladder(workload, platform, ["analytical", "link"]).data["networks"]
    assert found["why"] == ["messages wait 1.200 us on average for switch0 -> npu0 (dimension 1)"]


def test_a_simulator_of_packets_has_the_causes_of_packet() -> None:
    runs = [
        Run("analytical", 100.0),
        Run("flow", 110.0),
        Run("packet", 150.0, [("losses", 140.0), ("headers", 125.0)]),
        Run("external:ns-3", 152.0, outside=True),
    ]
    inside = {"losses": 10.0, "headers": 15.0, "packets": 15.0, "contention": 10.0}
    assert split(runs[1], runs[0], runs) == {"contention": 10.0}
    assert split(runs[2], runs[0], runs) == inside
    assert split(runs[3], runs[0], runs) == {"simulator": 2.0} | inside
    assert split(runs[0], runs[2], runs) == {cause: -ns for cause, ns in inside.items()}
    assert split(runs[3], runs[2], runs) == {"simulator": 2.0}
    assert split(runs[3], runs[0], [runs[0], runs[3]]) == {"network model": 52.0}
