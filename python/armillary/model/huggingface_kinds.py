"""Architectures of Hugging Face that are known exactly, and what their keys do not say.

Here: what each known `model_type` makes of its configuration. Not here: names and defaults of keys
(`huggingface_names.py`), how a file is taken apart and what is refused (`huggingface.py`). Source:
the configuration and model classes of huggingface/transformers, under `src/transformers/models`;
parameters were counted with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .huggingface_names import LONGEST
from .huggingface_reader import Reader, way_out


def common(reader: Reader, wide: bool = False) -> dict[str, Any]:
    """Common features of nearly all decoders of today: rotary positions, a gated perceptron, norms
    without bias."""
    heads = reader.field("heads")
    found: dict[str, Any] = {
        "family": "moe",
        "layers": reader.field("layers"),
        "hidden": reader.field("hidden"),
        "heads": heads,
        "kv_heads": reader.field("kv_heads", heads),
        "ffn": reader.field("ffn", 4 * reader.field("hidden") if wide else None),
        "vocabulary": reader.field("vocabulary"),
        "sequence": min(reader.field("sequence", 4096), LONGEST),
        "gated": True,
        "norm": "rms",
        "bias": False,
        "qkv_bias": False,
        "out_bias": False,
        "dropout": False,
        "tied": reader.flag("tie_word_embeddings"),
    }
    if reader.has("head_dim"):
        found["head_dim"] = reader.field("head_dim")
    return found


def _biases(reader: Reader) -> dict[str, Any]:
    """Biases on all four matrices of attention, where `attention_bias` says so."""
    given = reader.flag("attention_bias")
    return {"qkv_bias": given, "out_bias": given}


def _llama(reader: Reader) -> dict[str, Any]:
    return {**_biases(reader), "bias": reader.flag("mlp_bias")}


def _smollm3(reader: Reader) -> dict[str, Any]:
    window = _window(reader, 0) if reader.flag("use_sliding_window") else {}
    return {**_llama(reader), "tied": reader.flag("tie_word_embeddings", True), **window}


def _seed_oss(reader: Reader) -> dict[str, Any]:
    return {
        "qkv_bias": reader.flag("attention_bias"),
        "out_bias": reader.flag("attention_out_bias"),
        "bias": reader.flag("mlp_bias"),
    }


def _nemotron(reader: Reader) -> dict[str, Any]:
    """Squared ReLU without a gate; norms with a bias."""
    return {**_llama(reader), "gated": False, "norm": "layer"}


def _ernie(reader: Reader) -> dict[str, Any]:
    reader.require("use_bias", False)
    return {"tied": reader.flag("tie_word_embeddings", True)}


def _ernie_moe(reader: Reader) -> dict[str, Any]:
    """Experts from one layer to the last, the first layers dense."""
    reader.require("moe_layer_end_index", -1, reader.field("layers") - 1)
    reader.require("moe_layer_interval", 1)
    reader.require("moe_use_aux_free", True, False)
    return {
        **_ernie(reader),
        "experts": reader.field("experts", 64),
        "top_k": reader.field("top_k", 6),
        "expert_ffn": reader.field("expert_ffn", 1536),
        "shared_experts": reader.field("shared_experts", 2),
        "first_dense": reader.field("first_dense", 1),
        "router_bias": True,
    }


def _gpt2(reader: Reader) -> dict[str, Any]:
    positions = reader.number("n_positions", 1024)
    hidden = reader.number("n_embd", 768)
    reader.require("add_cross_attention", False)
    return {
        "layers": reader.number("n_layer", 12),
        "hidden": hidden,
        "heads": reader.number("n_head", 12),
        "kv_heads": reader.number("n_head", 12),
        "ffn": reader.number("n_inner", 4 * hidden),
        "vocabulary": reader.number("vocab_size", 50257),
        "positions": positions,
        "sequence": positions,
        "gated": False,
        "norm": "layer",
        "bias": True,
        "qkv_bias": True,
        "out_bias": True,
        "dropout": True,
        "tied": reader.flag("tie_word_embeddings", True),
    }


def _mistral(reader: Reader) -> dict[str, Any]:
    """Mistral's first models have a window in all layers."""
    return _window(reader, 0)


