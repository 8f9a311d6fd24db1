"""Small configurations of many architectures of `transformers`, and captures of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from armillary.capture import of_configuration
from armillary.capture.result import Capture

BATCH, TOKENS = 3, 40

_TEXT: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "output_router_logits": False,
}
_LATENT = {
    **_EXPERTS,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 0,
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
}

SMALL: dict[str, dict[str, Any]] = {
    "llama": _TEXT,
    "mistral": {**_TEXT, "sliding_window": 8},
    "qwen2": _TEXT,
    "qwen3": {**_TEXT, "head_dim": 24},
    "gemma": {**_TEXT, "head_dim": 16},
    "gemma2": {**_TEXT, "head_dim": 16, "sliding_window": 8},
    "gemma3_text": {**_TEXT, "head_dim": 16, "sliding_window": 8},
    "phi": _TEXT,
    "phi3": _TEXT,
    "gpt2": {"vocab_size": 96, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neox": _TEXT,
    "opt": {**_TEXT, "ffn_dim": 80, "word_embed_proj_dim": 64},
    "olmo": _TEXT,
    "olmo2": _TEXT,
    "olmo3": {**_TEXT, "sliding_window": 8},
    "glm": {**_TEXT, "head_dim": 16},
    "glm4": {**_TEXT, "head_dim": 16},
    "cohere": _TEXT,
    "granite": _TEXT,
    "starcoder2": _TEXT,
    "stablelm": _TEXT,
    "nemotron": _TEXT,
    "smollm3": _TEXT,
    "seed_oss": {**_TEXT, "head_dim": 16},
    "exaone4": {**_TEXT, "sliding_window": 8},
    "apertus": _TEXT,
    "mixtral": {**_TEXT, **_EXPERTS},
    "qwen3_moe": {**_TEXT, **_EXPERTS},
    "olmoe": {**_TEXT, **_EXPERTS},
    "gpt_oss": {**_TEXT, **_EXPERTS, "head_dim": 16, "sliding_window": 8},
    "minimax_m2": {**_TEXT, **_EXPERTS, "head_dim": 16, "rotary_dim": 8},
    "glm4_moe": {**_TEXT, **_LATENT, "num_key_value_heads": 2, "head_dim": 16},
    "deepseek_v2": {**_TEXT, **_LATENT},
    "deepseek_v3": {**_TEXT, **_LATENT},
    "bert": _TEXT,
    "t5": {
        "vocab_size": 96,
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 80,
        "num_layers": 2,
        "num_heads": 4,
    },
    "vit": {**_TEXT, "image_size": 32, "patch_size": 8},
}
"""Without scans; those are tested by themselves."""

SCANS: dict[str, dict[str, Any]] = {
    "mamba": {**_TEXT, "state_size": 8},
    "mamba2": {
        **_TEXT,
        "state_size": 16,
        "num_heads": 8,
        "head_dim": 16,
        "n_groups": 8,
        "chunk_size": 16,
    },
    "jamba": {
        **_TEXT,
        **_EXPERTS,
        "mamba_d_state": 8,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
    },
    "qwen3_next": {
        **_TEXT,
        **_EXPERTS,
        "head_dim": 16,
        "shared_expert_intermediate_size": 48,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "layer_types": ["linear_attention", "full_attention"],
    },
}

LIMITED: dict[str, dict[str, Any]] = {
    "llama4_text": {
        **_TEXT,
        **_EXPERTS,
        "num_experts_per_tok": 1,
        "head_dim": 16,
        "attention_chunk_size": 8,
        "intermediate_size_mlp": 112,
        "interleave_moe_layer_step": 2,
        "layer_types": ["chunked_attention", "full_attention"],
    },
    "deepseek_v32": {
        **_TEXT,
        **_LATENT,
        "index_n_heads": 4,
        "index_head_dim": 20,
        "index_topk": 8,
    },
    "minimax": {
        **_TEXT,
        **_EXPERTS,
        "head_dim": 16,
        "block_size": 16,
        "layer_types": ["linear_attention", "full_attention"],
    },
}
"""Attention in chunks, of chosen keys, and without scores of all pairs."""


@cache
def captured(kind: str) -> Capture:
    """A step of `BATCH` samples of `TOKENS` tokens, made once for all tests of a process."""
    values = {**SMALL, **SCANS, **LIMITED}[kind]
    return of_configuration({"model_type": kind, **values}, kind, BATCH, TOKENS)
