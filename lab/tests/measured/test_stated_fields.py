"""What a measured step states about its model, layout, batch and machine is followed, or it is the
reason that the step is left out."""

from __future__ import annotations

from typing import Any

import pytest
from test_measurements import BRIDGE, SUBMISSION

from armillary.kernels.tables import Left
from armillary_lab.measured.published import steps
from armillary_lab.measured.training import Training
from armillary_lab.predict import training_steps

PROXY: dict[str, Any] = {
    "id": "proxy", "group": "dgxc_benchmarking", "grade": "A",
    "model": {"name": "Llama3.1 405b", "seq": 8192, "layers": 126},
    "hardware": {"gpu": "H100 SXM5 80GB", "gpus": 512, "nodes": 64},
    "parallel": {"tp": 8, "pp": 8, "cp": 2, "vp": 8, "dp": 4, "fsdp": 0},
    "batch": {"global_batch": 256, "micro_batch": 1, "grad_accum": 64}, "precision": "BF16",
    "metric": {"tokens_per_s": 200000},
}  # fmt: skip
"""Llama 3.1 405B: 126 layers of width 16,384, 128 heads with 8 of keys and values, 53,248 within
the perceptron, 128,256 words (arXiv:2407.21783, table 3)."""


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("model", "layers", 8),
        ("model", "hidden", 4096),
        ("model", "heads", 64),
        ("model", "kv_heads", 128),
        ("model", "ffn", 28672),
        ("model", "vocab", 32000),
        ("model", "experts", 8),
        ("model", "tied_embeddings", True),
        ("model", "params_B", 27),
        ("model", "layers", "eight"),
        ("model", "sparsity", "2:4"),
        ("parallel", "dp", 8),
        ("parallel", "zero", 3),
        ("parallel", "recompute", "half"),
        ("parallel", "recompute_method", "uniform"),
        ("parallel", "recompute_num_layers", "many"),
        ("batch", "grad_accum", 32),
        ("batch", "padding", 0.5),
        ("hardware", "gpus_per_node", 4),
        ("hardware", "nic_Gbps", 100),
    ],
)
def test_what_a_file_states_is_followed_or_the_reason(part: str, field: str, value: object) -> None:
    assert isinstance(steps.training(PROXY), Training)
    left = steps.training(PROXY | {part: {**PROXY[part], field: value}})
    assert isinstance(left, Left)
    assert field in left.reason


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({"recompute": "full"}, {"recompute": "full"}),
        ({"recompute": "full (uniform, 1)"}, {"recompute": "full"}),
        (
            {"recompute": "full (uniform, 2)"},
            {"recompute": "full", "recompute_layers": 2, "recompute_method": "uniform"},
        ),
        (
            {
                "recompute_granularity": "full",
                "recompute_method": "block",
                "recompute_num_layers": 1,
            },
            {"recompute": "full", "recompute_layers": 1, "recompute_method": "block"},
        ),
        (
            {"recompute_layers": 2},
            {"recompute": "full", "recompute_layers": 2, "recompute_method": "block"},
        ),
        ({"recompute_layers": 0}, {"recompute": "none"}),
        ({"recompute_granularity": "selective"}, {"recompute": "selective"}),
        (
            {"recompute_granularity": "selective", "recompute_modules": ["core_attn"]},
            {"recompute": "selective"},
        ),
        (
            {"recompute_modules": "layernorm/mlp"},
            {"recompute": "none", "recompute_modules": "layernorm,mlp"},
        ),
    ],
)
def test_stated_recomputation_is_that_of_the_run(
    said: dict[str, Any], options: dict[str, Any]
) -> None:
    """Megatron's words, and those of recipes; each part of the pipeline has 1 or 2 of 126
    layers."""
    run = steps.training(PROXY | {"parallel": {**PROXY["parallel"], **said}})
    assert isinstance(run, Training)
    assert run.extra["assumed"] == "sp"
    found = training_steps.options(run)
    assert {key: value for key, value in found.items() if key.startswith("recompute")} == options


@pytest.mark.parametrize(
    "said",
    [
        {"recompute_granularity": "full"},
        {"recompute_granularity": "full", "recompute_method": "block"},
        {"recompute_granularity": "layers", "recompute_num_layers": 1},
        {"recompute_method": "spread", "recompute_num_layers": 1},
        {"recompute_num_layers": -1},
        {"recompute_num_layers": 1.5},
        {"recompute": "full (every, 2)"},
        {"recompute_granularity": "selective", "recompute_method": "uniform"},
    ],
)
def test_recomputation_that_names_no_layers_is_the_reason(said: dict[str, Any]) -> None:
    left = steps.training(PROXY | {"parallel": {**PROXY["parallel"], **said}})
    assert isinstance(left, Left)
    assert "recompute" in left.reason


def test_a_precision_that_a_rule_does_not_know_is_the_reason() -> None:
    left = steps.training(PROXY | {"precision": "FP32"})
    assert isinstance(left, Left)
    assert "precision is 'FP32'" in left.reason


def test_every_size_of_the_model_can_be_stated() -> None:
    sizes = {"hidden": 16384, "heads": 128, "kv_heads": 8, "ffn": 53248, "vocab": 128256}
    row = PROXY | {"model": PROXY["model"] | sizes | {"tied_embeddings": False, "params_B": 405}}
    assert isinstance(steps.training(row), Training)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"max_sequence_length": 4096}, "max_sequence_length"),
        ({"config": SUBMISSION["config"] | {"SEQ_PARALLEL": "False"}}, "SEQ_PARALLEL"),
        ({"config": SUBMISSION["config"] | {"FP8": "False"}}, "FP8"),
        ({"config": SUBMISSION["config"] | {"EXPERT_PARALLEL": "8"}}, "EXPERT_PARALLEL"),
    ],
)
def test_what_a_submission_states_is_followed_too(change: dict[str, Any], field: str) -> None:
    left = steps.submission(SUBMISSION | change)
    assert isinstance(left, Left)
    assert field in left.reason


def test_of_two_formats_in_a_cell_the_first_counts() -> None:
    """Megatron-Bridge 25.09, 405B on 128 GB200: `2 (4)` is 2 parts with the first format."""
    row = BRIDGE | {
        "model": {"name": "LLAMA3.1_405B", "seq": 8192}, "precision": "FP8 (see page)",
        "hardware": {"gpu": "DGX-GB200", "gpus": 128}, "batch": {"global_batch": 64},
        "parallel": {"tp": "2 (4)", "pp": "1 (8)", "cp": "1 (2)", "vp": "1 (8)", "fsdp": "64 (0)"},
    }  # fmt: skip
    run = steps.training(row)
    assert isinstance(run, Training)
    assert (run.tp, run.dp, run.zero) == (2, 64, 3)
