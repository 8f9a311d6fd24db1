"""Recommendation models without overlap, and with gradients in buckets."""

from __future__ import annotations

import re

import pytest
from exchanges import Listed

import armillary as arm
from armillary.errors import InputError
from armillary.model.files import Model
from armillary.workload import Workload
from armillary.workload.dlrm import dlrm
from armillary.workload.dlrm_flow import DlrmFlow

MODEL = {
    "dense_features": 6,
    "bottom": [1000, 4],
    "interaction": {"kind": "dot"},
    "top": [1000, 100, 1],
    "local_batch": 32,
    "tables": [{"count": 8, "rows": 4000, "dim": 4, "pooling": 3}],
}
"""Eight tables, dot products of 9 features: the top MLP reads 4 + 36."""

TOP = [4 * (40 * 1000 + 1000), 4 * (1000 * 100 + 100), 4 * (100 + 1)]
BOTTOM = [4 * (6 * 1000 + 1000), 4 * (1000 * 4 + 4)]
"""Bytes of the gradients of each layer."""


def wide(**options: object) -> Workload:
    return dlrm(Model("wide", "dlrm", MODEL), **{"dp": 4, "sharding": "table", **options})


def reduced(monkeypatch: pytest.MonkeyPatch, **options: object) -> list[list[tuple[str, int]]]:
    """Names and bytes of the all-reduces of each program."""
    found: list[list[tuple[str, int]]] = []
    iteration = DlrmFlow.iteration

    def listed(flow: DlrmFlow) -> None:
        flow.program = program = Listed()
        iteration(flow)
        found.append([row for row in program.exchanged if row[0].endswith("all_reduce")])

    monkeypatch.setattr(DlrmFlow, "iteration", listed)
    wide(**options)
    return found


def test_buckets_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """In buckets of 0.2 MB: 404 bytes and 400,400 more don't fit, so these are three pieces;
    164,000 and 16,016 fit, 28,000 more don't."""
    assert reduced(monkeypatch, bucket_mb=0.2) == [
        [
            ("top.2.weight_gradient.all_reduce", TOP[2]),
            ("top.1.weight_gradient.0.all_reduce", 133_466),
            ("top.1.weight_gradient.1.all_reduce", 133_467),
            ("top.1.weight_gradient.2.all_reduce", 133_467),
            ("bottom.1.weight_gradient.all_reduce", TOP[0] + BOTTOM[1]),
            ("bottom.0.weight_gradient.all_reduce", BOTTOM[0]),
        ]
    ]


def test_one_bucket_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = reduced(monkeypatch, bucket_mb=25)
    assert one == [("bottom.0.weight_gradient.all_reduce", sum(TOP) + sum(BOTTOM))]


def test_buckets_without_the_bottom_mlp(monkeypatch: pytest.MonkeyPatch) -> None:
    """NPU 0 has the bottom MLP alone: all NPUs reduce the top MLP's gradients only, the same
    buckets."""
    found = reduced(monkeypatch, bucket_mb=25, bottom="first", dp=9)
    assert found == [[("top.0.weight_gradient.all_reduce", sum(TOP))]] * 2


def shares(**options: object) -> tuple[float, float]:
    """The step on four NPUs, and the time of all its operations on one of them, ns."""
    platform = arm.Platform.load("zionex", settings={"topology": "Switch(2)_Switch(2)"})
    result = arm.simulate(wide(ranks_per_node=2, **options), platform)
    total = sum(row["total_ns"] for row in result.report["operations"])
    return result.step_time_ns, total / 4


@pytest.mark.parametrize("bucket_mb", [None, 0.2, 25])
@pytest.mark.parametrize("sharding", ["table", "row", "data"])
def test_without_overlap_all_times_add_up(sharding: str, bucket_mb: float | None) -> None:
    given = {"sharding": sharding, "flow": "hoti", "passes": 2, "elementwise": True}
    step, total = shares(**given, overlap=False, bucket_mb=bucket_mb)
    assert step == pytest.approx(total) if bucket_mb != 0.2 else step <= total
    assert shares(**given, bucket_mb=bucket_mb)[0] < step


def test_a_measured_step_has_neither() -> None:
    with pytest.raises(InputError) as caught:
        wide(bench="bench.json", overlap=False, bucket_mb=25)
    said = [str(problem) for problem in caught.value.problems]
    assert len(said) == 2
    for problem, other in zip(said, ("overlap false", "bucket_mb"), strict=True):
        assert re.search(f"bench: given together with {other}", problem)
