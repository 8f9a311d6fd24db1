"""Keys of Hugging Face configurations: their names, defaults, and those that change no cost."""

from __future__ import annotations

from typing import Any

CAPTURED = "capture:"
"""Beginning of the name of a model that is captured from PyTorch: `capture:config.json`."""
LONGEST = 8192
"""Tokens of a sample when nothing is said: models can attend to more than most are trained on."""

NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers",),
    "hidden": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "ffn": ("intermediate_size",),
    "vocabulary": ("vocab_size",),
    "sequence": (
        "max_position_embeddings",
        "n_positions",
        "seq_length",
        "max_sequence_length",
        "max_seq_len",
    ),
    "experts": ("num_local_experts", "num_experts"),
    "top_k": ("num_experts_per_tok",),
    "expert_ffn": ("moe_intermediate_size",),
    "shared_experts": ("n_shared_experts",),
    "first_dense": ("first_k_dense_replace",),
    "every": ("decoder_sparse_step",),
}
"""Keys of each field; the first that is given counts."""

_ROUTED: dict[str, tuple[str, ...]] = {
    "experts": ("n_routed_experts", "num_local_experts", "num_experts")
}
OWN_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "deepseek_v2": _ROUTED,
    "deepseek_v3": _ROUTED,
    "deepseek_v32": _ROUTED,
    "dots1": _ROUTED,
    "ernie4_5_moe": {
        "experts": ("moe_num_experts", "num_experts"),
        "top_k": ("moe_k", "num_experts_per_tok"),
        "shared_experts": ("moe_num_shared_experts",),
        "first_dense": ("moe_layer_start_index",),
    },
    "falcon": {"kv_heads": ("num_kv_heads",), "head_dim": (), "ffn": ("ffn_hidden_size",)},
    "glm4_moe": _ROUTED,
    "glm_moe_dsa": _ROUTED,
    "gpt2": {
        "layers": ("n_layer", "num_hidden_layers"),
        "hidden": ("n_embd", "hidden_size"),
        "heads": ("n_head", "num_attention_heads"),
        "kv_heads": (),
        "head_dim": (),
        "ffn": ("n_inner",),
    },
    "llama4": {"every": ("interleave_moe_layer_step",)},
    "mistral4": _ROUTED,
    "olmoe": {"head_dim": ()},
    "qwen2_5_vl_text": {"head_dim": ()},
    "qwen2_vl_text": {"head_dim": ()},
}
"""Keys of fields that an architecture calls by other names, or does not have."""

_QWEN2_VL = {"num_key_value_heads": 8, "max_window_layers": 80, "sliding_window": 4096}
DEFAULTS: dict[str, dict[str, Any]] = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "ministral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "ministral3": {"num_key_value_heads": 8, "head_dim": 128},
    "mixtral": {"num_key_value_heads": 8},
    "qwen2": {"num_key_value_heads": 32, "max_window_layers": 28, "sliding_window": 4096},
    "qwen2_moe": {"num_key_value_heads": 16, "max_window_layers": 28, "sliding_window": 4096},
    "qwen3": {
        "num_key_value_heads": 32,
        "head_dim": 128,
        "max_window_layers": 28,
        "sliding_window": 4096,
    },
    "qwen3_moe": {"num_key_value_heads": 4, "sliding_window": 4096},
    "qwen3_next": {"num_key_value_heads": 2, "head_dim": 256},
    # No layer is dense: the width stands for nothing.
    "qwen3_5_moe": {"num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 1},
    "qwen2_vl_text": _QWEN2_VL,
    "qwen2_5_vl_text": _QWEN2_VL,
    "qwen3_vl_moe_text": {
        "num_key_value_heads": 16,
        "num_experts_per_tok": 4,
        "sliding_window": 4096,
    },
    "gemma2": {"num_key_value_heads": 4},
    "gemma3": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
    },
    "glm": {"num_key_value_heads": 2, "head_dim": 128, "attention_bias": True},
    "glm4": {"num_key_value_heads": 2, "head_dim": 128, "attention_bias": True},
    "glm4_moe": {"num_key_value_heads": 8},
    "gpt_oss": {"num_key_value_heads": 8, "head_dim": 64},
    "llama4": {"num_key_value_heads": 8, "head_dim": 128, "attention_chunk_size": 8192},
    "minimax_m2": {"num_key_value_heads": 8, "head_dim": 128},
    "smollm3": {"num_key_value_heads": 4},
    "olmo3": {"sliding_window": 4096},
    "exaone4": {"sliding_window": 4096},
    "dots1": {"sliding_window": 4096, "max_window_layers": 62},
    "seed_oss": {"num_key_value_heads": 8, "head_dim": 128, "attention_bias": True},
    "phimoe": {"num_key_value_heads": 8},
    "ernie4_5": {"num_key_value_heads": 2, "head_dim": 128},
    "ernie4_5_moe": {"num_key_value_heads": 4},
}
"""Values that published files leave out, as the configuration classes have them."""

