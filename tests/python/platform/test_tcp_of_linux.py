"""TCP as Linux has it, against what it is known to reach."""

import pytest

import armillary as arm


@pytest.mark.parametrize(("word", "data"), [("linux", 1448), ("rfc", 1460)])
def test_data_of_a_gigabit_link(word: str, data: int) -> None:
    """Linux gets 941 of 1,000 Mb/s, because each packet has 12 B of timestamps."""
    settings = {"network.model": "packet", "network.packet.tcp": word}
    platform = arm.Platform(
        "FC(2)", bandwidth="1 Gb/s", per="npu", latency="1 us", settings=settings
    )
    size = 20_000_000
    time = arm.collective("broadcast", size, platform)["time_us"][0]
    assert size * 8 / time == pytest.approx(1000 * data / 1538, rel=2e-3)
