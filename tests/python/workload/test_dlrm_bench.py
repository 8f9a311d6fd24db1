"""Steps with parts that `armillary bench` measured: these parts take their time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.workload.dlrm import dlrm

PARTS = {
    "data": 100.0,
    "inputs.distribute": 10.0,
    "embedding.collect": 20.0,
    "embedding.spread": 30.0,
    "interaction.forward": 40.0,
    "interaction.input_gradient": 50.0,
    "loss.forward": 60.0,
    "scores": 70.0,
    "optimizer": 80.0,
    "trainer": 90.0,
}
"""us."""


def written(folder: Path, ranks: int, **changed: object) -> str:
    rows = [{"name": name, "us": us, "samples": 64} for name, us in PARTS.items()]
    data: dict[str, Any] = {"schema": "armillary.bench/1", "model": "dlrm-small", "parts": rows}
    data |= {"processes": ranks, "batch": 64 * ranks, **changed}
    path = folder / "bench.json"
    path.write_text(json.dumps(data))
    return str(path)


def rows(folder: Path, ranks: int) -> tuple[dict[str, Any], float]:
    """Operations by name, and the step in us, on NPUs that compute only what was measured."""
    workload = dlrm(
        "dlrm-small",
        dp=ranks,
        local_batch=64,
        sharding="table",
        bench=written(folder, ranks),
        elementwise=True,
    )
    platform = arm.Platform(
        f"Switch({ranks})",
        bandwidth="1000 GB/s",
        latency="1 ns",
        settings={"npu.compute.model": "recorded"},
    )
    report = arm.simulate(workload, platform, detail=True).report
    return {row["name"]: row for row in report["operations"]}, report["step_time_ns"] / 1e3


def test_every_part_takes_its_time(tmp_path: Path) -> None:
    found, us = rows(tmp_path, 2)
    for name, expected in PARTS.items():
        assert found[name]["count"] == 2 and found[name]["total_ns"] == 2e3 * expected, name
    assert us == pytest.approx(sum(PARTS.values()), rel=0.01)
    # One sum of gradients for each MLP, one step of the optimizer, and no dot products besides.
    sums = {name for name in found if found[name]["kind"] == "all_reduce"}
    assert sums == {"top.weight_gradient.all_reduce", "bottom.weight_gradient.all_reduce"}
    weights = 52 * 64 + 64 + 64 * 32 + 32 + 32 + 1
    assert found["top.weight_gradient.all_reduce"]["bytes"] == 2 * 4 * weights
    assert not [name for name in found if name.endswith(".optimizer")]
    assert not [name for name in found if name.startswith("interaction.") and name not in PARTS]


def test_files_of_other_runs_are_refused(tmp_path: Path) -> None:
    for changed, said in (
        ({"model": "dlrm-mlperf"}, "measured dlrm-mlperf on 2 processes with 128 samples"),
        ({"batch": 64}, "measured dlrm-small on 2 processes with 64 samples"),
        ({"parts": []}, "has no parts of a model's step"),
        ({"schema": "armillary.train/1"}, "has no parts of a model's step"),
        ({"parts": [{"name": "data", "us": -1}]}, "is damaged"),
        ({"parts": 3}, "is damaged"),
    ):
        with pytest.raises(InputError) as caught:
            dlrm("dlrm-small", dp=2, local_batch=64, bench=written(tmp_path, 2, **changed))
        assert said in str(caught.value)
    given = written(tmp_path, 2)
    with pytest.raises(InputError, match="given together with host_us"):
        dlrm("dlrm-small", dp=2, local_batch=64, bench=given, host_us=5)
    with pytest.raises(InputError):
        dlrm("dlrm-small", dp=2, local_batch=64, bench=str(tmp_path / "none.json"))
    (tmp_path / "bench.json").write_text("[1, 2]")
    with pytest.raises(InputError, match=r"no parts of a model|is damaged"):
        dlrm("dlrm-small", dp=2, local_batch=64, bench=given)


@pytest.mark.parametrize(("replay", "us"), [(True, 10.0), (False, 18.0)])
def test_a_replay_is_not_slower_for_what_it_communicates(replay: bool, us: float) -> None:
    """9 us of computation next to 10 us of communication, as recorded. Where the network decides,
    64 MB take longer than the computation, which has half of its speed: 18 us."""
    program = arm.workload.Program()
    program.collective("sum", [], "all_reduce", 64_000_000, "", duration_ps=10_000_000)
    work = program.compute("work", [], duration_ps=9_000_000)
    program.compute("end", [work], duration_ps=0)
    workload = arm.Workload.listed("both", [program], [0, 0], {})
    platform = arm.Platform(
        "Switch(2)",
        bandwidth="100 GB/s",
        latency="1 us",
        settings={
            "npu.compute.model": "recorded",
            "npu.compute.comm_overlap_slowdown": 0.5,
            "scheduler.replay_only": replay,
        },
    )
    report = arm.simulate(workload, platform, detail=True).report
    took = {row["name"]: row["total_ns"] / row["count"] / 1e3 for row in report["operations"]}
    assert max(took["work"], took["sum"] if replay else 0) == pytest.approx(us, rel=1e-6)
