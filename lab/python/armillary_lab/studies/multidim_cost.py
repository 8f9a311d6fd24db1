"""Cost of a network of three NPUs and a switch (multi-dimensional topologies, Fig. 12)."""

from __future__ import annotations

from collections.abc import Sequence

from ..study import Study, StudyRow, printed

PRINTED = {"link": 60.0, "nic": 1440.0, "switch": 720.0}

WHY = "Table II's prices for a GB/s, a link counted once for both directions"


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """A row for each part, and their sum. No network is simulated."""
    del backends
    from armillary.design import cost_file
    from armillary.estimate.topology import parse

    network = parse("SW(3)")
    assert network is not None, "SW(3) is a topology"
    table = cost_file.load("multidim")
    ours = {item.part: item.dollars for item in table.bill(network, table.stack(1), [10e9])}
    parts = [
        StudyRow(
            f"{part}, 3 NPUs at 10 GB/s", "cost", printed(paper, "Fig. 12"), ours[part], "$", WHY
        )
        for part, paper in PRINTED.items()
    ]
    return [
        *parts,
        StudyRow("network", "cost", printed(2220.0, "Fig. 12"), sum(ours.values()), "$", WHY),
    ]


STUDY = Study(
    "Three NPUs, one switch, links of 10 GB/s.",
    rows,
)
