"""Other batches, networks and memories of a plan: each is what a run or a search there gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from conftest import Armillary
from thorough import usually

import armillary as arm
from armillary.layouts import search
from armillary.layouts.result import LayoutPlan
from armillary.layouts.sensitivity import link_bandwidths
from armillary.platform import Platform
from armillary.workload import build

DRAWS = usually(1, 20)


@pytest.mark.parametrize("seed", range(DRAWS))
def test_each_is_the_answer_there(seed: int) -> None:
    draw = random.Random(seed)
    model, ranks = draw.choice([("llama-3-8b", 8), ("llama-3-8b", 32), ("mixtral-8x7b", 32)])
    batch = draw.choice([32, 64])
    few: dict[str, tuple[object, ...]] = {
        "tp": (1, 2, 4),
        "pp": (1, 2),
        "cp": (1,),
        "zero": (0, 1, 3),
        "virtual_stages": (1,),
    }
    few |= {"schedule": ("1f1b",), "micro_batch": (1, 2)}
    target = Platform.of("dgx-h100-16n", npus=ranks)

    def found(platform: Platform, sensitivity: bool = False) -> LayoutPlan:
        return search(
            model, platform, global_batch=batch, layout=few, sensitivity=sensitivity, near=True
        )

    plan = found(target, sensitivity=True)
    winner = plan.winner
    assert found(target).neighbours == []
    assert [each.what for each in plan.neighbours].count("memory") == 5
    for each in plan.neighbours:
        if each.what == "memory":
            capacity = f"{int(80e9 * each.factor)} B"
            assert target.describe()["npu"]["memory_capacity_bytes"] == 80e9
            try:
                there = found(target.changed({"npu.memory.capacity": capacity}))
            except arm.InputError:
                assert each.options is None
                continue
            assert each.step_ns == there.front[-1].estimate_ns
            continue
        assert each.options is not None
        assert each.options == {**winner.options, "global_batch": each.options["global_batch"]}
        scale = each.factor if each.what == "network" else 1
        there_too = target.changed(link_bandwidths(target, scale))
        run = arm.simulate(build(model, **each.options), there_too, backend=plan.backend)
        assert each.step_ns == run.step_time_ns
        size = batch * (each.factor if each.what == "batch" else 1)
        assert each.options["global_batch"] == size


@pytest.mark.parametrize("platform", ["dgx-h100-16n", "tpu-v5p-pod", "paper-ispass-torus-4x4x4"])
def test_links_with_their_own_bandwidth_are_the_same(platform: str) -> None:
    target = Platform.load(platform)
    same = target.changed(link_bandwidths(target, 1.0))
    assert same.describe()["fabric"] == target.describe()["fabric"]


def test_the_page_has_them(armillary: Armillary, tmp_path: Path) -> None:
    """Eight replicas can't share half of eight samples."""
    few = ("--layout", "tp=1", "--layout", "pp=1", "--layout", "cp=1", "--layout", "zero=1,3")
    job = ("plan", "llama-3-8b", "-p", "dgx-h100", "--ranks", "8", "--global-batch", "8")
    run = armillary(*job, *few, "--report", "page.html")
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "2 x bandwidth of links" in page
    assert "0.5 x memory of an NPU" in page
    assert "0.5 x samples" in page
    assert page.count("not possible, or takes minutes") == 1
