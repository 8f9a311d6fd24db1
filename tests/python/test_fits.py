"""The three answers about memory: one rule, and every place that asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Armillary

import armillary as arm
from armillary import _core
from armillary.design.reader import task as read
from armillary.errors import InputError
from armillary.plan import plan
from armillary.workload import build, needed_memory

META = "--tp 8 --pp 16 --dp 128 --virtual-stages 8 --zero 1 --sp --global-batch 2048 "
META += "--framework-set saved=fused --framework-set loss=fused"


def test_the_band_is_five_percent_of_the_capacity() -> None:
    assert [_core.fits(value, 1000) for value in (0, 950, 951, 1050, 1051)] == [
        "yes",
        "yes",
        "near",
        "near",
        "no",
    ]
    assert _core.fit_limits(1000) == (950, 1050)


def test_layouts_that_ran_are_not_refused_and_those_that_did_not_are_caught() -> None:
    """Meta trained Llama-3-405B with these degrees on GPUs of 80 GB (arXiv:2407.21783, table 4).
    Two micro-batches as large need twice the activations, 150 GB."""
    options: dict[str, Any] = {
        "tp": 8,
        "pp": 16,
        "dp": 128,
        "virtual_stages": 8,
        "zero": 1,
        "sp": True,
    }
    options["framework_set"] = {"saved": "fused", "loss": "fused"}
    platform = arm.Platform.load("dgx-h100-16n")
    for micro_batch, answer in ((1, "near"), (2, "no")):
        needed = needed_memory(
            "llama-3-405b", **options, global_batch=2048 * micro_batch, micro_batch=micro_batch
        )
        assert needed is not None
        assert platform.fits(needed) == answer


def test_a_run_says_near_in_text_json_and_page(armillary: Armillary, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    ran = armillary("run", "llama-3-405b", *META.split(), "-p", "dgx-h100-16n", "--json", str(path))
    said = "It may not fit, or be slow: an NPU would need 83.17 GB and has 80.00 GB"
    assert said in " ".join(ran.stdout.split())
    assert "does not fit" not in ran.stdout + ran.stderr
    written = json.loads(path.read_text())
    assert written["fits"] == "near"
    assert any(
        "79.0 GB to 87.3 GB). If it fits, it may be slow" in each for each in written["warnings"]
    )


@pytest.mark.parametrize(
    ("capacity", "answer"), [(1.1, "yes"), (1.02, "near"), (0.97, "near"), (0.9, "no")]
)
def test_every_place_says_the_same(
    armillary: Armillary, tmp_path: Path, capacity: float, answer: str
) -> None:
    needed = needed_memory("megatron-1.7b", dp=8, global_batch=32)
    assert needed is not None
    held = f"npu.memory.capacity={int(needed * capacity)} B"
    arguments = ("megatron-1.7b", "--dp", "8", "--global-batch", "32", "-p", "dgx-h100")
    checked = armillary("check", *arguments, "--set", held)
    assert (checked.returncode == 2) == (answer == "no")
    assert ("may not fit" in checked.stderr) == (answer == "near")
    result = arm.simulate(
        build("megatron-1.7b", dp=8, global_batch=32),
        arm.Platform.load("dgx-h100", dict([held.split("=")])),
    )
    assert result.fits == result.report["fits"] == answer
    assert any("may not fit" in each for each in result.warnings) == (answer == "near")
    assert result.verdict(what_if=False).facts["fits"] == answer
    word = {"yes": "of an NPU's", "near": ": may not fit", "no": ": does not fit"}[answer]
    assert word in result.html(what_if=False)


def test_a_plan_is_near_only_where_that_is_asked_for() -> None:
    """Tables of 8 ranks in memory that is 2 % larger than an eighth of the best plan's."""
    free = plan("dlrm-criteo-t3", "zionex", 8, capacity=10**12, simulate=False)
    tight = arm.Platform.load("zionex", npus=8).changed(
        {"npu.memory.capacity": f"{int(sum(free.memory) / 8 * 1.02)} B"}
    )
    near = plan("dlrm-criteo-t3", tight, near=True, simulate=False)
    assert near.fits == "near"
    try:
        sure = plan("dlrm-criteo-t3", tight, simulate=False)
    except InputError as error:
        assert "--near" in str(error)
        return
    assert sure.fits == "yes"
    assert sure.near_load is None or sure.near_load < sure.highest


SPEC = """name: near
npus: 8
topologies: ["R(8)"]
bandwidth: 300 GB/s
latency: 500 ns
workloads:
  - {{model: megatron-1.7b, global_batch: 32, recompute: [none, full], near: {near}}}
npu: {{peak: 312 TFLOPS, memory: {{bandwidth: 2 TB/s, capacity: {capacity} B}}}}
"""


def test_a_design_tries_near_layouts_only_where_that_is_asked_for(tmp_path: Path) -> None:
    needed = needed_memory("megatron-1.7b", dp=8, global_batch=32)
    assert needed is not None
    path = tmp_path / "spec.yml"
    for near, tried in (("false", 1), ("true", 2)):
        path.write_text(SPEC.format(near=near, capacity=needed))
        task = read(path)
        assert (len(task.choices), "may not fit" in " ".join(task.notes)) == (tried, True)