def _mistral4(reader: Reader) -> dict[str, Any]:
    reader.require("attention_bias", False)
    return _deepseek(reader)


def _qwen2(reader: Reader) -> dict[str, Any]:
    """Biases on queries, keys and values."""
    return {"qkv_bias": reader.flag("qkv_bias", True), **_late_window(reader)}


def _qwen3(reader: Reader) -> dict[str, Any]:
    return {"qk_norm": True, **_biases(reader), **_late_window(reader)}


def _late_window(reader: Reader) -> dict[str, Any]:
    """A window in the layers from `max_window_layers` on, where `use_sliding_window` is on."""
    on = reader.flag("use_sliding_window")
    first = reader.number("max_window_layers", 0)
    reader.used |= {"sliding_window"}
    if not on:
        return {}
    if "layer_types" not in reader:
        if first >= reader.field("layers"):
            return {}
        if first:
            said = f"{first} layers with full attention before those with a window are not modelled"
            reader.refuse("max_window_layers", said, way_out(reader.file))
    return _window(reader, 0)


def _dots1(reader: Reader) -> dict[str, Any]:
    """DeepSeek's experts with ordinary attention; its window begins behind the last layer."""
    first = reader.number("max_window_layers", 0)
    reader.used |= {"sliding_window"}
    if first < reader.field("layers") and "sliding_window" in reader:
        reader.refuse(
            "max_window_layers", f"{first}: a window is not modelled", way_out(reader.file)
        )
    return {
        "qk_norm": True,
        **_biases(reader),
        **_deepseek_experts(reader),
    }


def _exaone4(reader: Reader) -> dict[str, Any]:
    """Norms after the blocks and of queries and keys; each fourth layer attends to the whole
    sequence."""
    pattern = reader.values.get("sliding_window_pattern", 4)
    reader.used.add("sliding_window_pattern")
    every = 4 if pattern in ("LLLG", None) else pattern
    if not isinstance(every, int) or isinstance(every, bool):
        reader.refuse(
            "sliding_window_pattern",
            f"{pattern!r} is not modelled",
            f"LLLG; {way_out(reader.file)}",
        )
        every = 4
    return {"qk_norm": True, **_window(reader, every)}


def _minimax_m2(reader: Reader) -> dict[str, Any]:
    """Norms of all queries and all keys; no shared expert. Its MTP modules are left out."""
    reader.require("use_qk_norm", True)
    reader.require("qk_norm_type", "per_layer")
    reader.require("shared_intermediate_size", 0)
    reader.require("attn_type_list", [1] * reader.field("layers"))
    reader.used |= {"mtp_transformer_layers", "num_mtp_modules", "use_mtp", "attn_window_size"}
    if modules := reader.values.get("num_mtp_modules"):
        reader.assumed.append(f"no MTP modules, where num_mtp_modules is {modules}")
    return {
        "experts": reader.field("experts", 256),
        "top_k": reader.field("top_k", 8),
        "expert_ffn": reader.field("ffn"),
        "qk_norm": True,
        "qk_norm_whole": True,
    }


def _phimoe(reader: Reader) -> dict[str, Any]:
    """Norms with a bias; experts as wide as `intermediate_size`."""
    reader.require("lm_head_bias", False)
    return {
        "experts": reader.field("experts", 16),
        "top_k": reader.field("top_k", 2),
        "expert_ffn": reader.field("ffn"),
        "norm": "layer",
        **_biases(reader),
        **_window(reader, 0),
    }


def _phi3(reader: Reader) -> dict[str, Any]:
    return _window(reader, 0)


def _gemma(reader: Reader) -> dict[str, Any]:
    return {
        **_biases(reader),
        "head_dim": reader.field("head_dim", 256),
        "tied": reader.flag("tie_word_embeddings", True),
    }


def _gemma2(reader: Reader) -> dict[str, Any]:
    """Norms before and after both blocks; every second layer attends to the whole sequence."""
    return {**_gemma(reader), "norms": 4, **_window(reader, 2, 4096)}


