"""How texts run: with and without overlap, and in buckets. Times follow from the text itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import armillary as arm
from armillary import api

pytestmark = pytest.mark.usefixtures("workers_in_copies")

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/papers/transformer.txt"
TEXT = """DATA
2
a -1 1000 NONE 0 0 NONE 0 1000 ALLREDUCE 2000 100
b -1 1000 NONE 0 500 NONE 0 1000 ALLREDUCE 4000 100
"""
COMPUTE = 4500
"""ns of all computations of a pass."""


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "t.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def platform() -> arm.Platform:
    """Four NPUs that exchange 1 byte in each ns, in one chunk and without latency."""
    made = arm.Platform("Ring(4)", bandwidth="1 GB/s", latency="0 ns", per="npu")
    return made.changed({"scheduler.chunks": "1", "scheduler.endpoint_delay": "0 ns"})


def step(text: str, **options: Any) -> float:  # noqa: ANN401 - of several types
    """ns of a step."""
    made = platform()
    return api.simulate(arm.load(text, made, **options), made).step_time_ns


def all_reduce(size: int) -> float:
    """ns that the ring takes: each NPU sends 3 / 4 of the bytes twice."""
    return 2 * 3 / 4 * size


def test_overlap_hides_what_the_loop_allows(text: str) -> None:
    # b's exchange, 6,000 ns, begins at 3,000 ns and goes on after the last computation; a's waits
    # for it on the ring.
    assert step(text) == 3000 + all_reduce(4000) + all_reduce(2000) + 100


def test_without_overlap_all_times_add_up(text: str) -> None:
    expected = COMPUTE + all_reduce(4000) + 100 + all_reduce(2000) + 100
    assert step(text, overlap=False) == expected
    assert step(text, overlap=False, passes=3) == 3 * expected


def test_a_bucket_is_exchanged_behind_its_last_gradient(text: str) -> None:
    # Updates take turns on the host.
    assert step(text, bucket_mb=0.1) == COMPUTE + all_reduce(6000) + 200


def test_gradients_are_cut_into_buckets(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_text("DATA\n1\na -1 0 NONE 0 0 NONE 0 0 ALLREDUCE 400000 0\n", encoding="utf-8")
    made = platform()
    report = api.simulate(arm.load(str(path), made, bucket_mb=0.1), made).report
    assert [each["count"] for each in report["operations"] if each["bytes"]] == [4 * 4]


def test_a_report_repeats_its_run(text: str) -> None:
    made = platform()
    result = api.simulate(arm.load(text, made, overlap=False, bucket_mb=0.1), made)
    again = api.rerun(result.report)
    assert callable(again)
    assert again({}, False, {})["step_time_ns"] == result.step_time_ns != step(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bucket_mb": 0}, "0 is out of range"),
        ({"overlap": "no"}, "'no' is neither on nor off"),
        ({"tp": 2}, "unknown option"),
    ],
)
def test_other_values_are_refused(text: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(arm.InputError, match=said):
        arm.load(text, platform(), **options)


def test_traces_take_neither(tmp_path: Path, text: str) -> None:
    made = platform()
    arm.load(text, made).write(tmp_path / "traces", "chakra")
    for options in ({"overlap": False}, {"bucket_mb": 1}):
        with pytest.raises(arm.InputError, match="for models and texts only"):
            arm.load(tmp_path / "traces", made, **options)


def test_a_sweep_varies_them(text: str) -> None:
    found = arm.sweep(
        {
            "workload": {"path": text, "bucket_mb": None},
            "platform": {"file": "dgx-h100", "npus": 4},
            "parameters": {"workload.overlap": [True, False], "workload.passes": [1, 2]},
        },
        workers=1,
    )
    assert (found.failed, found.table.height) == (0, 4)
    assert found.table["step_time_ns"].n_unique() == 4


def test_the_split_of_the_paper_sends_what_its_list_of_layers_sends() -> None:
    """ISPASS 2020, section V-E: data-parallel across the local and the horizontal dimension,
    model-parallel across the vertical one."""
    made = arm.Platform.load("paper-ispass-torus-2x2x2")
    text = api.simulate(arm.load(EXAMPLE, made), made).report
    listed = api.simulate(arm.load("ispass-transformer", dp=4, mp=2, inner_dp=2), made).report
    sent = [[each["bytes"] for each in report["dimensions"]] for report in (text, listed)]
    assert sent[0] == sent[1]
    assert min(sent[0]) > 0
