"""Number formats in which weights are published, and what serving makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armillary.errors import InputError
from armillary.model.checkpoint import Checkpoint, read_checkpoint
from armillary.model.files import MODELS, load_model
from armillary.serve.layout import Precision, precision

GROUP = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}

KIMI = [
    "lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
    "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
]  # fmt: skip
"""Modules of Kimi-K2-Thinking in 16 bits."""


def compressed(*groups: object) -> dict[str, Any]:
    named = {f"group_{number}": each for number, each in enumerate(groups)}
    return {"quant_method": "compressed-tensors", "config_groups": named}


@pytest.mark.parametrize(
    ("quantization", "formats"),
    [
        (None, Checkpoint()),
        # DeepSeek-V3, gpt-oss, and copies of others.
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Checkpoint("fp8_block")),
        ({"quant_method": "fp8"}, Checkpoint("fp8")),
        ({"quant_method": "mxfp4"}, Checkpoint("bf16", "mxfp4")),
        ({"quant_method": "awq", "bits": 4}, Checkpoint("int4")),
        ({"quant_method": "gptq", "bits": 8}, Checkpoint("int8")),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, Checkpoint("nvfp4")),
        (compressed(GROUP), Checkpoint("int4")),
        ({**compressed(GROUP), "ignore": ["lm_head"]}, Checkpoint("int4")),
        ({"quant_method": "fp8", "modules_to_not_convert": ["gate", "lm_head"]}, Checkpoint("fp8")),
        ({**compressed(GROUP), "ignore": KIMI}, Checkpoint("bf16", "int4")),
        (
            compressed({"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}),
            Checkpoint("fp8"),
        ),
    ],
)
def test_what_configurations_state(quantization: object, formats: Checkpoint) -> None:
    assert read_checkpoint(quantization) == formats


@pytest.mark.parametrize(
    "quantization",
    [
        {},
        [],
        "fp8",
        {"quant_method": ["fp8"]},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "gptq", "bits": [4]},
        {"quant_method": "modelopt", "quant_algo": {}},
        {"quant_method": "compressed-tensors"},
        compressed(),
        compressed(GROUP, GROUP),
        {**compressed(GROUP), "ignore": ["lm_head", "re:.*self_attn.*"]},
        {**compressed(GROUP), "ignore": ["model.layers.0"]},
        {**compressed(GROUP), "ignore": [7]},
        {"quant_method": "fp8", "modules_to_not_convert": "lm_head"},
        {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.3.mlp.up_proj"]},
        compressed(7),
        compressed({"targets": ["Linear"]}),
        compressed({**GROUP, "targets": ["re:.*experts.*"]}),
        compressed({"targets": ["Linear"], "weights": {"num_bits": [8], "type": "float"}}),
    ],
)
def test_unknown_formats_are_not_guessed(quantization: object) -> None:
    assert read_checkpoint(quantization) is None


def test_formats_of_a_model_file(tmp_path: Path) -> None:
    text = (MODELS / "llama-3-8b.yml").read_text()
    file = tmp_path / "mine.yml"
    file.write_text(text + "checkpoint: {weights: bf16, experts: int4}\n")
    assert load_model(file).checkpoint == Checkpoint("bf16", "int4")
    for wrong in ("fp9", "[fp8]", "{weights: 8}", "{weight: fp8}", "{experts: fp8, x: 1}"):
        file.write_text(text + f"checkpoint: {wrong}\n")
        with pytest.raises(InputError, match="checkpoint"):
            load_model(file)


def test_serving_takes_the_published_formats(tmp_path: Path) -> None:
    oss = load_model("openai/gpt-oss-120b")
    assert precision(oss)[0] == Precision("bf16", "mxfp4")
    assert precision(oss, "fp8")[0] == Precision("fp8", "fp8")
    assert precision(oss, None, "int4", "fp8")[0] == Precision("bf16", "int4", "fp8")
    assert precision(load_model("deepseek-v3"))[0] == Precision("fp8_block", "fp8_block")
    assert precision(load_model("llama-3-8b")) == (Precision(), ())
    folder = tmp_path / "mine"
    folder.mkdir()
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
        "quantization_config": {"quant_method": "exl3"},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    chosen, notes = precision(load_model(folder))
    assert chosen == Precision()
    assert "the checkpoint's formats are not known" in notes[0]
