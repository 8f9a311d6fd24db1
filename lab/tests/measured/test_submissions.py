"""Submissions to MLPerf Training as runs."""

from __future__ import annotations

from typing import Any

import pytest
from test_measurements import SUBMISSION

from armillary.kernels.tables import Left
from armillary_lab.measured.published import steps
from armillary_lab.measured.training import Training
from armillary_lab.predict import training_steps


def test_a_submission_is_a_run() -> None:
    """2,432 GPUs in 19 replicas of 8 x 8 x 2; 1,216 samples at 100 a second take 12.16 s. GPT-3's
    logs count tokens, 2,048 a sample."""
    run = steps.submission(SUBMISSION)
    assert isinstance(run, Training)
    assert (run.dp, run.tp, run.pp, run.cp, run.virtual_stages) == (19, 8, 8, 2, 8)
    assert run.iter_time_s == pytest.approx(12.16)
    tokens = steps.submission(
        SUBMISSION | {"benchmark": "gpt3", "tracked_stats_median": {"throughput": 204800}}
    )
    assert isinstance(tokens, Training)
    assert tokens.iter_time_s == pytest.approx(12.16)


@pytest.mark.parametrize(
    ("name", "benchmark", "precision", "recipe"),
    [
        ("mlperf_v5.0_NVIDIA_tyche_ngpu512_llama31_405b", "llama31_405b", "fp8", "delayed"),
        ("mlperf_v5.1_NVIDIA_tyche_ngpu512_llama31_405b", "llama31_405b", "nvfp4", "tensorwise"),
        ("mlperf_v5.1_University-of-Florida_llama31_405b", "llama31_405b", "fp8", "tensorwise"),
        ("mlperf_v5.1_NVIDIA_theia_ngpu8_nemo_llama31_8b", "llama31_8b", "nvfp4", "tensorwise"),
        ("mlperf_v5.1_Dell_1xXE9680Lx8B200-SXM_llama31_8b", "llama31_8b", "nvfp4", "tensorwise"),
        ("mlperf_v5.1_Dell_2xXE9680Lx8B200-SXM_llama31_8b", "llama31_8b", "fp8", "tensorwise"),
        ("mlperf_v5.1_NVIDIA_theia_ngpu72_nemo_llama31_8b", "llama31_8b", "fp8", "tensorwise"),
    ],
)
def test_formats_of_submissions(name: str, benchmark: str, precision: str, recipe: str) -> None:
    """mlcommons/training_results_v5.1: names of configurations and config_common.sh. Gradients are
    reduced in 16 bits."""
    run = steps.submission(SUBMISSION | {"id": name, "benchmark": benchmark})
    assert isinstance(run, Training)
    assert (run.precision, run.extra["fp8"]) == (precision, recipe)
    assert training_steps.options(run)["fp32_gradients"] is False


@pytest.mark.parametrize(
    ("benchmark", "tp", "bucket"),
    [("llama31_8b", 2, 1536), ("llama31_8b", 1, None), ("gpt3", 2, None)],
)
def test_buckets_of_submissions(benchmark: str, tp: int, bucket: float | None) -> None:
    """config_GB300_128x4x1xtp2pp1cp4_8b.sh: 768 million gradients of 2 bytes."""
    config = SUBMISSION["config"] | {"TENSOR_MODEL_PARALLEL": str(tp)}
    run = steps.submission(SUBMISSION | {"benchmark": benchmark, "config": config})
    assert isinstance(run, Training)
    settings = training_steps.options(run).get("framework_set", {})
    assert isinstance(settings, dict)
    assert settings.get("bucket_mb") == bucket


ADAPTERS: dict[str, Any] = SUBMISSION | {
    "benchmark": "llama2_70b_lora", "accelerator": "NVIDIA H200-SXM5-141GB", "accelerators": 16,
    "nodes": 2, "global_batch_size": 8, "config_file": "x/config_DGXH200_2x8x4xtp4pp1cp2.sh",
    "config": {
        "TP": "4", "PP": "1", "CP": "2", "MINIBS": "4", "DGXNNODES": "2", "DGXNGPU": "8",
        "FP8": "True", "TP_COMM_OVERLAP": "1",
    },
}  # fmt: skip


def test_submissions_of_adapters() -> None:
    """Two replicas of 4 x 2 GPUs take four samples each. With 4 bits, names end so."""
    run = steps.submission(ADAPTERS)
    assert isinstance(run, Training)
    assert (run.dp, run.tp, run.cp, run.micro_batch, run.precision) == (2, 4, 2, 1, "fp8")
    options = training_steps.options(run)
    assert (options["lora_rank"], options["lora_modules"]) == (16, "qkv,out")
    four = steps.submission(ADAPTERS | {"config_file": "x/config_H200_2x8x4_fp4.sh"})
    assert isinstance(four, Training)
    assert four.precision == "nvfp4"
    wrong = steps.submission(ADAPTERS | {"global_batch_size": 16})
    assert isinstance(wrong, Left)
    assert "MINIBS" in wrong.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"benchmark": "llama2_70b_lora", "config_file": "a/config_H200.sh"}, "another GPU"),
        ({"benchmark": "resnet"}, "no framework describes them"),
        ({"config": None}, "configuration is not in the row"),
        ({"config": {**SUBMISSION["config"], "INTERLEAVED_PIPELINE": None}}, "virtual pipeline"),
        ({"accelerator": "TPU-v5p"}, "no preset for training on TPU-v5p"),
        ({"tracked_stats_median": {}}, "neither the time of a step nor throughput"),
    ],
)
def test_what_a_submission_lacks_is_the_reason(change: dict[str, Any], reason: str) -> None:
    left = steps.submission(SUBMISSION | change)
    assert isinstance(left, Left)
    assert reason in left.reason
