"""Efficiencies of hardware that no fit has seen, and how far off its steps are."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from armillary.platform import Platform, presets
from armillary.uncertainty import of
from armillary.uncertainty.steps import labels, measured
from armillary_lab.fit import steps_of_unseen_sources as steps
from armillary_lab.fit import steps_on_unseen_hardware as hardware
from armillary_lab.measured.training import trainings

ROOT = Path(__file__).resolve().parents[3]
ALL = list(hardware.PRESETS)
ASSUMED = ("gemm", "convolution", "attention")
MEMORY = (*ASSUMED, "elementwise", "normalization", "embedding", "optimizer")


def settings(preset: str) -> dict[str, dict[str, int]]:
    """The compute of a preset's NPU."""
    found: dict[str, dict[str, int]] = Platform.load(preset).describe()["npu"]["compute_settings"]
    return found


def test_the_prior_is_the_geometric_mean_over_generations() -> None:
    """Of what the parts of A100, H100, B200, GB200 and GB300 say."""
    family = (0.725 * 0.6 * 0.75 * 0.64 * 0.7625 * 0.8) ** (1 / 3)
    found = hardware.prior(ALL)
    gemm = (0.8 * 0.95 * 0.8 * 0.68 * family) ** (1 / 3)
    assert found["efficiency"]["gemm"] == pytest.approx(gemm)
    assert found["efficiency"]["attention"] == pytest.approx((0.29 * 0.205 * 0.38) ** (1 / 3))
    assert found["memory_efficiency"]["elementwise"] == pytest.approx(
        (0.66 * 0.95 * 0.46) ** (1 / 3)
    )
    kept = (0.95 * 0.68 * (0.6 * 0.64 * 0.8) ** (1 / 3)) ** (1 / 3)
    assert hardware.sustained(ALL) == pytest.approx(kept)
    without = hardware.parameters(["A100", "H100"])
    assert without["gemm"] == pytest.approx((0.8 * 0.95 * 0.8 * 0.68) ** 0.5)
    assert without["fp8"] == without["fp4"] == pytest.approx(0.7206 * 0.68, rel=1e-4)


@pytest.mark.parametrize("preset", ["tpu-v3-pod", "tpu-v5p-pod", "mi300x-8", "mi355x-8"])
def test_presets_without_measured_steps_have_the_prior(preset: str) -> None:
    found, prior = settings(preset), hardware.prior(ALL)
    kept = hardware.sustained(ALL)
    assert found["sustained_ppm"] == pytest.approx(1e6 * kept, rel=1e-3)
    for kind in ASSUMED if preset.startswith("tpu") else ASSUMED[1:]:
        whole = prior["efficiency"][kind] / (kept if kind == "gemm" else 1)
        assert found["efficiency_ppm"][kind] == pytest.approx(1e6 * whole, rel=2e-3), kind
    for kind in MEMORY:
        value = 1e6 * prior["memory_efficiency"][kind]
        assert found["memory_efficiency_ppm"][kind] == pytest.approx(value, rel=2e-3), kind


def test_the_page_has_the_prior() -> None:
    page = (ROOT / "docs/models/compute.md").read_text(encoding="utf-8")
    found = settings("tpu-v5p-pod")
    for side, kinds in (("efficiency", ASSUMED), ("memory_efficiency", MEMORY)):
        for kind in kinds:
            value = found[f"{side}_ppm"][kind] / 1e6
            cells = "`gemm`, `attention`" if side == "memory_efficiency" else f"`{kind}`"
            cells = cells if kind in ("gemm", "attention") else f"`{kind}`"
            assert f"{cells} | {value:g} |" in page, (side, kind)
    assert f"| `sustained` | | {found['sustained_ppm'] / 1e6:g} |" in page  # type: ignore[operator]


@pytest.mark.parametrize("name", presets(papers=False))
def test_a_preset_says_whether_steps_were_measured(name: str) -> None:
    """Those on GPUs with residuals of left-out sources, and those of ResNet-50 and DLRM (V100)."""
    npu = Platform.load(name).describe()["npu"]
    known = measured() | {"V100"}
    gpu = labels(npu["name"], "bf16", "transformer", 8)["gpu"]
    assert (npu["compute_settings"]["fitted_on"] is None) == (gpu in known)


def test_a_run_with_the_efficiencies_of_others() -> None:
    """8 s of multiplications at 0.5 of the peak take 10 s at 0.4."""
    efficiency = {"gemm": 0.5, "fp8": 0.5, "fp4": 0.5, "attention": 0.3, "streams": 0.6}
    run = replace(trainings()[0], iter_time_s=12.0)
    made = steps.Simulated(run, 10.0, {"gemm": 8 / steps.STEP + 2}, efficiency)
    found = hardware.predicted(made, efficiency | {"gemm": 0.4})
    assert found == pytest.approx(math.log(12 / (8 * 0.5 / 0.4 + 2)))


def test_the_table_has_a_source_for_each_generation() -> None:
    """As many runs as those of left-out sources, and no GPU as a label."""
    found, others = of("hardware").residuals, of("steps").residuals
    assert {each.source for each in found} == set(ALL)
    assert sum(len(each.logs) for each in found) == sum(len(each.logs) for each in others)
    assert not any("gpu" in each.labels for each in found)
