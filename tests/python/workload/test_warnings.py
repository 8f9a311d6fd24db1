"""Assumptions of generators, which every run of their workloads warns of."""

from __future__ import annotations

import pytest

import armillary as arm
from armillary.workload.families import build


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("resnet-50", {"dp": 2}, "the optimizer takes memory, and no time"),
        ("resnet-50", {"dp": 2, "elementwise": False}, "nothing but convolutions takes time"),
        ("resnet-50", {"dp": 2, "repack": True}, "repack has no effect"),
        (
            "resnet-50",
            {"dp": 2, "kernels": "fused", "elementwise": False},
            "elementwise has no effect",
        ),
        ("ispass-resnet-50", {"dp": 2}, "times are recorded: parameters"),
        ("dlrm-criteo-kaggle", {"dp": 8}, "all-to-alls have the size of the NPU with most"),
        ("megatron-1.7b", {"dp": 2, "sp": True}, "sp has no effect with tp 1"),
        ("megatron-1.7b", {"dp": 1, "zero": 1}, "ZeRO 1 has no effect"),
        ("megatron-1.7b", {"pp": 13}, "24 layers over 13 parts"),
    ],
)
def test_assumptions_are_warnings_of_every_run(
    model: str, options: dict[str, object], said: str
) -> None:
    workload = build(model, **options)
    platform = arm.Platform.load("dgx-h100", {"npus": workload.ranks})
    assert any(said in warning for warning in arm.simulate(workload, platform).warnings)
    assert workload.summary
    assert any(said in note for note in workload.summary.notes)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("resnet-50", {"dp": 2, "kernels": "fused"}),
        ("dlrm-small", {"dp": 4}),
        ("megatron-1.7b", {"dp": 2}),
    ],
)
def test_information_stays_a_note(model: str, options: dict[str, object]) -> None:
    workload = build(model, **options)
    platform = arm.Platform.load("dgx-h100", {"npus": workload.ranks})
    assert not arm.simulate(workload, platform).warnings


def test_a_comparison_says_whose_a_warning_is() -> None:
    platform = arm.Platform.load("dgx-h100", {"npus": 2})
    one, two = (
        arm.simulate(build("resnet-50", dp=2, kernels=kernels), platform, detail=True)
        for kernels in ("multiplications", "fused")
    )
    said = "kernels multiplications: the optimizer takes memory, and no time"
    found = arm.compare(one, two, names=["lone", "fused"])
    assert found.data["warnings"] == [f"lone: {said}"]
    assert f"warning: lone: {said}" in str(found)
    assert arm.compare(one, one, names=["a", "b"]).data["warnings"] == [said]
