"""Hugging Face `config.json` into the fields of a decoder model.

Here: which architectures are known and what their keys mean. Not here: the fields themselves (`architecture.py`).
Source: the configuration classes of huggingface/transformers, under
`src/transformers/models`; defaults are theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Problem

DENSE = ("gpt2", "llama", "mistral", "qwen2", "qwen3")
"""`model_type`s of dense decoders."""

SPARSE = ("mixtral", "deepseek_v2", "deepseek_v3", "qwen3_moe")
"""`model_type`s of mixtures of experts."""

_ARCHITECTURES = {
    "GPT2LMHeadModel": "gpt2",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "MixtralForCausalLM": "mixtral",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
}

LONGEST = 8192
"""Tokens of a sample when nothing is said: models can attend to more than most are trained on."""


def is_huggingface(values: Mapping[str, Any]) -> bool:
    """Whether a mapping looks like a Hugging Face model configuration."""
    return "model_type" in values or "architectures" in values


def translate(values: Mapping[str, Any], file: str) -> tuple[dict[str, Any], list[Problem]]:
    """The fields of the model with its `family`, or what keeps them from being read."""
    kind = _kind(values)
    if kind not in DENSE + SPARSE:
        said = f"{values.get('model_type') or values.get('architectures')!r} is no architecture known here"
        return {}, [Problem(file, "model_type", said, ", ".join(DENSE + SPARSE))]
    reader = _Reader(values, file)
    found = _gpt2(reader) if kind == "gpt2" else _rotary(reader, kind)
    if kind in SPARSE:
        found |= _experts(reader, kind)
    return found, reader.problems


def _kind(values: Mapping[str, Any]) -> str:
    kind = str(values.get("model_type") or "")
    architectures = values.get("architectures") or []
    if not kind and isinstance(architectures, list) and architectures:
        kind = _ARCHITECTURES.get(str(architectures[0]), "")
    return kind


class _Reader:
    """Takes whole numbers out of a configuration and remembers what was wrong."""

    def __init__(self, values: Mapping[str, Any], file: str) -> None:
        self.values = values
        self.file = file
        self.problems: list[Problem] = []

    def number(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            said = "is missing" if value is None else f"{value!r} is no whole number"
            self.problems.append(Problem(self.file, key, said, "a whole number"))
            return 1
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        return value if isinstance(value, bool) else default


def _gpt2(reader: _Reader) -> dict[str, Any]:
    hidden = reader.number("n_embd", 768)
    return {
        "family": "transformer",
        "layers": reader.number("n_layer", 12),
        "hidden": hidden,
        "heads": reader.number("n_head", 12),
        "ffn": reader.number("n_inner", 4 * hidden),
        "vocabulary": reader.number("vocab_size", 50257),
        "positions": reader.number("n_positions", 1024),
        "sequence": reader.number("n_positions", 1024),
        "tied": reader.flag("tie_word_embeddings", True),
    }


def _rotary(reader: _Reader, kind: str) -> dict[str, Any]:
    heads = reader.number("num_attention_heads")
    found: dict[str, Any] = {
        "family": "moe" if kind in SPARSE else "transformer",
        "layers": reader.number("num_hidden_layers"),
        "hidden": reader.number("hidden_size"),
        "heads": heads,
        "kv_heads": reader.number("num_key_value_heads", heads),
        "ffn": reader.number("intermediate_size"),
        "vocabulary": reader.number("vocab_size"),
        "sequence": min(reader.number("max_position_embeddings", 4096), LONGEST),
        "gated": True,
        "norm": "rms",
        "bias": reader.flag("mlp_bias", False),
        "qkv_bias": reader.flag("attention_bias", kind == "qwen2"),
        "out_bias": reader.flag("attention_bias", False) and kind != "qwen2",
        "qk_norm": kind in ("qwen3", "qwen3_moe"),
        "dropout": False,
        "tied": reader.flag("tie_word_embeddings", False),
    }
    if reader.values.get("head_dim") is not None:
        found["head_dim"] = reader.number("head_dim")
    if kind.startswith("deepseek"):
        found |= _latent(reader)
    return found


def _latent(reader: _Reader) -> dict[str, Any]:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""
    return {
        "q_rank": reader.number("q_lora_rank", 0),
        "kv_rank": reader.number("kv_lora_rank"),
        "head_dim": reader.number("qk_nope_head_dim"),
        "rope_dim": reader.number("qk_rope_head_dim"),
        "value_dim": reader.number("v_head_dim"),
    }


def _experts(reader: _Reader, kind: str) -> dict[str, Any]:
    if kind == "mixtral":
        experts, ffn = reader.number("num_local_experts", 8), reader.number("intermediate_size")
        return {"experts": experts, "top_k": reader.number("num_experts_per_tok", 2), "expert_ffn": ffn}
    found: dict[str, Any] = {
        "top_k": reader.number("num_experts_per_tok", 8),
        "expert_ffn": reader.number("moe_intermediate_size"),
    }
    if kind == "qwen3_moe":
        return found | {"experts": reader.number("num_experts"), "every": reader.number("decoder_sparse_step", 1)}
    return found | {
        "experts": reader.number("n_routed_experts"),
        "shared_experts": reader.number("n_shared_experts", 0),
        "first_dense": reader.number("first_k_dense_replace", 0),
        "every": reader.number("moe_layer_freq", 1),
        "router_bias": kind == "deepseek_v3",
    }
