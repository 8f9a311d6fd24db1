"""Configurations with drawn changes: readers without PyTorch have exactly the parameters that the
class of transformers has, or refuse the file and say how to capture it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import Armillary

pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import CONFIG_MAPPING

from armillary.capture import parameters
from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.huggingface_kinds import KNOWN
from armillary.model.huggingface_names import SAME
from armillary.model.weights import parameters as read_parameters
from armillary.workload import load_model

KINDS = sorted(kind for kind in (*KNOWN, *SAME) if kind in CONFIG_MAPPING)
ADDED: dict[str, object] = {
    "add_cross_attention": True,
    "add_qkv_bias": True,
    "alibi": True,
    "attention_bias": True,
    "attention_out_bias": True,
    "bias": True,
    "decoder_sparse_step": 2,
    "first_k_dense_replace": 1,
    "head_dim": 32,
    "hybrid_override_pattern": "M-",
    "index_topk": 16,
    "interleave_moe_layer_step": 2,
    "kv_lora_rank": 8,
    "linear_attn_config": {"num_heads": 4},
    "lm_head_bias": True,
    "mamba_d_state": 16,
    "mlp_bias": True,
    "mlp_only_layers": [0],
    "moe_intermediate_size": 64,
    "moe_layer_freq": 2,
    "multi_query": False,
    "n_shared_experts": 1,
    "new_decoder_architecture": True,
    "num_experts": 8,
    "num_key_value_heads": 2,
    "num_kv_heads": 2,
    "num_local_experts": 4,
    "parallel_attn": False,
    "q_lora_rank": 8,
    "qk_layernorm": True,
    "qkv_bias": True,
    "shared_expert_intermediate_size": 64,
    "sliding_window": 128,
    "text_config": {"model_type": "llama"},
    "tie_word_embeddings": True,
    "use_bias": True,
    "use_qk_norm": True,
    "use_sliding_window": True,
    "vision_config": {"hidden_size": 8},
}
"""Keys of other architectures."""
LAYERS = ("num_hidden_layers", "n_layer")


def default(kind: str) -> dict[str, Any]:
    """Values that the class saves, with four layers."""
    found: dict[str, Any] = json.loads(CONFIG_MAPPING[kind]().to_json_string(use_diff=False))
    for part in (found, found.get("text_config", {})):
        layers = next((part[key] for key in LAYERS if key in part), 0)
        part.update({key: 4 for key in LAYERS if key in part})
        part.update(
            {
                key: each[:4]
                for key, each in part.items()
                if isinstance(each, list) and len(each) == layers
            }
        )
    return found


def changed(found: dict[str, Any], drawn: random.Random) -> dict[str, Any]:
    """The configuration without a key, with another value, or with another key."""
    values: dict[str, Any] = json.loads(json.dumps(found))
    parts = [values, *(values[key] for key in ("text_config",) if key in values)]
    for _ in range(drawn.randint(1, 3)):
        part = drawn.choice(parts)
        key = drawn.choice(sorted(set(part) - {"model_type"}))
        value, way = part[key], drawn.choice(["remove", "alter", "add"])
        if way == "remove":
            del part[key]
        elif way == "add":
            part |= dict([drawn.choice(sorted(ADDED.items(), key=str))])
        elif isinstance(value, bool):
            part[key] = not value
        elif isinstance(value, int):
            part[key] = drawn.choice([2 * value, value + 1, 1, 0])
        elif key == "architectures":
            part[key] = drawn.choice([[], ["LlamaForCausalLM"], ["Qwen2Model"], None])
    return values


@pytest.mark.parametrize("seed", range(150))
def test_drawn_configurations_are_exact_or_refused(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(changed(default(drawn.choice(KINDS)), drawn)), encoding="utf-8")
    try:
        found = read_parameters(decoder(load_model(file)))
    except InputError as error:
        assert all(problem.help for problem in error.problems)
        return
    try:
        expected = parameters(file).text
    except InputError:
        return
    assert found == expected


@pytest.mark.parametrize("verb", ["run", "explain", "workload", "sweep"])
@pytest.mark.parametrize("key", ["num_experts", "sliding_window_pattern_of_mine"])
def test_every_verb_refuses_and_says_how_to_capture(
    verb: str, key: str, tmp_path: Path, armillary: Armillary
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**default("llama"), key: 8}), encoding="utf-8")
    words: list[str | Path] = [verb, file, "-p", "dgx-h100"]
    if verb == "workload":
        words = [verb, file]
    elif verb == "sweep":
        study = {"workload": {"model": str(file)}, "platform": "dgx-h100", "parameters": {}}
        (tmp_path / "study.yml").write_text(json.dumps(study), encoding="utf-8")
        words = [verb, tmp_path / "study.yml", "-o", tmp_path / "out"]
    run = armillary(*words)
    said = "".join(run.stderr.split())
    assert run.returncode == 2
    assert f"armillaryruncapture:{file}" in said
    assert key in said
