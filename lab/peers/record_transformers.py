"""Answers of transformers: the parameters of models that it builds from drawn configurations.

Models are built on the meta device, so that they take no memory."""

from __future__ import annotations

import json
import random
from importlib.metadata import version
from typing import Any

import torch
from answers import Answers, main
from transformers import AutoConfig, AutoModelForCausalLM

from armillary.model.huggingface_kinds import KNOWN

SEEDS = range(2)
WITHOUT = {
    "falcon": "its configuration takes no drawn head_dim",
    "gemma3": "the text part alone is gemma3_text",
    "llama4": "the text part alone is llama4_text",
    "mistral4": "transformers has no causal model of it",
    "qwen3_5_moe": "the text part alone is qwen3_5_moe_text",
}
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
FLAGS = ("attention_bias", "tie_word_embeddings")
NO_BIAS = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa")
"""Types whose biases are refused."""


def drawn(base: Any, draw: random.Random) -> dict[str, object]:  # noqa: ANN401 - their class
    """A small shape, with keys that the configuration has."""
    heads = draw.choice([4, 8])
    hidden = draw.choice([64, 128, 256])
    shape: dict[str, object] = {
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": draw.choice([each for each in (1, 2, 4, 8) if heads % each == 0]),
        "num_hidden_layers": draw.choice([4, 8]),
        "intermediate_size": draw.choice([96, 256, 384]),
        "moe_intermediate_size": draw.choice([32, 64]),
        "head_dim": draw.choice([16, 32, hidden // heads]),
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_k": 2,
        **dict.fromkeys(EXPERTS, 8),
        **{flag: draw.random() < 0.4 for flag in FLAGS},
    }
    if base.model_type in NO_BIAS:
        del shape["attention_bias"]
    has = {key: value for key, value in shape.items() if hasattr(base, key)}
    # The numbers of special tokens are below this.
    return {**has, "vocab_size": 160_000, "tie_word_embeddings": shape["tie_word_embeddings"]}


def record(kind: str, draw: random.Random) -> dict[str, object]:
    """A configuration as transformers saves it, and the parameters of its model. Biases that
    balance experts are buffers there."""
    config = AutoConfig.for_model(kind, **drawn(AutoConfig.for_model(kind), draw))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    biases = [each for name, each in model.named_buffers() if name.endswith("correction_bias")]
    return {
        "config": {**json.loads(config.to_json_string()), "architectures": [type(model).__name__]},
        "parameters": sum(each.numel() for each in model.parameters()),
        "router_biases": sum(each.numel() for each in biases),
    }


def answers() -> Answers:
    """The drawn models, and the types that are left out."""
    kinds = sorted(set(KNOWN) - set(WITHOUT))
    models = [record(kind, random.Random(f"{kind} {seed}")) for kind in kinds for seed in SEEDS]
    return {"left_out": WITHOUT, "models": models}


if __name__ == "__main__":
    main(version("transformers"), answers)
