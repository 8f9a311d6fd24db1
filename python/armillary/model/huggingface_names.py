"""Keys of Hugging Face configurations: their names, defaults, and those that change no cost."""

from __future__ import annotations

from typing import Any

LONGEST = 8192
"""Tokens of a sample when nothing is said: models can attend to more than most are trained on."""

NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "multi_query_group_num"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "ffn": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "intermediate_size_mlp"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "sequence": (
        "max_position_embeddings",
        "n_positions",
        "seq_length",
        "max_sequence_length",
        "max_seq_len",
    ),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "top_k": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "moe_top_k",
        "moe_k",
        "experts_per_token",
    ),
    "expert_ffn": ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "first_dense": ("first_k_dense_replace", "moe_layer_start_index"),
    "every": (
        "moe_layer_freq",
        "decoder_sparse_step",
        "interleave_moe_layer_step",
        "moe_layer_interval",
    ),
}
"""Keys of each field; the first that is given counts."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
    },
}
"""Values that published files leave out."""

WITHOUT_COST = (
    "architectures",
    "attn_implementation",
    "auto_map",
    "aux_loss",
    "bos_",
    "cache",
    "chat",
    "classifier",
    "attention_dropout",
    "dropout",
    "dtype",
    "embd_pdrop",
    "eos_",
    "epsilon",
    "eps",
    "hidden_act",
    "hidden_activation",
    "activation_function",
    "id2label",
    "init",
    "label2id",
    "language",
    "logit",
    "loss",
    "mscale",
    "multiplier",
    "model_type",
    "moe_router",
    "n_ctx",
    "n_group",
    "norm_topk",
    "output_",
    "pad_",
    "pdrop",
    "pretraining_tp",
    "problem_type",
    "query_pre_attn",
    "remove_invalid",
    "resid",
    "return_",
    "rope_",
    "rotary",
    "router_",
    "routed_scal",
    "scor",
    "seq_aux",
    "softcap",
    "summary_",
    "task_",
    "tie_weights",
    "tokenizer",
    "topk_",
    "torch",
    "transformers",
    "unk_",
    "use_bfloat16",
    "use_return",
    "partial_rotary",
    "alpha",
    "swiglu_limit",
    "use_qk_norm_l2",
    "ep_size",
    "scale_attn",
    "max_window_layers",
    "n_vocab",
)
"""Parts of names of keys that change no cost."""
