"""Studies D1 to D3: collectives on the topologies of the ISPASS 2020 paper."""

from __future__ import annotations

import pytest
from documented import study_rows

from armillary_lab.studies import study
from armillary_lab.studies.ispass_collectives import LARGE, MIB, SIZES, SMALL, time
from armillary_lab.studies.ispass_dimensions import CUBE, EIGHT, LINE, SQUARE, TABLE, took
from armillary_lab.studies.ispass_hierarchy import SYSTEMS, between, gain
from armillary_lab.studies.ispass_topology import RING, SWITCHES, separate, slower

BACKENDS = ("analytical", "link", "flow", "flit")
RATE = 25e3 * 0.94
"""Bytes of data per us on a link between packages (Table IV)."""


@pytest.mark.parametrize("backend", BACKENDS)
def test_switches_win_every_all_to_all_and_the_ring_large_all_reduces(backend: str) -> None:
    """Section V-A. 8 links against 7 are at most 8/7."""
    ratios = [slower("all_to_all", size, backend) for size in SIZES]
    assert min(ratios) > 1.05
    assert ratios[0] > 1.05 * ratios[-1]
    assert 1.1 < 1 / slower("all_reduce", LARGE, backend) < 8 / 7


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_messages_take_the_time_of_their_bytes(backend: str) -> None:
    """2 (n - 1)/n m on all links of a ring; (n - 1)/n m around switches; a block of an all-to-all
    is passed on 4 times on average, one way round."""
    sent = LARGE * 7 / 8
    assert time("all_reduce", LARGE, RING, backend) == pytest.approx(
        2 * sent / (8 * RATE), rel=0.01
    )
    on_switches = time("all_to_all", LARGE, SWITCHES, backend)
    assert on_switches == pytest.approx(sent / (7 * RATE), rel=0.01)
    on_ring = time("all_to_all", LARGE, RING, backend)
    assert on_ring == pytest.approx(4 * sent / (8 * RATE), rel=0.01)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rounds_decide_small_messages_and_bytes_large_ones(backend: str) -> None:
    """Section V-B: 126 rounds and 126/64 of the bytes on 1x64x1, 28 and 28/8 on 1x8x8, 18 and 36/8
    on 4x4x4."""
    assert took(LINE, SMALL, backend) > 2 * took(SQUARE, SMALL, backend)
    assert took(SQUARE, SMALL, backend) > took(CUBE, SMALL, backend)
    assert took(CUBE, LARGE, backend) > took(SQUARE, LARGE, backend) > took(LINE, LARGE, backend)


def test_rings_as_links_of_their_own_take_the_same_time_once_all_are_used() -> None:
    """Eight one-way rings carry eight chunks; four chunks use four of them."""
    together = time("all_reduce", LARGE, RING, "link")
    assert separate("all_reduce", LARGE, 16) == pytest.approx(together, rel=0.01)
    assert separate("all_reduce", LARGE, 8) == pytest.approx(together, rel=0.01)
    assert separate("all_reduce", LARGE, 4) == pytest.approx(2 * together, rel=0.01)


def test_splits_of_links_share_out_what_they_say() -> None:
    """Table IV: 2 rings of both ways between packages and 2 one-way rings within."""
    assert TABLE[CUBE] == (2, 4, 4)
    assert {sum(links) for links in EIGHT.values()} == {8}


@pytest.mark.parametrize("backend", BACKENDS)
def test_local_links_and_the_enhanced_all_reduce_pay_off(backend: str) -> None:
    """Section V-C: significantly better, with a quarter of the bytes between packages."""
    symmetric, baseline, enhanced = SYSTEMS
    for size in (MIB, LARGE):
        assert gain(symmetric, baseline, size, backend) > 1.5
        assert gain(baseline, enhanced, size, backend) > 1.5
    assert between(baseline, backend) / between(enhanced, backend) == pytest.approx(4, rel=1e-6)


def test_channels_limit_the_local_links_of_flits() -> None:
    """A channel holds one packet of two flits and is free again 2 + 2 x 90 + 1 cycles after it was
    taken (FLITS: the turnaround of Garnet), so 50 of them carry 50 x 512 B in 183 cycles, below the
    188 B in a cycle of the link. With 100 channels the link is full."""
    name, settings = SYSTEMS["asymmetric, enhanced"]
    flits, links = (time("all_reduce", LARGE, name, on, settings) for on in ("flit", "link"))
    assert 1.05 < flits / links < 188 / (50 * 512 / 183)
    more = {**settings, "network.flit.virtual_channels": 100}
    assert time("all_reduce", LARGE, name, "flit", more) == pytest.approx(links, rel=0.02)


@pytest.mark.parametrize("code", ["d1", "d2", "d3"])
def test_failures_are_explained(code: str) -> None:
    """Claims that fail are those of section V-B which the page names."""
    rows = study_rows(code)
    failed = {row.setup for row in rows if row.verdict not in (None, "holds")}
    assert (
        failed
        == {
            "d1": set(),
            "d2": {
                "1x64x1 over 1x8x8 at 64 MiB",
                "2x8x4 over 1x8x8 at 64 KiB",
                "2x8x4 over 4x4x4 at 64 MiB",
            },
            "d3": set(),
        }[code]
    )
    charts = study(code).charts
    assert charts is not None
    assert all(chart.records for chart in charts(rows))
