"""The memory studies of the ASTRA-sim 2.0 paper keep what the paper says of them."""

from __future__ import annotations

import pytest

from armillary_lab.studies import StudyRow, memory_pool, zero_infinity

BACKENDS = ["analytical"]


@pytest.mark.parametrize("row", memory_pool.rows(BACKENDS), ids=lambda row: row.setup)
def test_the_worked_example_is_exact(row: StudyRow) -> None:
    assert row.reference.value is not None
    print(f"{row.setup}: reference {row.reference.value}, ours {row.ours}")
    assert row.ours == pytest.approx(row.reference.value, rel=1e-7)


def test_zero_infinity_and_the_pool() -> None:
    rows = {row.setup: row for row in zero_infinity.rows(BACKENDS)}
    near, opt = rows["ZeRO-Infinity over HierMem"], rows["HierMem over HierMem (opt)"]
    print(
        f"ZeRO-Infinity over HierMem: {near.ours:.4f}; HierMem over HierMem (opt): {opt.ours:.3f}"
    )
    assert 0.99 < near.ours < 1, "ZeRO-Infinity is faster by less than 1 %"
    assert opt.ours == pytest.approx(4.6, rel=0.05)
    waiting = [row for setup, row in rows.items() if setup.endswith("waiting for data")]
    assert len(waiting) == 3 and all(row.verdict == "holds" for row in waiting)
    assert (
        rows["best of the sweep: fabric in a node"].ours,
        rows["best of the sweep: a memory group"].ours,
    ) == (
        512,
        500,
    )
