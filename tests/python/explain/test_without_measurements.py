"""A platform without measured steps says so next to the step time, and has a wider interval."""

from __future__ import annotations

import io
import json
import re

import pytest

import armillary as arm
from armillary.explain import step_interval
from armillary.report import breakdown
from armillary.report.terminal import Terminal
from armillary.uncertainty import steps
from armillary.workload import build

SAID = (
    "no measurement of a training step supports tpu-v5p-pod: its efficiencies are those fitted on "
    "GPUs"
)
TORUS = {"topology": "R(2)_R(2)_R(2)"}


@pytest.fixture(scope="module")
def result() -> arm.Result:
    platform = arm.Platform.load("tpu-v5p-pod", TORUS)
    return arm.simulate("llama-3-8b", platform, dp=8, zero=3)


def test_python_json_and_the_page_warn(result: arm.Result) -> None:
    assert result.warnings[0].startswith(SAID)
    assert json.loads(result.to_json())["warnings"][0].startswith(SAID)
    page = re.sub(r"<[^>]*>", "", result.html(what_if=False))
    assert SAID in page
    assert "on hardware that no fit has seen" in page


def test_the_terminal_warns_before_the_tables(result: arm.Result) -> None:
    written = io.StringIO()
    said = step_interval.sentence(result.report)
    assert said is not None
    breakdown.show(result.report, "", Terminal(file=written), [said])
    text = " ".join(written.getvalue().split())
    assert text.index(f"warning: {SAID}") < text.index("Where the time goes")
    assert "80 % of measured steps on hardware that no fit has seen would be within" in text


@pytest.mark.parametrize("preset", ["dgx-h100", "dgx-a100-80gb", "dgx-b200"])
def test_presets_with_measurements_do_not_warn(preset: str) -> None:
    found = arm.simulate("llama-3-8b", preset, dp=8, zero=3, micro_batch=1, seq=1024)
    assert not any("no measurement" in each for each in found.warnings)


def test_nothing_is_assumed_where_durations_are_recorded() -> None:
    platform = arm.Platform.load("tpu-v5p-pod", TORUS | {"npu.compute": "recorded"})
    found = arm.simulate("llama-3-8b", platform, dp=8, zero=3)
    assert not any(SAID in each for each in found.warnings)


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("family", ["transformer", "moe"])
@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_unknown_hardware_is_less_sure_than_any_known(
    family: str, precision: str, stated: bool
) -> None:
    other = steps.interval("TPU-v5p", precision, family, 256, stated)
    assert other is not None
    assert other.outside[0] == "gpu TPU"
    for gpu in ("A100", "H100", "B200", "GB200"):
        known = steps.interval(gpu, precision, family, 256, stated)
        assert known is not None
        assert other.width > known.width, gpu


def test_steps_on_tpus_that_others_published_lie_within() -> None:
    """MaxText's Llama-like models on v5p have 64 to 71 % MFU (google/maxtext README.md at
    cc7478e2), with what they recompute unknown: between none and all of it."""
    platform = arm.Platform.load("tpu-v5p-pod", {"topology": "R(4)_R(4)_R(4)"})
    options: dict[str, object] = {"dp": 64, "zero": 3, "micro_batch": 4, "seq": 2048}
    found = arm.simulate(build("llama-2-70b", **options), platform)
    assert found.mfu is not None
    assert found.interval is not None
    slowest, fastest = (found.mfu / factor for factor in (found.interval.high, found.interval.low))
    assert slowest < 0.64
    assert fastest > 0.7147


def test_the_efficiencies_of_others_are_no_advice() -> None:
    """A value that an own platform lacks is not taken from a preset that assumed it."""
    own = arm.Platform(
        "R(8)", bandwidth="90 GB/s", latency="1 us", settings={"npu.peak": "459 TFLOPS"}
    )
    found = arm.simulate("llama-3-8b", own, dp=8, zero=3).report["assumptions"]
    [text] = [each for each in found if "100 % of the peak" in each]
    assert "tpu" not in text
