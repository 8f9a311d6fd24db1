"""Parts of a recommendation model's step and Eq. 1, with times that add up by hand."""

from __future__ import annotations

import json

import pytest

import armillary as arm
from armillary.explain import dlrm_parts
from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary.workload.dlrm import dlrm

US = 10**6
TIMES = {
    "bottom.0.forward": 10,
    "embedding.forward": 20,
    "interaction.forward": 5,
    "top.0.forward": 30,
    "top.0.weight_gradient": 40,
    "top.0.input_gradient": 30,
    "interaction.input_gradient": 6,
    "embedding.weight_gradient": 50,
    "bottom.0.weight_gradient": 15,
    "data": 7,
}
"""us of each operation, one after the other."""


def result(factor: int = 1) -> arm.Result:
    """Two ranks, with an all-to-all of 11 us each way and an all-reduce in the background."""
    program = arm.workload.Program()
    last: list[int] = []
    for name, us in TIMES.items():
        last = [program.compute(name, last, duration_ps=factor * us * US)]
        if name in ("embedding.forward", "interaction.input_gradient"):
            called = name.replace("interaction", "embedding")
            last = [program.collective(f"{called}.all_to_all", last, "all_to_all", 20_000)]
    program.collective("top.0.weight_gradient.all_reduce", [4], "all_reduce", 20_000)
    platform = arm.Platform("FullyConnected(2)", bandwidth="1 GB/s", latency="1 us", per="link")
    workload = arm.Workload.listed("step", [program], [0, 0], {})
    return arm.simulate(workload, platform, detail=True)


def test_parts_add_up_to_the_step() -> None:
    report = result().report
    found = dlrm_parts.parts(report)
    assert sum(found.values()) == pytest.approx(report["step_time_ns"])
    assert found["lookup"] == 20_000 and found["update"] == 50_000
    assert found["bottom MLP"] == 25_000 and found["top MLP"] == 100_000
    assert found["interaction"] == 11_000 and found["data"] == 7_000
    # Two all-to-alls of half of 20 kB at 1 GB/s after 1 us; the all-reduce is hidden.
    assert found["exchanges"] == pytest.approx(2 * 11_000, rel=0.01)


def test_eq_1() -> None:
    """forward = max(10, 20 + 11) + 5 + 30, backward = 70 + 6 + max(11 + 50, 15)."""
    report = result().report
    found = dlrm_parts.roofline(report, samples=512)
    assert found["forward_ns"] == pytest.approx(66_000, rel=0.01)
    assert found["backward_ns"] == pytest.approx(137_000, rel=0.01)
    assert found["step_ns"] == found["forward_ns"] + found["backward_ns"]
    assert found["reached"] == pytest.approx(found["step_ns"] / report["step_time_ns"])
    needs = {each["name"]: each["time_ns"] for each in found["resources"]}
    assert needs["compute"] == 136_000
    assert needs["memory bandwidth of tables"] == 70_000
    assert needs["all-to-all"] == pytest.approx(22_000, rel=0.01)
    assert found["binding"] == "compute"
    assert found["samples_per_second"] == pytest.approx(512 / 203e-6, rel=0.01)
    allowed = {each["name"]: each["samples_per_second"] for each in found["resources"]}
    assert allowed["compute"] == pytest.approx(512 / 136e-6)


def test_the_roofline_is_in_the_report() -> None:
    """In the JSON and on the page; nothing of a workload that is not a recommendation model."""
    found = arm.simulate(dlrm("dlrm-dcnv2", dp=8, elementwise=True), "dgx-a100")
    roofline = json.loads(found.to_json())["roofline"]
    assert roofline == found.report["roofline"] == dlrm_parts.of(found.report)
    parts = roofline["parts"]
    # Layers of the cross network belong to the interaction.
    of_cross = sum(
        row["total_ns"] / 8
        for row in found.report["operations"]
        if row["name"].startswith(("cross", "interaction")) and "forward" in row["name"]
    )
    assert parts["interaction_forward"] == pytest.approx(of_cross)
    assert 0.5 < roofline["reached"] <= 1
    assert roofline["samples"] == 8 * parse(load_model("dlrm-dcnv2")).local_batch
    assert "Parts of the roofline" in found.html(what_if=False)
    program = arm.workload.Program()
    program.compute("top.0.forward", [], duration_ps=US)
    two = arm.Platform.load("dgx-a100", npus=2)
    other = arm.simulate(arm.Workload.listed("other", [program], [0, 0], {}), two)
    assert json.loads(other.to_json())["roofline"] is None
    assert "Roofline" not in other.html(what_if=False)


def test_a_comparison_shows_both_side_by_side() -> None:
    found = arm.compare(result(), result(2), names=["recorded", "predicted"])
    rows = {row["part"]: row for row in json.loads(found.to_json())["pairs"][0]["parts"]["rows"]}
    assert rows["top MLP"] == {"part": "top MLP", "a_ns": 100_000, "b_ns": 200_000}
    said = str(found)
    assert "Side by side" in said and "Roofline" in said
