"""`packet` against answers that ns-3 gave before. Live: `test_ns3.py`."""

import pytest
from ns3 import Drawn, recorded


@pytest.mark.parametrize(("workload", "us"), recorded(), ids=str)
def test_packet_takes_what_ns3_took(workload: Drawn, us: float) -> None:
    """Within 0.5 % without losses: both congestion controls, latencies of 1 us to 1 ms, with marks
    and without."""
    found = workload.run("packet")
    assert found["us"] == pytest.approx(us, rel=0.005)
    assert found["drops"] == 0