ACTIVATIONS = (
    "gelu",
    "gelu_fast",
    "gelu_new",
    "gelu_pytorch_tanh",
    "quick_gelu",
    "relu",
    "relu2",
    "silu",
    "swiglu",
    "swish",
)
"""Activation functions without parameters."""

OUTER: dict[str, str | None] = {
    "aya_vision": None,
    "gemma3": "gemma3",
    "glm4v": None,
    "glm4v_moe": None,
    "internvl": None,
    "internvl_chat": None,
    "kimi_vl": "deepseek_v3",
    "llama4": "llama4",
    "llava": "llama",
    "llava_next": "llama",
    "llava_onevision": "qwen2",
    "mistral3": "mistral",
    "paligemma": "gemma",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen3_5_moe": "qwen3_5_moe",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "voxtral": "llama",
}
"""Known types of models with a text part and other parts, and the type of a text part that doesn't
say what it is."""

WITHOUT_HEAD = ("qwen2_5_vl_text", "qwen2_vl_text", "qwen3_vl_moe_text", "qwen3_vl_text")
"""Types of text parts that predict no tokens where they are not part of a model."""

TIED = ("aya_vision", "gemma3", "internvl", "mistral3", "paligemma")
"""Types with other parts whose head shares the embedding's weights unless they say otherwise."""

WIDE = ("falcon", "gpt2")
"""Types whose perceptron is four times as wide as the model unless they say otherwise."""

SAME = {
    "gemma3_text": "gemma3",
    "kimi_k2": "deepseek_v3",
    "llama4_text": "llama4",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_5_moe_text": "qwen3_5_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_vl_text": "qwen3",
}
"""Types whose text parts have the parameters and operations of another type."""

OTHER_PARTS = ("audio", "image", "mm_", "projector", "video", "vision", "visual")
"""Beginnings of the names of keys next to a text part that describe other parts of the model."""

BESIDE_TEXT = frozenset(
    {
        "boi_token_index",
        "downsample_ratio",
        "dynamic_image_size",
        "eoi_token_index",
        "force_image_size",
        "ignore_index",
        "max_dynamic_patch",
        "media_placeholder_token_id",
        "min_dynamic_patch",
        "multimodal_projector_bias",
        "projection_dim",
        "ps_version",
        "select_layer",
        "spatial_merge_size",
        "template",
        "tie_word_embeddings",
        "use_image_newline_parameter",
        "use_thumbnail",
    }
)
"""Other keys next to a text part that change nothing in it."""

