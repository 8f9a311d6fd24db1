"""Configurations of current models, whole."""

from __future__ import annotations

import csv
import json
import math
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT
from thorough import some

pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import CONFIG_MAPPING

from armillary import capture
from armillary.capture import parameters
from armillary.capture.result import Capture
from armillary.model.decoder_reader import decoder
from armillary.model.weights import mtp_weights
from armillary.workload import build, load_model

# Tests of the same captures run in one process.
pytestmark = pytest.mark.xdist_group("configurations")

SHAPES = ROOT / "tests/python/data/hugging_face"
with (SHAPES / "counts.csv").open(encoding="utf-8") as counts:
    TEXT = {row["model"]: int(row["text_parameters"]) for row in csv.DictReader(counts)}

LONG = 4096
"""Tokens that are more than any window."""


@cache
def captured(model: str, tokens: int = 128) -> Capture:
    return capture(SHAPES / f"{model}.json", sequence=tokens)


@pytest.mark.parametrize("model", some(TEXT))
def test_text_parameters_are_exact(model: str) -> None:
    assert parameters(SHAPES / f"{model}.json").text == TEXT[model]


def test_towers_count_apart() -> None:
    """Those of Gemma 3 by hand: a vision transformer with a head that pools by attention, and a
    norm and a matrix behind it."""
    width, inner, layers, patch, side = 1152, 4304, 27, 14, 896 // 14
    block = 4 * (width + 1) * width + (width + 1) * inner + (inner + 1) * width
    embedded = (3 * patch**2 + 1) * width + side**2 * width
    # Each layer has two norms, the head one and what it asks with.
    tower = embedded + layers * (block + 4 * width) + 2 * width + block + 3 * width
    projector = width * 5376 + width
    found = parameters(SHAPES / "gemma-3-27b.json")
    assert found.towers == {"vision_tower": tower, "multi_modal_projector": projector}
    assert found.total == TEXT["gemma-3-27b"] + tower + projector
    summary = build(f"capture:{SHAPES / 'gemma-3-27b.json'}", seq=64).summary
    assert summary is not None
    said = f"text {TEXT['gemma-3-27b']:,}, vision_tower {tower:,}, multi_modal_projector"
    assert any(said in note for note in summary.notes)


@pytest.mark.parametrize("model", ["glm-4.6", "deepseek-v3"])
def test_multi_token_prediction_counts_apart(model: str, tmp_path: Path) -> None:
    """As the reader of configurations counts it, whose routers have no bias either."""
    file = SHAPES / f"{model}.json"
    if model == "deepseek-v3":
        file = tmp_path / "config.json"
        CONFIG_MAPPING["deepseek_v3"](num_nextn_predict_layers=1).to_json_file(file, use_diff=False)
    found = parameters(file)
    decoder_ = decoder(load_model(file))
    assert found.multi_token == mtp_weights(decoder_).total
    assert found.as_dict()["multi_token_prediction"] == found.multi_token
    if model == "glm-4.6":
        (said,) = capture(file, sequence=64).warnings
        assert f"{found.multi_token:,} parameters" in said


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("nemotron-h-8b", [24, 24, 4]),
        ("gemma-3-27b", [52, 10]),
        ("llama-4-scout", [36, 12]),
        ("qwen3-next-80b", [36, 12]),
        ("deepseek-v3.2", [3, 58]),
    ],
)
def test_each_kind_of_layer_is_captured_once(model: str, kinds: list[int]) -> None:
    found = captured(model, LONG if model == "gemma-3-27b" else 128)
    assert [block.count for block in found.blocks] == kinds


def test_a_token_of_llama_4_visits_its_experts_only() -> None:
    tokens, hidden, inner, layers = 128, 5120, 8192, 48
    found = captured("llama-4-scout", tokens)
    experts = sum(
        block.count * each.flops
        for block in found.blocks
        for each in block.operations
        if each.kind == "grouped_matmul" and not each.backward
    )
    assert experts == layers * 2 * tokens * 3 * hidden * inner


LONGCAT = {
    "model_type": "longcat_flash",
    "hidden_size": 64,
    "num_layers": 2,
    "num_attention_heads": 4,
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 32,
    "n_routed_experts": 12,
    "zero_expert_num": 4,
    "moe_topk": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "head_dim": 8,
    "v_head_dim": 16,
    "vocab_size": 96,
}


def test_zero_experts_take_their_share_of_tokens(tmp_path: Path) -> None:
    file, tokens = tmp_path / "config.json", 64
    file.write_text(json.dumps(LONGCAT), encoding="utf-8")
    found = capture(file, sequence=tokens)
    experts = sum(
        block.count * each.flops
        for block in found.blocks
        for each in block.operations
        if each.kind == "grouped_matmul" and not each.backward
    )
    assert experts == 2 * 2 * (tokens * 4 * 12 // 16) * 3 * 64 * 32


OTHER_WAYS: dict[str, dict[str, object]] = {
    "an infinite limit": {"model_type": "mamba2", "time_step_limit": [0.0, math.inf]},
    "attention of its own": {"model_type": "falcon", "num_attention_heads": 4},
    "dropped layers": {
        "model_type": "m2m_100",
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_layerdrop": 0.5,
        "decoder_layerdrop": 0.5,
    },
    "parts without experts": {"model_type": "aria"},
    "no head": {"model_type": "clip_text_model"},
    "a cache of scans": {"model_type": "granitemoehybrid", "num_hidden_layers": 2},
}


@pytest.mark.parametrize("case", OTHER_WAYS)
def test_configurations_that_need_another_way(case: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(OTHER_WAYS[case]), encoding="utf-8")
    found = capture(file, sequence=32)
    assert found.parameters == parameters(file)
    assert found.flops_backward >= 1.9 * found.flops > 0
    assert found.warnings == ()


def test_a_window_hides_what_is_far() -> None:
    found = captured("gemma-3-27b", LONG)
    attention = [
        next(each.flops for each in block.operations if each.name == "attention")
        for block in found.blocks
    ]
    heads, width, tokens, window = 32, 128, LONG, 1024
    assert attention == [
        2 * heads * (tokens * window - window**2 // 2) * 2 * width,
        2 * heads * (tokens * tokens // 2) * 2 * width,
    ]


def test_kinds_of_layers_are_read_in_order() -> None:
    """Gemma 3 loops over a set of two words."""
    read = [
        buffer.parameter
        for each in captured("gemma-3-27b", LONG).before.operations
        for buffer in each.reads
        if buffer.parameter.endswith("_inv_freq")
    ]
    assert len(set(read)) == 2
    assert read == sorted(read)
