"""No run computes faster than its NPUs can: the operations that run, each at the peak of its number
format, fit into the step."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import some, usually

import armillary as arm
from armillary.platform import presets
from armillary.workload import build

MODELS = (
    "llama-2-7b",
    "llama-3-8b",
    "mixtral-8x7b",
    "qwen3-30b-a3b",
    "gpt-oss-120b",
    "deepseek-v3",
)
"""Multi-head and grouped-query attention, windows, experts, compressed keys and values (MLA)."""
OTHERS = ("resnet-50", "dlrm-small")
FULL_SPEED = {"npu.compute": "roofline"}
"""Kernels that reach all of the peak: nothing hides what is counted too often."""


@cache
def machines() -> dict[str, str]:
    """By what presets say of their NPUs, the smallest preset."""
    found: dict[str, arm.Platform] = {}
    for name in presets(papers=True):
        platform = arm.Platform.load(name)
        kind = json.dumps(platform.describe()["npu"], sort_keys=True)
        if kind not in found or platform.npus < found[kind].npus:
            found[kind] = platform
    return {kind: each.name for kind, each in found.items()}


def utilisation(model: str, platform: arm.Platform, **options: object) -> float:
    """HFU of a run."""
    result = arm.simulate(build(model, **options), platform)
    assert result.hfu is not None
    return result.hfu


@st.composite
def runs(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """A language model with options on eight NPUs."""
    model = draw(st.sampled_from(MODELS))
    tp = draw(st.sampled_from([1, 2, 4]))
    precision = draw(st.sampled_from(["bf16", "fp16", "fp32", "fp8", "nvfp4"]))
    return model, {
        "tp": tp,
        "dp": 8 // tp,
        "seq": draw(st.sampled_from([512, 2048, 8192, 65536, 262144])),
        "zero": draw(st.sampled_from([1, 3])) if tp == 1 else 1,
        "micro_batch": draw(st.sampled_from([1, 2])),
        "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "precision": precision,
        "attention": draw(st.sampled_from(["flash", "unfused"])),
    }


@settings(max_examples=usually(30, 600), deadline=None)
@given(runs(), st.sampled_from(["dgx-h100", "dgx-b200", "mi355x-8", "dgx-a100"]), st.booleans())
def test_no_language_model_is_faster_than_the_peak(
    run: tuple[str, dict[str, object]], preset: str, ideal: bool
) -> None:
    """At full speed and with the preset's efficiencies and number formats."""
    model, options = run
    platform = arm.Platform.load(preset)
    if ideal:
        whole = {"npu.compute.efficiency": "1", "npu.compute.memory_efficiency": "1"}
        platform = platform.changed(whole | {"npu.compute.sustained": "1"})
    assert 0 < utilisation(model, platform, **options) <= 1


def test_no_preset_is_faster_than_its_peak() -> None:
    for kind, name in some(machines().items()):
        compute = json.loads(kind)["compute"]
        if compute == "recorded":
            continue
        platform = arm.Platform.load(name)
        for seq in (2048, 131072):
            options: dict[str, object] = {"dp": platform.npus, "zero": 3, "recompute": "full"}
            assert 0 < utilisation("llama-3-8b", platform, seq=seq, **options) <= 1, name
            if compute == "roofline":
                ideal = platform.changed(FULL_SPEED)
                least = 0.0 if seq == 2048 else 0.7
                assert least < utilisation("llama-3-8b", ideal, seq=seq, **options) <= 1, name


@pytest.mark.parametrize("model", OTHERS)
def test_other_models_are_not_faster_than_the_peak(model: str) -> None:
    platform = arm.Platform.load("dgx-h100", FULL_SPEED)
    assert 0 < utilisation(model, platform, dp=8) <= 1


@pytest.mark.parametrize("speed", ["0.5", "2", "10"])
def test_faster_compute_has_a_higher_peak(speed: str) -> None:
    """`npu.compute.speedup: 2` is twice the compute power."""
    platform = arm.Platform.load("dgx-h100", FULL_SPEED | {"npu.compute.speedup": speed})
    assert 0 < utilisation("llama-3-8b", platform, dp=8, zero=3, seq=65536) <= 1


def test_the_run_of_the_finding_stays_below_the_peak() -> None:
    """It printed 100.2 %: what flash attention skips was counted."""
    platform = arm.Platform.load("tpu-v5p-pod", {"topology": "R(4)_R(4)_R(4)"} | FULL_SPEED)
    options: dict[str, object] = {"dp": 64, "zero": 3, "micro_batch": 4, "seq": 4096}
    assert utilisation("llama-2-70b", platform, recompute="full", **options) <= 1
