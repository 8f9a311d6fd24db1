"""Contents of memory outside of the NPUs: in JSON, Python, text and on pages."""

from __future__ import annotations

from pathlib import Path

import pytest

import armillary as arm
from armillary.report import outside
from armillary.workload import Program, Workload, transformer

POOL = """\
topology: SW(4)
links: {bandwidth: 50 GB/s, latency: 0 ns}
remote_memory: {model: ring, stations: 2, groups: 2, capacity: 500 B, chunk_size: 1 kB,
  memory_side: {bandwidth: 100 GB/s}, between: {bandwidth: 50 GB/s}, npu_side: {bandwidth: 50 GB/s}}
"""


def _run(*accesses: tuple[int, int]) -> arm.Result:
    """Each of four NPUs loads the bytes of tensors, one after the other."""
    program, last = Program(), list[int]()
    for number, (size, tensor) in enumerate(accesses):
        last = [program.memory(f"load {number}", last, size, tensor=tensor)]
    workload = Workload.listed("loads", [program], [0, 0, 0, 0], {})
    return arm.simulate(workload, arm.Platform.parse(POOL, "pool.yml"))


def test_a_pool_holds_the_tensors_of_all_npus() -> None:
    """4 x (150 + 30) bytes of two groups of 500; the second load of a tensor adds nothing."""
    result = _run((150, 1), (150, 1), (30, 2))
    assert result.outside == [
        {
            "name": "memory pool",
            "memories": 1,
            "ranks": 4,
            "least_bytes": 720,
            "most_bytes": 720,
            "peak_ns": 0.0,
            "contents": {
                "weights_bytes": 0,
                "gradients_bytes": 0,
                "optimizer_bytes": 0,
                "tables_bytes": 0,
                "spilled_bytes": 0,
                "other_bytes": 720,
            },
            "capacity_bytes": 1000,
        }
    ]
    assert outside.lines(result.report) == ["the memory pool holds 720 B of 1.000 kB, for 4 NPUs"]


def test_tensors_without_a_number_give_bounds() -> None:
    """One tensor of 100 bytes, or two of 140 together, on each of four NPUs."""
    result = _run((100, 0), (40, 0))
    assert outside.held(result.outside[0]) == "400 B to 560 B"


def test_offloaded_states_are_told_apart() -> None:
    """Adam: 2 bytes of weight, 2 of gradient and 12 of states for each parameter of a rank."""
    platform = arm.Platform.parse(POOL.replace("500 B", "1 TB").replace("1 kB", "1 MB"), "pool.yml")
    workload = transformer(
        "llama-3-8b", dp=4, zero=3, offload="parameters", precision="bf16", fp32_gradients=False
    )
    assert workload.summary is not None
    contents = arm.simulate(workload, platform).outside[0]["contents"]
    parts = [contents["weights_bytes"], contents["gradients_bytes"], contents["optimizer_bytes"]]
    assert parts == pytest.approx(
        [each * workload.summary.parameters for each in (2, 2, 12)], rel=1e-6
    )


def test_the_page_has_them(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = _run((150, 1))
    result.html(path)
    assert "Memory outside of the NPUs" in path.read_text(encoding="utf-8")
    assert outside.table(arm.simulate(_quiet(), "dgx-h100", npus=8).report) is None


def _quiet() -> Workload:
    """A computation on each of eight NPUs."""
    program = Program()
    program.compute("work", [], operations=1000)
    return Workload.listed("work", [program], [0] * 8, {})
