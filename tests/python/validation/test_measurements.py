"""`python -m armillary.validation.measurements` on rows as publications have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armillary.validation.measurements import collectives, machines, steps
from armillary.validation.measurements.__main__ import main
from armillary.validation.sweeps import sweeps
from armillary.validation.training import Training, trainings

NODE: dict[str, Any] = {
    "gpu": "H100 SXM5 80GB", "gpus": 8, "nodes": 1, "gpus_per_node": 8, "nics_per_node": 0,
    "nic_Gbps": 0, "intra_node": "NVLink4 via NVSwitch", "nic": "none", "fabric": "",
    "system": "DGX H100",
}  # fmt: skip
SWEEP: dict[str, Any] = {
    "id": "h100x8_dgx_allreduce_nvidia", "op": "all_reduce", "grade": "A", "hardware": NODE,
    "software": {"algo": "default (NVLS at large sizes)"},
    "points": [
        {"bytes": 8, "oop_us": 13.67, "ip_us": 13.03},
        {"bytes": 2**24, "ip_us": 92.1},
        {"bytes": 2**34, "oop_algbw": 274.3},
    ],
    "source": {"repo": "NVIDIA/dgxc-benchmarking"},
}  # fmt: skip
STEP: dict[str, Any] = {
    "id": "vtrain_single_0088", "group": "vtrain_single", "grade": "A",
    "model": {"name": "GPT", "hidden": 1024, "heads": 16, "layers": 24, "seq": 1024},
    "hardware": {"gpu": "A100", "gpus": 4, "nodes": 1},
    "parallel": {"tp": 2, "dp": 1, "pp": 2}, "batch": {"global_batch": 4, "micro_batch": 1},
    "metric": {"iter_time_s": 0.214112}, "source": {"repo": "VIA-Research/vTrain"},
}  # fmt: skip


def of(**hardware: object) -> machines.Machine | machines.Left:
    """The machine of a sweep on this hardware."""
    return machines.of_sweep({**SWEEP, "hardware": {**NODE, **hardware}})


@pytest.mark.parametrize(
    ("hardware", "preset", "settings"),
    [
        ({}, "dgx-h100", {"npus": 8}),
        (
            {"gpus": 24, "nodes": 3, "nics_per_node": 8, "nic_Gbps": 200},
            "dgx-h100-16n",
            {"npus": 24, "links[1].bandwidth": "200 Gb/s"},
        ),
        (
            {"gpus": 2, "nodes": 2, "gpus_per_node": 1},
            "dgx-h100-16n",
            {"npus": 2, "topology": "Switch(1)_Switch(2)"},
        ),
        ({"gpus": 16, "nodes": 2, "fabric": "AWS EFA v2"}, "p5-16n", {"npus": 16}),
        (
            {"gpu": "GB200", "gpus": 192, "nodes": 48, "gpus_per_node": 4},
            "gb200-nvl72-8r",
            {"npus": 192, "topology": "Switch(64)_Switch(3)"},
        ),
        (
            {"gpu": "GB200", "gpus": 72, "nodes": 18, "gpus_per_node": 4},
            "gb200-nvl72",
            {"npus": 72},
        ),
    ],
)
def test_a_machine_is_a_preset(
    hardware: dict[str, object], preset: str, settings: dict[str, object]
) -> None:
    found = of(**hardware)
    assert isinstance(found, machines.Machine)
    assert (found.preset, found.settings) == (preset, settings)


@pytest.mark.parametrize(
    ("hardware", "reason"),
    [
        ({"gpu": "H100 PCIe 80GB"}, "GPUs on PCIe"),
        ({"gpu": "MetaX C550"}, "no preset for MetaX C550"),
        ({"gpus": None}, "the number of GPUs or nodes is not stated"),
        ({"gpus": 12, "nodes": 2}, "GPUs are not spread evenly"),
        ({"gpu": "V100 SXM2", "gpus": 16, "nodes": 2}, "no preset for several nodes of V100"),
    ],
)
def test_what_has_no_model_is_left_out_with_the_reason(
    hardware: dict[str, object], reason: str
) -> None:
    found = of(**hardware)
    assert isinstance(found, machines.Left)
    assert reason in found.reason


def test_times_come_from_any_column() -> None:
    found = collectives.predict(SWEEP)
    assert isinstance(found, collectives.Sweep)
    measured = [(point.size, round(point.measured, 1)) for point in found.points]
    assert measured == [(8, 13.0), (2**24, 92.1), (2**34, 62631.7)]
    assert all(abs(point.log) < 0.5 for point in found.points)


def test_a_step_is_the_run_that_the_presets_were_fitted_to() -> None:
    known = {each.name: each for each in trainings()}[STEP["id"]]
    found = steps.training(STEP)
    assert isinstance(found, Training)
    assert (found.model.fields, found.options) == (known.model.fields, known.options)
    assert found.iter_time_s == pytest.approx(known.iter_time_s)


def test_every_gpu_that_presets_were_fitted_to_has_a_machine() -> None:
    assert {machines.gpu_of(each.gpu) for each in sweeps()} == {each.gpu for each in sweeps()}


def test_a_file_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    strange = {**STEP, "id": "x", "group": "nobody"}
    kernels = [{"kind": "gemm", "gpu": "H100"}]
    content = {"collectives": [SWEEP], "training": [STEP, strange], "compute": kernels}
    path.write_text(json.dumps(content))
    assert main([str(path)]) == 0
    printed = capsys.readouterr().out
    assert "collectives: 1 predicted, 0 left out" in printed
    assert "training: 1 predicted, 1 left out" in printed
    assert "no rule for the source 'nobody'" in printed
    assert main([str(path), "--json", "--only", "training"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["training"]
    (whole,) = (each for each in found["training"]["scores"] if each["kind"] == "all")
    assert whole["count"] == 1
    assert whole["median"] < 30


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "has no measurements"),
        ('{"training": [{"id": "a"}]}', "training[0]: has no 'group'"),
        ('{"collectives": [3]}', "collectives[0]: is int"),
        ('{"collectives": {}}', "collectives: is dict"),
    ],
)
def test_wrong_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    path = tmp_path / "rows.json"
    path.write_text(content)
    assert main([str(path)]) == 2
    assert message in capsys.readouterr().err