def _gemma3(reader: Reader) -> dict[str, Any]:
    """As gemma 2, with norms of queries and keys; each sixth layer attends to the whole
    sequence."""
    reader.require("use_bidirectional_attention", False)
    every = reader.number(("sliding_window_pattern", "_sliding_window_pattern"), 6)
    return {**_gemma(reader), "norms": 4, "qk_norm": True, **_window(reader, every, 4096)}


def _glm4(reader: Reader) -> dict[str, Any]:
    """GLM-4-0414: norms before and after both blocks; biases on queries, keys and values by its
    key."""
    return {**_glm(reader), "norms": 4}


def _glm(reader: Reader) -> dict[str, Any]:
    """GLM-4: biases on queries, keys and values only."""
    return {"qkv_bias": reader.flag("attention_bias")}


def _glm4_moe(reader: Reader) -> dict[str, Any]:
    return {
        **_glm(reader),
        "qk_norm": reader.flag("use_qk_norm"),
        **_deepseek_experts(reader),
    }


def _olmo(reader: Reader) -> dict[str, Any]:
    """OLMo: norms without parameters, which cost time all the same."""
    return {"norm": "plain", **_biases(reader)}


def _olmo2(reader: Reader) -> dict[str, Any]:
    """OLMo 2: norms after the blocks, and of all queries and all keys together."""
    return {"qk_norm": True, "qk_norm_whole": True, **_biases(reader)}


def _olmo3(reader: Reader) -> dict[str, Any]:
    """As OLMo 2; each fourth layer attends to the whole sequence."""
    return {**_olmo2(reader), **_window(reader, 4)}


def _olmoe(reader: Reader) -> dict[str, Any]:
    found = {"experts": reader.field("experts", 64), "top_k": reader.field("top_k", 8)}
    return {**found, "expert_ffn": reader.field("ffn"), **_olmo2(reader)}


def _granite_moe(reader: Reader) -> dict[str, Any]:
    experts = {"experts": reader.field("experts"), "top_k": reader.field("top_k", 8)}
    return {
        **experts,
        **_biases(reader),
        "expert_ffn": reader.field("ffn"),
        "tied": reader.flag("tie_word_embeddings"),
    }


def _falcon(reader: Reader) -> dict[str, Any]:
    """Attention and perceptron side by side, GELU of 4 hidden, one head of keys and values or
    some."""
    heads, new = reader.field("heads"), reader.flag("new_decoder_architecture")
    side = reader.flag("parallel_attn", True)
    kv = (
        reader.field("kv_heads", heads) if new else 1 if reader.flag("multi_query", True) else heads
    )
    two = new and reader.number("num_ln_in_parallel_attn", 2) == 2
    reader.used |= {"alibi", "multi_query", "num_kv_heads"}
    bias = reader.flag("bias")
    return {
        "kv_heads": kv,
        "ffn": reader.field("ffn", 4 * reader.field("hidden")),
        "gated": False,
        "norm": "layer",
        "norms": 1 if side and not two else 2,
        "bias": bias,
        "qkv_bias": bias,
        "out_bias": bias,
        "tied": reader.flag("tie_word_embeddings", True),
    }


def _mixtral(reader: Reader) -> dict[str, Any]:
    experts = {"experts": reader.field("experts", 8), "top_k": reader.field("top_k", 2)}
    return {**experts, "expert_ffn": reader.field("ffn"), **_window(reader, 0)}


def _qwen3_moe(reader: Reader) -> dict[str, Any]:
    return {**_qwen3(reader), **_spread_experts(reader)}


def _qwen2_moe(reader: Reader) -> dict[str, Any]:
    return {**_qwen2(reader), **_spread_experts(reader), **_shared(reader), "shared_gate": True}


def _experts(reader: Reader) -> dict[str, Any]:
    """Experts as most have them."""
    return {
        "experts": reader.field("experts"),
        "top_k": reader.field("top_k", 8),
        "expert_ffn": reader.field("expert_ffn"),
    }


def _spread_experts(reader: Reader) -> dict[str, Any]:
    """Experts in each n-th layer."""
    return {**_experts(reader), "every": reader.field("every", 1)}


