"""Steps of captured models next to those of the generator, in docs/models/capture.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documented import says

pytest.importorskip("torch")
pytest.importorskip("transformers")

import armillary as arm
from armillary.workload import build, captured

ROOT = Path(__file__).resolve().parents[2]
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
QWEN = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "tie_word_embeddings": False,
    "max_position_embeddings": 40960,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "first_k_dense_replace": 3,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "n_group": 8,
    "topk_group": 4,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "norm_topk_prob": True,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
GPT3 = {
    "model_type": "gpt2",
    "n_embd": 12288,
    "n_layer": 96,
    "n_head": 96,
    "n_positions": 2048,
    "vocab_size": 51200,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}
DEALT = {"layers_per_stage": "7,8,8,8,8,8,7,7", "global_batch": 2048}
STEPS: dict[str, tuple[dict[str, Any], int, dict[str, Any]]] = {
    "Llama-3-8B, tp 8, sp": (LLAMA, 8192, {"tp": 8, "sp": True}),
    "Qwen3-30B-A3B, ep 8": (QWEN, 4096, {"dp": 8, "ep": 8}),
    "GPT-3 175B, tp 8, sp, pp 8": (GPT3, 2048, {"tp": 8, "sp": True, "pp": 8}),
    "DeepSeek-V3, ep 64, pp 8": (DEEPSEEK, 4096, {"dp": 64, "ep": 64, "pp": 8, **DEALT}),
}


@pytest.mark.parametrize("words", STEPS)
def test_steps(words: str, tmp_path: Path) -> None:
    config, tokens, options = STEPS[words]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    eager = {"kernels": "eager", "merged": False}
    made = {
        "ours": captured(arm.capture(file, sequence=tokens), **options),
        "megatron": build(file, seq=tokens, **options),
        "eager": build(file, seq=tokens, framework_set=eager, **options),
    }
    facts = {
        name: arm.simulate(each, "dgx-h100", npus=each.ranks).step_time_ns / 1e6
        for name, each in made.items()
    }
    wanted = f"| {words} | {{ours:,.0f}} ms | {{eager:,.0f}} ms | {{megatron:,.0f}} ms |"
    assert says(ROOT / "docs/models/capture.md", [wanted], facts) == []
