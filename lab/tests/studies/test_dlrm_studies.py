"""The studies of DLRM on the HOTI 2020 paper's systems. Runs over TCP, which take a minute, are in
`lab/numbers/test_slow_studies.py`."""

from __future__ import annotations

import pytest
from thorough import some

from armillary_lab.studies import dlrm_buffers, dlrm_injection, dlrm_layers, dlrm_topology
from armillary_lab.studies.hoti import loop
from armillary_lab.study import StudyRow, printed

pytestmark = pytest.mark.xdist_group("packets")


def test_the_paper_leaves_out_the_last_reductions() -> None:
    """Its 73.1 % allow 21.7 ms for two iterations with our computation. Their gradients need
    36.5 ms on 100 Gb/s: 4 (n - 1) / n x 57,411,584 x 2 bytes."""
    floor = 4 * 127 / 128 * 57_411_584 * 2 / 12.5e9 * 1e3
    assert floor == pytest.approx(36.456, abs=0.001)
    run = loop("hier100", "analytical")
    assert run.compute / (1 - 0.731) < 22 < floor
    assert run.computed < floor < run.whole


@pytest.mark.parametrize("system", ["hier100", "hierOpt100"])
def test_exposed_communication_on_hierarchical_systems(system: str) -> None:
    """Within 4 percentage points of the paper's, with the paper's 128 chunks."""
    share = loop(system, "analytical").exposed_before_last
    assert share == pytest.approx(dlrm_topology.EXPOSED[system], abs=4)


def test_injection_latency_slows_the_hierarchical_system_as_in_the_paper() -> None:
    """4.53 times from 10 ns to 100 us, within 5 %."""
    fast, slow = (
        loop("hierOpt100", "analytical", endpoint_delay=each) for each in ("10 ns", "100 us")
    )
    assert slow.computed / fast.computed == pytest.approx(
        dlrm_injection.SLOWER["hierOpt100"], rel=0.05
    )


def test_studies_draw_their_shares_next_to_the_papers() -> None:
    share, ratio = printed(3.4, "Fig. 15"), printed(22.9, "Fig. 15")
    rows = [
        StudyRow("hierOpt100, 64 MB", "packet", share, 80.2, "%", "why"),
        StudyRow("hierOpt100, 64 MB over 1 GB", "packet", ratio, 1.0, "x", "why"),
    ]
    (chart,) = dlrm_buffers.charts(rows)
    assert chart.rows == [{"setup": "hierOpt100, 64 MB", "%": 80.2, "paper": 3.4}]


@pytest.mark.parametrize("backend", some(["link", "packet", "flow"]))
def test_every_backend_runs_the_loop(backend: str) -> None:
    """The same computation, and never less time than without contention."""
    least, run = (loop("hierOpt100", each, chunks=4) for each in ("analytical", backend))
    assert run.compute == least.compute
    assert run.whole >= least.whole


def test_every_bar_of_a_layer_says_why_it_has_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers, of which one communicates."""
    found = {("top.0", "forward"): (1.0, 2.0, 0.5), ("top.1", "forward"): (3.0, 0.0, 0.0)}
    monkeypatch.setattr(dlrm_layers, "times", lambda _: found)
    rows = list(dlrm_layers._bars("flat100"))
    assert [row.ours for row in rows] == [2.0, 1.0, 0.5, 3.0, 0.0]
    assert {row.why for row in rows} == {dlrm_layers.DRAWN}
