"""`python -m armillary_lab.score` on rows as publications have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from armillary.kernels.tables import Left
from armillary_lab import command
from armillary_lab.measured.published import file, machines, steps
from armillary_lab.measured.sweeps import repository, sweeps
from armillary_lab.measured.training import Training, trainings
from armillary_lab.predict import collectives, training_steps
from armillary_lab.score import published as scores
from armillary_lab.score.__main__ import main

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


def of(**hardware: object) -> machines.Machine | Left:
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
            {"gpus": 64, "nodes": 16, "gpus_per_node": 4, "system": "NREL Kestrel"},
            "kestrel-132n",
            {"npus": 64},
        ),
        (
            {"gpu": "A100", "gpus": 8, "nodes": 2, "gpus_per_node": 4, "system": "Perlmutter"},
            "perlmutter-1536n",
            {"npus": 8},
        ),
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
        ({"gpu": "GB300 NVL72"}, "gb300-nvl72", {"npus": 8}),
        (
            {"gpu": "GH200", "gpus": 4, "gpus_per_node": 4},
            "alps-16n",
            {"npus": 4, "topology": "FullyConnected(4)_Switch(1)"},
        ),
        (
            {"gpu": "A100", "gpus": 8, "nodes": 2, "gpus_per_node": 4, "fabric": "Slingshot 11"},
            "polaris-a100-540n",
            {"npus": 8},
        ),
        ({"gpus": 16, "nodes": 2, "fabric": "GPUDirect-TCPXO"}, "a3mega-16n", {"npus": 16}),
        ({"gpus": 16, "nodes": 2, "system": "a3-edgegpu-8g"}, "a3high-16n", {"npus": 16}),
        ({"gpu": "B200", "system": "AWS p6-b200"}, "p6-b200", {"npus": 8}),
        (
            {"gpu": "B300", "gpus": 16, "nodes": 2, "nics_per_node": 16, "nic_Gbps": 400,
             "fabric": "AWS EFA v4"},
            "p6-b200-16n",
            {"npus": 16, "links[1].bandwidth": "800 Gb/s"},
        ),
        (
            {"gpu": "GB200", "gpus": 8, "nodes": 2, "gpus_per_node": 4, "nic": "unknown"},
            "gb200-nvl72",
            {"npus": 8},
        ),
        ({"intra_node": "NVLink4; PCIe to the host"}, "dgx-h100", {"npus": 8}),
        ({"gpus": 16, "nodes": 2, "nic": "", "system": "AWS p5 x2"}, "p5-16n", {"npus": 16}),
    ],
)  # fmt: skip
def test_a_machine_is_a_preset(
    hardware: dict[str, object], preset: str, settings: dict[str, object]
) -> None:
    found = of(**hardware)
    assert isinstance(found, machines.Machine)
    assert (found.preset, found.settings) == (preset, settings)


@pytest.mark.parametrize(
    ("tests", "gap"),
    [
        ("all_reduce_perf -b 8 -e 16G -f 2 -g 1", None),
        ("nccl-tests -b 1 -e 8G -f 2 -g 8 -c 0", "32 us"),
        ("rccl-tests -g 4, one process, docker", "16 us"),
        ("200 iters, one process", "32 us"),
    ],
)
def test_a_process_starts_the_calls_of_its_gpus_in_turn(tests: str, gap: str | None) -> None:
    found = machines.of_sweep({**SWEEP, "software": {"tests": tests}})
    assert isinstance(found, machines.Machine)
    assert found.settings.get("library.min_call_interval") == gap


@pytest.mark.parametrize(
    ("software", "call"),
    [
        ({"tests": "all_reduce_perf -b 8 -e 16G -f 2 -g 1"}, None),
        ({"tests": "rccl-tests -f 2 -g 1 -G 1 (HIP graph launch)"}, "6.6 us"),
        ({"nccl": "PyTorch NCCL, kernel time from the profiler (excludes launch)"}, "6.6 us"),
        ({"tests": "best of N (MINIMUM), barrier-aligned, hipEvent"}, "34 us"),
    ],
)
def test_how_calls_are_started_sets_what_they_take(
    software: dict[str, str], call: str | None
) -> None:
    found = machines.of_sweep({**SWEEP, "software": software})
    assert isinstance(found, machines.Machine)
    assert found.settings.get("library.call_overhead") == call


@pytest.mark.parametrize(
    ("hardware", "reason"),
    [
        ({"gpu": "H100 PCIe 80GB"}, "GPUs on PCIe"),
        ({"gpu": "A100-PCIE-40GB"}, "GPUs on PCIe"),
        ({"gpu": "H200 NVL 141GB"}, "GPUs on PCIe"),
        ({"gpu": "NVIDIA L40S"}, "GPUs on PCIe"),
        ({"gpu": "A100 80GB", "intra_node": "PCIe (no NVLink)"}, "GPUs on PCIe"),
        ({"gpu": None}, "the GPU is not stated"),
        ({"gpus": 1, "gpus_per_node": 1}, "one GPU: it sends nothing"),
        ({"gpus": 16, "nodes": 2, "nic": "", "system": "x"}, "the kind nor the rate"),
        ({"gpus": 16, "nodes": 2, "nic": "unknown"}, "the kind nor the rate of its network"),
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
    assert isinstance(found, Left)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("software", "reason"),
    [
        ({"plugin": "aws-ofi-nccl v1.7.3-aws"}, "an older version of Amazon's plugin"),
        ({"nccl": "buffers in symmetric memory"}, "kernels for symmetric memory"),
    ],
)
def test_software_without_a_model_is_left_out_with_the_reason(
    software: dict[str, str], reason: str
) -> None:
    found = machines.of_sweep({**SWEEP, "software": software})
    assert isinstance(found, Left)
    assert reason in found.reason
    newer = machines.of_sweep({**SWEEP, "software": {"plugin": "aws-ofi-nccl v1.16.3"}})
    assert isinstance(newer, machines.Machine)


def test_all_to_alls_are_out_of_place() -> None:
    """No library does them in place."""
    point = {"bytes": 2**24, "ip_us": 200.0, "oop_us": 100.0}
    for operation, measured in (("alltoall", 100.0), ("all_reduce", 200.0)):
        found = collectives.predict({**SWEEP, "op": operation, "points": [point]})
        assert isinstance(found, collectives.Sweep)
        assert [each.measured for each in found.points] == [measured]


@pytest.mark.parametrize("name", ["allreduce", "AllReduce", "all-reduce", "all_reduce"])
def test_operations_have_many_spellings(name: str) -> None:
    found = collectives.predict({**SWEEP, "op": name})
    assert isinstance(found, collectives.Sweep)
    assert found.operation == "all_reduce"
    left = collectives.predict({**SWEEP, "op": f"{name} of rows"})
    assert isinstance(left, Left)
    assert "is not a collective" in left.reason


def test_errors_of_a_platform_name_what_they_are_about() -> None:
    left = collectives.predict({**SWEEP, "hardware": {**NODE, "gpus": 10**12}})
    assert isinstance(left, Left)
    assert left.reason.startswith("not predicted: npus: ")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"repo": "NVIDIA/nccl", "path": "README.md"}, "NVIDIA/nccl"),
        ({"thread": "https://github.com/NVIDIA/nccl/issues/309"}, "NVIDIA/nccl/issues/309"),
        ({"index_id": "2737886338"}, "indexed file 2737886338"),
        ("a page", "a page"),
        (None, "not stated"),
    ],
)  # fmt: skip
def test_sources_are_named_as_the_presets_name_them(source: object, name: str) -> None:
    assert file.source({**SWEEP, "source": source}) == name


def test_names_of_sources_are_those_of_residuals() -> None:
    """Their own residuals take no part in an interval."""
    known = {sweep.repository for sweep in sweeps()}
    assert {"NVIDIA/nccl-tests/issues/309", repository("indexed file 2737886338")} <= known


def test_indexed_pages_are_sources_of_their_own() -> None:
    pages = {sweep.repository for sweep in sweeps() if sweep.source.startswith("indexed")}
    assert pages == {"indexed file 2737886338", "indexed file 59674030456"}
    assert repository("NVIDIA/nccl-tests@1292b25 README.md") == "NVIDIA/nccl-tests"


def test_times_come_from_any_column() -> None:
    found = collectives.predict(SWEEP)
    assert isinstance(found, collectives.Sweep)
    measured = [(point.size, round(point.measured, 1)) for point in found.points]
    assert measured == [(8, 13.0), (2**24, 92.1), (2**34, 62631.7)]
    # How long this host takes to start a call is not known: docs/models/libraries.md#levels
    small, *others = (abs(point.log) for point in found.points)
    assert small < 1
    assert max(others) < 0.5


def test_a_step_is_the_run_that_the_presets_were_fitted_to() -> None:
    known = {each.name: each for each in trainings()}[STEP["id"]]
    found = steps.training(STEP)
    assert isinstance(found, Training)
    assert (found.model.fields, found.options) == (known.model.fields, known.options)
    assert found.iter_time_s == pytest.approx(known.iter_time_s)


SUBMISSION: dict[str, Any] = {
    "id": "mlperf_h100", "benchmark": "llama31_405b", "accelerator": "NVIDIA H100-SXM5-80GB",
    "accelerators": 2432, "nodes": 304, "global_batch_size": 1216,
    "tracked_stats_median": {"throughput": 100.0},
    "config": {
        "MICRO_BATCH_SIZE": "1", "TENSOR_MODEL_PARALLEL": "8", "PIPELINE_MODEL_PARALLEL": "8",
        "INTERLEAVED_PIPELINE": "8", "CONTEXT_PARALLEL": "2", "TP_COMM_OVERLAP": "True",
    },
}  # fmt: skip

BRIDGE: dict[str, Any] = {
    "id": "bridge", "group": "nemo_megatron_bridge", "grade": "A",
    "model": {"name": "DeepSeekV3", "seq": 4096}, "hardware": {"gpu": "DGX-B200", "gpus": 256},
    "parallel": {"tp": "1", "pp": "8", "cp": "1", "vp": "2", "ep": "8", "fsdp": "0"},
    "batch": {"global_batch": 4096, "micro_batch": "1"}, "precision": "MXFP8",
    "metric": {"iter_time_s_derived": 19.7},
}  # fmt: skip


def test_layers_that_do_not_fill_a_pipeline_leave_the_last_part_short() -> None:
    """61 layers in 16 parts: 15 of 4, and 1 with the prediction of another token."""
    run = steps.training(BRIDGE)
    assert isinstance(run, Training)
    assert run.extra["layers_per_stage"] == "4*15,1"
    assert run.extra["mtp"] == "1"
    assert (run.precision, run.extra["fp8"]) == ("fp8", "blockwise")
    assert training_steps.options(run)["fp8_param_gather"] is False
    tensor = steps.training(BRIDGE | {"precision": "FP8-CS", "id": "tensor"})
    assert isinstance(tensor, Training)
    assert training_steps.options(tensor)["fp8_param_gather"] is True
    four = steps.training(BRIDGE | {"precision": "NVFP4", "id": "four"})
    assert isinstance(four, Training)
    assert (four.precision, four.extra["fp8"]) == ("nvfp4", "tensorwise")


def test_recipes_say_what_tables_do_not() -> None:
    """What is recomputed, how tokens travel and what is overlapped, by release."""
    early, late = (
        steps.training(BRIDGE | {"software": f"NeMo container {release}; Pre-Training"})
        for release in ("26.02", "26.04.01")
    )
    assert isinstance(early, Training)
    assert isinstance(late, Training)
    assert training_steps.options(early)["recompute_modules"] == "mla_up_proj"
    assert training_steps.options(early)["ep_node"] == 8
    assert "overlap_passes" not in training_steps.options(early)
    assert training_steps.options(late)["overlap_passes"] is True
    assert training_steps.options(late)["recompute_modules"] == "mla_up_proj,mlp"


def test_whole_experts_are_read_from_the_layout() -> None:
    """Grok-1 of dgxc-benchmarking: experts divided by 4 on GB200, whole on H100."""
    grok = BRIDGE | {
        "group": "dgxc_benchmarking", "precision": "BF16",
        "model": {"name": "Grok1 314b", "seq": 8192}, "hardware": {"gpu": "H100", "gpus": 512},
        "parallel": {"tp": 4, "pp": 8, "cp": 2, "vp": 8, "ep": 8, "etp": 1, "dp": 8},
    }  # fmt: skip
    whole = steps.training(grok)
    assert isinstance(whole, Training)
    assert training_steps.options(whole)["etp"] == 1
    parallel = {**grok["parallel"], "etp": 4}
    divided = steps.training(grok | {"parallel": parallel})
    assert isinstance(divided, Training)
    assert "etp" not in training_steps.options(divided)


def test_every_gpu_that_presets_were_fitted_to_has_a_machine() -> None:
    assert {machines.gpu_of(each.gpu) for each in sweeps()} == {each.gpu for each in sweeps()}


def test_what_a_source_calls_broken_is_left_out() -> None:
    """A bar that is four times what was reached, and a card on another PCI root."""
    reached = {**SWEEP, "points": [{"bytes": 2**30, "ip_us": 1.0, "ip_busbw": 44.9}]}
    bar = "document sets a pass bar of 180 GB/s."
    below = machines.of_sweep({**reached, "notes": bar})
    assert isinstance(below, Left)
    assert "far below" in below.reason
    above = {**reached, "points": [{"bytes": 2**30, "ip_us": 1.0, "ip_busbw": 45.1}]}
    assert isinstance(machines.of_sweep({**above, "notes": bar}), machines.Machine)
    apart = machines.of_sweep({**SWEEP, "notes": "GPU and NIC are on different PCI roots"})
    assert isinstance(apart, Left)
    assert "PCI roots" in apart.reason


def test_sweeps_are_ranked_at_equal_sizes() -> None:
    """Five machines at one size. Ours swaps two neighbours: Spearman is 1 - 6 * 2 / (5 * 24) = 0.9.
    Our best choice is the second fastest, which takes 11 instead of 10 us."""
    base = collectives.predict({**SWEEP, "points": [{"bytes": 1024, "ip_us": 10.0}]})
    assert isinstance(base, collectives.Sweep)
    times = [(10.0, 2.0), (11.0, 1.0), (12.0, 3.0), (13.0, 4.0), (14.0, 5.0)]
    found = [replace(base, points=(collectives.Point(1024, us, ours, True),)) for us, ours in times]
    ranking = scores.sweep_ranking(found)
    assert ranking is not None
    assert ranking.correlation == pytest.approx(0.9)
    assert ranking.lost == pytest.approx(10.0)
    assert scores.sweep_ranking(found[:4]) is None


HELD: dict[str, Any] = {
    "id": "nanotron_1B_n8_dp8_pp1_tp1_mbs2_ga16_z0", "group": "nanotron_h100", "grade": "B",
    "model": {"name": "Llama 1B", "heads": 32, "kv_heads": 32, "seq": 4096},
    "hardware": {"gpu": "H100 SXM5 80GB", "gpus": 8, "nodes": 1},
    "parallel": {"dp": 8, "tp": 1, "pp": 1, "zero": 0},
    "batch": {"global_batch": 256, "micro_batch": 2},
    "metric": {"iter_time_s_derived": 3.2646, "gpu_memory_GB": 50.2},
}  # fmt: skip


def test_peak_memory_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors are those of ours over what the source states, in GiB."""
    found = []
    for gib in (50.2, 100.4):
        row = {**HELD, "metric": {**HELD["metric"], "gpu_memory_GB": gib}}
        (tmp_path / "rows.json").write_text(json.dumps({"training": [row, STEP]}))
        assert main([str(tmp_path / "rows.json"), "--json", "--only", "training"]) == 0
        memory = json.loads(capsys.readouterr().out)["memory"]
        assert (memory["predicted"], memory["left_out"]) == (1, [["states no memory", 1]])
        (whole,) = (each for each in memory["scores"] if each["kind"] == "all")
        found.append(whole)
    assert found[0]["median"] < 10
    assert found[0]["ratio"] == pytest.approx(2 * found[1]["ratio"])
    assert found[1]["median"] == pytest.approx(100 * (1 / found[1]["ratio"] - 1))


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
    assert list(found) == ["training", "memory"]
    assert found["memory"]["predicted"] == 0
    (whole,) = (each for each in found["training"]["scores"] if each["kind"] == "all")
    assert whole["count"] == 1
    assert whole["median"] < 30
    every, of_gpu = found["training"]["coverage"]
    assert (every["name"], of_gpu["name"]) == ("all", "gpu: A100")
    assert {**of_gpu, "name": "all"} == every
    assert (every["measurements"], every["sources"]) == (1, 1)
    # One measurement says little: Wilson's range of 0 or 1 of 1
    least, most = (0.0, 0.7935) if every["within"] == 0 else (0.2065, 1.0)
    assert every["low"] == pytest.approx(least, abs=1e-4)
    assert every["high"] == pytest.approx(most, abs=1e-4)
    assert "1 source; " in printed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        (b"\xff\xfe", "byte 0: is not UTF-8 text"),
        ("[" * 5000, "is nested too deeply"),
        ('{"training": [NaN]}', "training[0]: is nan"),
        ("[]", "[] is not a mapping (allowed: keys: collectives"),
        ("{}", "has no measurements"),
        ('{"collectives": [], "training": []}', "has no measurements"),
        ('{"collectives": [3]}', "collectives[0]: 3 is not a mapping (allowed: keys: id, op"),
        ('{"collectives": {}}', "collectives: {} is not a list (allowed: a list)"),
        ('{"training": null}', "has no measurements"),
        ('{"training": [{"id": "a"}]}', "training[0].group: is missing (allowed: text)"),
        ({"training": [{**STEP, "id": 3}]}, "training[0].id: 3 is not a name (allowed: text)"),
        ({"training": [{**STEP, "batch": []}]}, "training[0].batch: [] is not a mapping"),
        (
            {"training": [{**STEP, "metric": {"iter_time_s": "1 s"}}]},
            "training[0].metric.iter_time_s: '1 s' is not a number (allowed: 0, a number from",
        ),
        (
            {"collectives": [{**SWEEP, "points": [[8, 13.0]]}]},
            "points[0]: [8, 13.0] is not a mapping",
        ),
        (
            {"collectives": [{**SWEEP, "points": [{"bytes": -8, "ip_us": 1.0}]}]},
            "collectives[0].points[0].bytes: is -8",
        ),
        (
            {"collectives": [{**SWEEP, "points": [{"bytes": 10**30, "ip_us": 1.0}]}]},
            "collectives[0].points[0].bytes: is 1e+30",
        ),
        (
            {"training": [{**STEP, "metric": {"iter_time_s": 1e308}}]},
            "training[0].metric.iter_time_s: is 1e+308",
        ),
        (
            {"training": [{**STEP, "metric": {"iter_time_s": 1e-320}}]},
            "training[0].metric.iter_time_s: is 9.99989e-321",
        ),
        (
            {"collectives": [{**SWEEP, "hardware": {**NODE, "gpu": 100}}]},
            "collectives[0].hardware.gpu: 100 is not a name (allowed: text)",
        ),
        (
            {"collectives": [{**SWEEP, "hardware": {**NODE, "gpus": True}}]},
            "collectives[0].hardware.gpus: True is not a number",
        ),
        (
            {"mlperf": [{**SUBMISSION, "config": "none"}]},
            "mlperf[0].config: 'none' is not a mapping",
        ),
    ],
)
def test_wrong_files(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str | bytes | dict[str, Any],
    message: str,
) -> None:
    path = tmp_path / "rows.json"
    text = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main([str(path)]) == 2
    assert message in capsys.readouterr().err


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file, a folder, a file larger than 64 MiB, and no rows of the kind asked for."""
    large, kernels = tmp_path / "large.json", tmp_path / "kernels.json"
    with large.open("wb") as stream:
        stream.truncate(64 * 2**20 + 1)
    kernels.write_text('{"compute": [{"kind": "gemm"}]}')
    for arguments, message in (
        ([tmp_path / "none.json"], "No such file"),
        ([tmp_path], "is a directory"),
        ([large], "is larger than 64 MiB"),
        ([kernels, "--only", "training", "--only", "mlperf"], "has no rows of training or mlperf"),
    ):
        assert main(list(map(str, arguments))) == 2
        assert message in capsys.readouterr().err


def test_closed_output_and_interrupts_end_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kernels.json"
    path.write_text('{"compute": [{"kind": "gemm"}]}')
    arguments = [sys.executable, "-m", "armillary_lab.score", str(path)]
    read, write = os.pipe()
    os.close(read)
    closed = subprocess.run(arguments, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (closed.returncode, closed.stderr) == (141, "")

    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    assert command.run(interrupt) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_counts_that_no_run_has_are_not_stated() -> None:
    """Text, fractions, and numbers that no formula can hold."""
    for gpus in ("many", 4.5, 0, 10**30):
        left = steps.training({**STEP, "hardware": {"gpu": "A100", "gpus": gpus}})
        assert left == Left("gpus is not stated")