def _shared(reader: Reader) -> dict[str, Any]:
    """Shared experts by their width together."""
    width, one = reader.number("shared_expert_intermediate_size"), reader.field("expert_ffn")
    if width % max(one, 1):
        said = f"{width:,} is not a multiple of the width of an expert, {one:,}"
        reader.refuse("shared_expert_intermediate_size", said, way_out(reader.file))
    return {"shared_experts": width // max(one, 1)}


def _deepseek(reader: Reader) -> dict[str, Any]:
    return {**_latent(reader), **_deepseek_experts(reader)}


def _latent(reader: Reader) -> dict[str, Any]:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""
    for key in ("attention_bias", "mlp_bias"):
        reader.require(key, False)
    whole = reader.number("qk_nope_head_dim") + reader.number("qk_rope_head_dim")
    reader.require("qk_head_dim", whole)
    # Null stands for queries that are not compressed.
    q_rank = reader.number("q_lora_rank", 0 if "q_lora_rank" in reader.values else None)
    kv_rank = reader.number("kv_lora_rank")
    for key, rank in (("q_lora_rank", q_rank), ("kv_lora_rank", kv_rank)):
        if not rank and key in reader:
            reader.refuse(key, "is 0, which is not modelled", f"1 or more; {way_out(reader.file)}")
    return {
        "q_rank": q_rank,
        "kv_rank": kv_rank,
        "head_dim": reader.number("qk_nope_head_dim"),
        "rope_dim": reader.number("qk_rope_head_dim"),
        "value_dim": reader.number("v_head_dim"),
    }


def _deepseek_experts(reader: Reader) -> dict[str, Any]:
    """Experts whose router has a bias that balancing changes, not training. It is not a
    parameter."""
    reader.require("moe_layer_freq", 1)
    return {
        **_experts(reader),
        "shared_experts": reader.field("shared_experts"),
        "first_dense": reader.field("first_dense"),
    }


def _llama4(reader: Reader) -> dict[str, Any]:
    """Experts in every or every second layer with one shared; three of four layers attend within
    chunks."""
    reader.used |= {"use_qk_norm", "attn_scale"}
    dense = reader.number("intermediate_size_mlp", reader.number("intermediate_size"))
    every = reader.field("every", 1)
    reader.require("moe_layers", list(range(every - 1, reader.field("layers"), max(every, 1))))
    chunk = reader.number("attention_chunk_size", 0)
    whole = _every(reader, reader.number("no_rope_layer_interval", 4), "chunked_attention")
    return {
        "ffn": dense,
        "experts": reader.field("experts", 16),
        "top_k": reader.field("top_k", 1),
        "expert_ffn": reader.number("intermediate_size"),
        "shared_experts": 1,
        "every": every,
        **_biases(reader),
        **({"window": chunk, "chunked": True, "full_every": whole} if chunk else {}),
    }


def _gpt_oss(reader: Reader) -> dict[str, Any]:
    """Biases everywhere, sinks, a window in every second layer; clamped inputs of SwiGLU and YaRN
    with an attention factor, as in all its configurations. Published ones repeat the number of
    experts of a token under a name of their own."""
    top_k = reader.field("top_k", 4)
    reader.require("experts_per_token", top_k)
    return {
        "experts": reader.field("experts"),
        "top_k": top_k,
        "expert_ffn": reader.field("ffn"),
        "router_bias": True,
        "bias": True,
        "qkv_bias": reader.flag("attention_bias", True),
        "out_bias": reader.flag("attention_bias", True),
        "clamped": True,
        "rotary_scaled": True,
        "sinks": True,
        **_window(reader, 2, 128),
    }


def _qwen3_next(reader: Reader) -> dict[str, Any]:
    """Three layers of linear attention, then one of gated attention; experts with a gated shared
    one."""
    every = _every(reader, reader.number("full_attention_interval", 4), "linear_attention")
    linear = {
        "linear_key_heads": reader.number("linear_num_key_heads", 16),
        "linear_value_heads": reader.number("linear_num_value_heads", 32),
        "linear_key_dim": reader.number("linear_key_head_dim", 128),
        "linear_value_dim": reader.number("linear_value_head_dim", 128),
        "linear_kernel": reader.number("linear_conv_kernel_dim", 4),
    }
    attention = {"qk_norm": True, "gated_attention": True, "full_every": every, **_biases(reader)}
    experts = {**_spread_experts(reader), **_shared(reader), "shared_gate": True}
    return {**linear, **attention, **experts}


def _qwen3_5_moe(reader: Reader) -> dict[str, Any]:
    """As Qwen3-Next, with experts in all layers. Its MTP module is left out."""
    reader.require("attn_output_gate", True)
    reader.used |= {"mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"}
    if modules := reader.values.get("mtp_num_hidden_layers"):
        reader.assumed.append(f"no MTP modules, where mtp_num_hidden_layers is {modules}")
    reader.require("decoder_sparse_step", 1)
    return {**_qwen3_next(reader), "ffn": reader.field("expert_ffn")}


def _sparse(reader: Reader) -> dict[str, Any]:
    """DeepSeek's latent attention to keys that an indexer chooses (DeepSeek-V3.2)."""
    reader.used |= {"indexer_rope_interleave", "head_dim"}
    layers, dense = reader.field("layers"), reader.field("first_dense")
    reader.require("layer_types", ["indexed_attention"] * layers)
    reader.require("indexer_types", ["full"] * layers)
    reader.require("mlp_layer_types", ["dense"] * dense + ["sparse"] * max(0, layers - dense))
    return {
        **_deepseek(reader),
        "index_heads": reader.number("index_n_heads"),
        "index_dim": reader.number("index_head_dim"),
        "index_top_k": reader.number("index_topk"),
    }


def _window(reader: Reader, every: int, default: int = 0) -> dict[str, Any]:
    """A sliding window, with full attention in each `every`-th layer unless `layer_types` says
    otherwise."""
    # Files say null where there is none.
    window = reader.number("sliding_window", 0 if "sliding_window" in reader.values else default)
    if not window:
        return {}
    full = _every(reader, every, "sliding_attention")
    return {} if full == 1 else {"window": window, "full_every": full}


def _every(reader: Reader, default: int, other: str) -> int:
    """Each how many-th layer has full attention, by `layer_types` or the default; the others have
    the kind of attention `other`."""
    types = reader.types("layer_types")
    if not types:
        return default
    if unknown := sorted(set(types) - {"full_attention", other}):
        said = f"layers of {', '.join(unknown)} are not modelled"
        reader.refuse("layer_types", said, f"full_attention, {other}; {way_out(reader.file)}")
    full = [at for at, kind in enumerate(types, 1) if kind == "full_attention"]
    every = full[0] if full else 0
    if every and full != list(range(every, len(types) + 1, every)):
        said = "full attention is not in each n-th layer, which is not modelled"
        reader.refuse(
            "layer_types", said, f"full attention in each n-th layer; {way_out(reader.file)}"
        )
    return every


KNOWN: dict[str, Callable[[Reader], dict[str, Any]]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "ministral": _mistral,
    "ministral3": _mistral,
    "mistral4": _mistral4,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "phi3": _phi3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "glm": _glm,
    "glm4": _glm4,
    "granite": _llama,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "falcon": _falcon,
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "qwen3_5_moe": _qwen3_5_moe,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "deepseek_v32": _sparse,
    "glm4_moe": _glm4_moe,
    "glm_moe_dsa": _sparse,
    "granitemoe": _granite_moe,
    "gpt_oss": _gpt_oss,
    "llama4": _llama4,
    "olmoe": _olmoe,
    "dots1": _dots1,
    "ernie4_5": _ernie,
    "ernie4_5_moe": _ernie_moe,
    "exaone4": _exaone4,
    "minimax_m2": _minimax_m2,
    "nemotron": _nemotron,
    "olmo3": _olmo3,
    "phimoe": _phimoe,
    "seed_oss": _seed_oss,
    "smollm3": _smollm3,
}
"""Known `model_type`s, and what of each is not as `_common` has it."""