WITHOUT_COST = frozenset(
    (
        "_attn_implementation",
        "_name_or_path",
        "activation_function",
        "architectures",
        "attention_dropout",
        "attention_multiplier",
        "attn_implementation",
        "attn_logit_softcapping",
        "attn_pdrop",
        "attn_temperature_tuning",
        "auto_map",
        "aux_loss_alpha",
        "bad_words_ids",
        "begin_suppress_tokens",
        "bos_token_id",
        "cache_implementation",
        "chunk_size_feed_forward",
        "classifier_dropout",
        "clip_qkv",
        "diversity_penalty",
        "do_sample",
        "dtype",
        "early_stopping",
        "embd_pdrop",
        "embedding_dropout",
        "embedding_multiplier",
        "encoder_no_repeat_ngram_size",
        "eos_token_id",
        "ep_size",
        "epsilon",
        "exponential_decay_length_penalty",
        "final_logit_softcapping",
        "finetuning_task",
        "floor_scale",
        "for_llm_compressor",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "hidden_act",
        "hidden_activation",
        "hidden_dropout",
        "id2label",
        "init_method",
        "init_std",
        "initial_context_length",
        "initializer_factor",
        "initializer_range",
        "input_jitter_noise",
        "is_training",
        "kv_cache_dtype",
        "label2id",
        "language",
        "layer_norm_eps",
        "layer_norm_epsilon",
        "layernorm_epsilon",
        "length_penalty",
        "logits_scaling",
        "max_length",
        "max_model_len",
        "max_position_embeddings",
        "min_length",
        "min_p",
        "mlp_dropout",
        "model_max_length",
        "model_type",
        "moe_aux_loss_coeff",
        "moe_capacity",
        "moe_capacity_factor",
        "moe_group_topk",
        "moe_norm_min",
        "moe_router_enable_expert_bias",
        "moe_use_aux_free",
        "mscale",
        "mscale_all_dim",
        "n_ctx",
        "n_group",
        "n_vocab",
        "no_repeat_ngram_size",
        "no_rope_layer_interval",
        "no_rope_layers",
        "norm_eps",
        "norm_epsilon",
        "norm_topk_prob",
        "num_beam_groups",
        "num_beams",
        "num_expert_group",
        "num_return_sequences",
        "num_seq_classes",
        "num_seq_label_types",
        "orig_vocab_size",
        "original_max_position_embeddings",
        "output_attentions",
        "output_dropout",
        "output_hidden_states",
        "output_router_logits",
        "output_scores",
        "pad_token_id",
        "partial_rotary_factor",
        "prefix",
        "pretraining_tp",
        "problem_type",
        "query_pre_attn_scalar",
        "remove_invalid_values",
        "reorder_and_upcast_attn",
        "repetition_penalty",
        "resid_dropout",
        "resid_pdrop",
        "residual_dropout",
        "residual_multiplier",
        "return_dict",
        "return_dict_in_generate",
        "rms_norm_eps",
        "rope_interleave",
        "rope_interleaved",
        "rope_local_base_freq",
        "rope_parameters",
        "rope_ratio",
        "rope_scaling",
        "rope_theta",
        "rope_type",
        "rotary_dim",
        "rotary_pct",
        "routed_scaling_factor",
        "router_aux_loss_coef",
        "router_dtype",
        "router_jitter_noise",
        "router_z_loss_coef",
        "scale_attn_by_inverse_layer_idx",
        "scale_attn_weights",
        "score_func",
        "score_function",
        "scores_for_aux_loss",
        "scoring_func",
        "sep_token_id",
        "seq_aux",
        "seq_length",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "suppress_tokens",
        "swiglu_alpha",
        "swiglu_limit",
        "task_specific_params",
        "temperature",
        "tf_legacy_loss",
        "tie_encoder_decoder",
        "tokenizer_class",
        "top_k",
        "top_p",
        "topk_group",
        "topk_method",
        "torch_dtype",
        "torchscript",
        "transformers.js_config",
        "transformers_version",
        "typical_p",
        "unk_token_id",
        "unsloth_fixed",
        "unsloth_version",
        "use_bfloat16",
        "use_cache",
        "use_grouped_topk",
        "use_mem_eff_path",
        "use_qk_norm_l2",
        "use_return_dict",
        "use_routing_bias",
    )
)
"""Keys that change neither parameters nor operations, whatever the architecture."""


def is_without_cost(key: str, value: object) -> bool:
    """Whether a key that no architecture reads may stand in a configuration: it is known to cost
    nothing, or it switches something off."""
    return value is None or value is False or value in ({}, []) or key in WITHOUT_COST
