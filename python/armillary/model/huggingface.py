"""Hugging Face `config.json` into the fields of a decoder model.

Here: what the keys mean, what known architectures do that their keys do not say, and which keys
were used. Not here: the fields themselves (`decoder.py`). An architecture that is not known is
read by its keys, and a note lists what was used, what was assumed and what was ignored. Source: the
configuration and model classes of huggingface/transformers, under `src/transformers/models`;
defaults are theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import Problem
from .huggingface_names import DEFAULTS, LONGEST, NAMES, WITHOUT_COST


def is_huggingface(values: Mapping[str, Any]) -> bool:
    """Whether a mapping looks like a Hugging Face model configuration."""
    return "model_type" in values or "architectures" in values


def translate(
    values: Mapping[str, Any], file: str
) -> tuple[dict[str, Any], list[str], list[Problem]]:
    """The fields of the model with its `family`, notes for the reader, and what keeps the file from
    being read."""
    kind = _kind(values)
    text = values.get("text_config") or values.get("llm_config")
    nested = isinstance(text, Mapping)
    given = {**values, **text} if isinstance(text, Mapping) else values
    reader = _Reader({**DEFAULTS.get(kind, {}), **given}, file)
    adjust = _KNOWN.get(kind)
    if kind in _ENCODERS:
        said = f"{kind!r} is not a decoder"
        return (
            {},
            [],
            [Problem(file, "model_type", said, "a decoder; " + ", ".join(sorted(_KNOWN)))],
        )
    found = _common(reader)
    if adjust is None:
        found |= _by_keys(reader)
    else:
        found |= adjust(reader)
    if "experts" not in found:
        found["family"] = "transformer"
    notes = list(_notes(reader, kind, adjust is not None, nested))
    return found, notes, reader.problems


def _kind(values: Mapping[str, Any]) -> str:
    """The type of model, without what says that it is the text part of one."""
    kind = values.get("model_type")
    if isinstance(kind, str) and kind:
        return kind.removesuffix("_text")
    named = values.get("architectures")
    first = str(named[0]) if isinstance(named, list) and named else ""
    plain = (
        first.removesuffix("ForCausalLM")
        .removesuffix("LMHeadModel")
        .removesuffix("ForConditionalGeneration")
    )
    return next((kind for kind in _KNOWN if kind.replace("_", "") == plain.lower()), plain.lower())


class _Reader:
    """Takes values out of a configuration; remembers which keys were used and what was wrong."""

    def __init__(self, values: Mapping[str, Any], file: str) -> None:
        self.values = values
        self.file = file
        self.problems: list[Problem] = []
        self.used: list[str] = []
        self.assumed: list[str] = []

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def number(self, keys: str | tuple[str, ...], default: int | None = None) -> int:
        """A whole number by the first of `keys` that is given, or the default."""
        keys = (keys,) if isinstance(keys, str) else keys
        key = next((key for key in keys if key in self), keys[0])
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        self.used.append(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            said = "is missing" if value is None else f"{value!r} is not a whole number"
            self.problems.append(Problem(self.file, key, said, "a whole number"))
            return 1
        return value

    def field(self, name: str, default: int | None = None) -> int:
        """A field by any of its names."""
        return self.number(NAMES[name], default)

    def has(self, name: str) -> bool:
        """Whether a field is given."""
        return any(key in self for key in NAMES[name])

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false; the default where it is neither."""
        value = self.values.get(key)
        if isinstance(value, bool):
            self.used.append(key)
            return value
        return default

    def types(self, key: str) -> list[str]:
        """A list of names, one for each layer; empty without."""
        value = self.values.get(key)
        if not isinstance(value, list):
            return []
        self.used.append(key)
        return [str(each) for each in value]

    def unused(self) -> list[str]:
        """Keys that were given, were not used, and may change what a step costs."""
        used = set(self.used)
        return sorted(
            key for key, value in self.values.items() if key not in used and _costs(key, value)
        )


def _costs(key: str, value: object) -> bool:
    if value is None or value is False or value in ({}, []) or key in ("text_config", "llm_config"):
        return False
    return not (key.startswith("_") or any(part in key for part in WITHOUT_COST))


def _common(reader: _Reader) -> dict[str, Any]:
    """What nearly all decoders of today have in common: rotary positions, a gated perceptron, norms
    without bias."""
    heads = reader.field("heads")
    found: dict[str, Any] = {
        "family": "moe",
        "layers": reader.field("layers"),
        "hidden": reader.field("hidden"),
        "heads": heads,
        "kv_heads": reader.field("kv_heads", heads),
        "ffn": reader.field("ffn", 4 * reader.field("hidden")),
        "vocabulary": reader.field("vocabulary"),
        "sequence": min(reader.field("sequence", 4096), LONGEST),
        "gated": True,
        "norm": "rms",
        "bias": reader.flag("mlp_bias"),
        "qkv_bias": reader.flag("attention_bias"),
        "out_bias": reader.flag("attention_bias"),
        "dropout": False,
        "tied": reader.flag("tie_word_embeddings"),
    }
    if reader.has("head_dim"):
        found["head_dim"] = reader.field("head_dim")
    return found


def _llama(reader: _Reader) -> dict[str, Any]:
    return {}


def _gpt2(reader: _Reader) -> dict[str, Any]:
    positions = reader.number("n_positions", 1024)
    hidden = reader.number("n_embd", 768)
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


def _mistral(reader: _Reader) -> dict[str, Any]:
    """Mistral's first models have a window in all layers."""
    return _window(reader, 0)


def _qwen2(reader: _Reader) -> dict[str, Any]:
    """Biases on queries, keys and values; a window in the last layers only where it is switched
    on."""
    window = _window(reader, 0) if reader.flag("use_sliding_window") else {}
    return {"qkv_bias": True, "out_bias": False, **window}


def _qwen3(reader: _Reader) -> dict[str, Any]:
    window = _window(reader, 0) if reader.flag("use_sliding_window") else {}
    return {"qk_norm": True, **window}


def _phi3(reader: _Reader) -> dict[str, Any]:
    return _window(reader, 0)


def _gemma(reader: _Reader) -> dict[str, Any]:
    return {
        "head_dim": reader.field("head_dim", 256),
        "tied": reader.flag("tie_word_embeddings", True),
    }


def _gemma2(reader: _Reader) -> dict[str, Any]:
    """Norms before and after both blocks; every second layer attends to the whole sequence."""
    return {**_gemma(reader), "norms": 4, **_window(reader, 2, 4096)}


def _gemma3(reader: _Reader) -> dict[str, Any]:
    """As gemma 2, with norms of queries and keys; each sixth layer attends to the whole
    sequence."""
    every = reader.number(("sliding_window_pattern", "_sliding_window_pattern"), 6)
    return {**_gemma(reader), "norms": 4, "qk_norm": True, **_window(reader, every, 4096)}


def _glm4(reader: _Reader) -> dict[str, Any]:
    """GLM-4-0414: norms before and after both blocks; biases on queries, keys and values by its
    key."""
    return {"norms": 4, "out_bias": False}


def _glm4_moe(reader: _Reader) -> dict[str, Any]:
    return {
        "out_bias": False,
        "qk_norm": reader.flag("use_qk_norm"),
        **_deepseek_experts(reader),
        "router_bias": True,
    }


def _olmo(reader: _Reader) -> dict[str, Any]:
    """OLMo: norms without parameters, which cost time all the same."""
    reader.assumed.append("norms with a gain (OLMo's have no parameters)")
    return {}


def _olmo2(reader: _Reader) -> dict[str, Any]:
    """OLMo 2: norms after the blocks, and of all queries and all keys together."""
    return {"qk_norm": True, "qk_norm_whole": True}


def _olmoe(reader: _Reader) -> dict[str, Any]:
    found = {"experts": reader.field("experts", 64), "top_k": reader.field("top_k", 8)}
    return {**found, "expert_ffn": reader.field("ffn"), "qk_norm": True, "qk_norm_whole": True}


def _granite_moe(reader: _Reader) -> dict[str, Any]:
    experts = {"experts": reader.field("experts"), "top_k": reader.field("top_k", 8)}
    return {
        **experts,
        "expert_ffn": reader.field("ffn"),
        "tied": reader.flag("tie_word_embeddings"),
    }


def _falcon(reader: _Reader) -> dict[str, Any]:
    """Attention and perceptron side by side, GELU of 4 hidden, one head of keys and values or
    some."""
    heads, new = reader.field("heads"), reader.flag("new_decoder_architecture")
    side = reader.flag("parallel_attn", True)
    kv = (
        reader.field("kv_heads", heads) if new else 1 if reader.flag("multi_query", True) else heads
    )
    two = new and reader.number("num_ln_in_parallel_attn", 2) == 2
    bias = reader.flag("bias")
    return {
        "kv_heads": kv,
        "gated": False,
        "norm": "layer",
        "norms": 1 if side and not two else 2,
        "bias": bias,
        "qkv_bias": bias,
        "out_bias": bias,
        "tied": reader.flag("tie_word_embeddings", True),
    }


def _mixtral(reader: _Reader) -> dict[str, Any]:
    experts = {"experts": reader.field("experts", 8), "top_k": reader.field("top_k", 2)}
    return {**experts, "expert_ffn": reader.field("ffn"), **_window(reader, 0)}


def _qwen3_moe(reader: _Reader) -> dict[str, Any]:
    return {**_qwen3(reader), **_experts(reader)}


def _qwen2_moe(reader: _Reader) -> dict[str, Any]:
    return {**_qwen2(reader), **_experts(reader), **_shared(reader), "shared_gate": True}


def _experts(reader: _Reader) -> dict[str, Any]:
    """Experts as most have them, a layer in every `every`."""
    return {
        "experts": reader.field("experts"),
        "top_k": reader.field("top_k", 8),
        "expert_ffn": reader.field("expert_ffn"),
        "every": reader.field("every", 1),
    }


def _shared(reader: _Reader) -> dict[str, Any]:
    """Shared experts by their width together."""
    width, one = reader.number("shared_expert_intermediate_size", 0), reader.field("expert_ffn")
    if width % max(one, 1):
        reader.assumed.append(
            f"shared experts of {one * round(width / one):,} elements, not {width:,}"
        )
    return {"shared_experts": round(width / max(one, 1))}


def _deepseek(reader: _Reader) -> dict[str, Any]:
    return {**_latent(reader), **_deepseek_experts(reader)}


def _deepseek_v3(reader: _Reader) -> dict[str, Any]:
    return {**_deepseek(reader), "router_bias": True}


def _latent(reader: _Reader) -> dict[str, Any]:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""
    return {
        "q_rank": reader.number("q_lora_rank", 0),
        "kv_rank": reader.number("kv_lora_rank"),
        "head_dim": reader.number("qk_nope_head_dim"),
        "rope_dim": reader.number("qk_rope_head_dim"),
        "value_dim": reader.number("v_head_dim"),
    }


def _deepseek_experts(reader: _Reader) -> dict[str, Any]:
    return {
        **_experts(reader),
        "shared_experts": reader.field("shared_experts", 0),
        "first_dense": reader.field("first_dense", 0),
    }


def _llama4(reader: _Reader) -> dict[str, Any]:
    """Experts in every or every second layer with one shared; three of four layers attend within
    chunks."""
    dense = reader.number("intermediate_size_mlp", reader.field("ffn"))
    chunk = reader.number("attention_chunk_size", 0)
    whole = reader.number("no_rope_layer_interval", 4)
    return {
        "ffn": dense,
        "experts": reader.field("experts", 16),
        "top_k": reader.field("top_k", 1),
        "expert_ffn": reader.number("intermediate_size"),
        "shared_experts": 1,
        "every": reader.field("every", 1),
        **({"window": chunk, "chunked": True, "full_every": whole} if chunk else {}),
    }


def _gpt_oss(reader: _Reader) -> dict[str, Any]:
    """Biases everywhere, sinks, a window in every second layer; clamped inputs of SwiGLU and YaRN
    with an attention factor, as in all its configurations."""
    return {
        "experts": reader.field("experts"),
        "top_k": reader.field("top_k", 4),
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


def _qwen3_next(reader: _Reader) -> dict[str, Any]:
    """Three layers of linear attention, then one of gated attention; experts with a gated shared
    one."""
    every = _every(reader, reader.number("full_attention_interval", 4))
    linear = {
        "linear_key_heads": reader.number("linear_num_key_heads", 16),
        "linear_value_heads": reader.number("linear_num_value_heads", 32),
        "linear_key_dim": reader.number("linear_key_head_dim", 128),
        "linear_value_dim": reader.number("linear_value_head_dim", 128),
        "linear_kernel": reader.number("linear_conv_kernel_dim", 4),
    }
    attention = {"qk_norm": True, "gated_attention": True, "full_every": every}
    return {**linear, **attention, **_experts(reader), **_shared(reader), "shared_gate": True}


def _window(reader: _Reader, every: int, default: int = 0) -> dict[str, Any]:
    """A sliding window, with full attention in each `every`-th layer unless `layer_types` says
    otherwise."""
    # Files say null where there is none.
    window = reader.number("sliding_window", 0 if "sliding_window" in reader.values else default)
    if not window:
        return {}
    types = reader.types("layer_types")
    if types and set(types) == {"full_attention"}:
        return {}
    return {"window": window, "full_every": _every(reader, every, types)}


def _every(reader: _Reader, default: int, types: list[str] | None = None) -> int:
    """Each how many-th layer has full attention: as `layer_types` has it most nearly, or the
    default."""
    types = reader.types("layer_types") if types is None else types
    full = [at for at, kind in enumerate(types, 1) if kind == "full_attention"]
    if not types:
        return default
    if not full:
        return 0
    every = full[0]
    if full != list(range(every, len(types) + 1, every)):
        nearest = round(len(types) / len(full))
        reader.assumed.append(
            f"full attention in one of {nearest} layers, evenly, where layer_types is irregular"
        )
        return nearest
    return every


def _by_keys(reader: _Reader) -> dict[str, Any]:
    """An architecture that is not known, as its keys say."""
    found: dict[str, Any] = {}
    for key in ("attention_bias", "qkv_bias", "add_qkv_bias", "use_bias", "bias"):
        if reader.flag(key):
            found["qkv_bias"] = True
    if reader.flag("use_bias") or reader.flag("bias"):
        found |= {"bias": True, "out_bias": True}
    if "layer_norm_epsilon" in reader or (
        "layer_norm_eps" in reader and "rms_norm_eps" not in reader
    ):
        found["norm"] = "layer"
    gated = any(
        word in str(reader.values.get("hidden_act", "silu")) for word in ("silu", "swi", "glu")
    )
    found["gated"] = gated or "rms_norm_eps" in reader
    reader.assumed.append("a gated perceptron" if found["gated"] else "a perceptron without a gate")
    reader.assumed.append("two norms a layer")
    if "kv_lora_rank" in reader:
        found |= _latent(reader)
    if "sliding_window" in reader and reader.flag("use_sliding_window", True):
        found |= _window(reader, 0)
    if reader.flag("use_qk_norm") or reader.flag("qk_norm") or reader.flag("qk_layernorm"):
        found["qk_norm"] = True
    return found | (
        _unknown_experts(reader) if reader.has("experts") and reader.field("experts") > 1 else {}
    )


def _unknown_experts(reader: _Reader) -> dict[str, Any]:
    found = _deepseek_experts(reader) if reader.has("expert_ffn") else None
    if found is None:
        ffn = reader.field("ffn", 4 * reader.field("hidden"))
        found = {
            "experts": reader.field("experts"),
            "top_k": reader.field("top_k", 1),
            "expert_ffn": ffn,
        }
        found |= {"every": reader.field("every", 1), "first_dense": reader.field("first_dense", 0)}
    if "shared_expert_intermediate_size" in reader and reader.has("expert_ffn"):
        found |= _shared(reader)
    return found


_ENCODERS = (
    "bert",
    "roberta",
    "albert",
    "electra",
    "deberta",
    "deberta-v2",
    "distilbert",
    "t5",
    "mt5",
    "bart",
    "vit",
)
"""Models that are not decoders; their step is different."""

_KNOWN: dict[str, Callable[[_Reader], dict[str, Any]]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "mistral3": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "phi3": _phi3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "glm": _llama,
    "glm4": _glm4,
    "granite": _llama,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "falcon": _falcon,
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek_v3,
    "kimi_k2": _deepseek_v3,
    "glm4_moe": _glm4_moe,
    "granitemoe": _granite_moe,
    "gpt_oss": _gpt_oss,
    "llama4": _llama4,
    "olmoe": _olmoe,
}
"""Known `model_type`s, and what of each is not as `_common` has it."""


def _notes(reader: _Reader, kind: str, known: bool, nested: bool) -> Iterator[str]:
    """What a reader of the configuration should know."""
    if nested:
        yield "only the text part of the configuration is read"
    if not known:
        yield (
            f"model_type {kind!r} is not known: read by its keys "
            f"{', '.join(dict.fromkeys(reader.used))}"
        )
    if reader.assumed:
        yield f"assumed: {', '.join(reader.assumed)}"
    if modules := reader.values.get("num_nextn_predict_layers"):
        yield (
            f"num_nextn_predict_layers {modules} is left out; --mtp {modules} trains "
            "multi-token prediction"
        )
    quantized = reader.values.get("quantization_config")
    if isinstance(quantized, Mapping):
        method = quantized.get("quant_method", "some method")
        yield (
            f"quantization_config ({method}) is not used: --precision says in which numbers the "
            "model is trained"
        )
    special = {"num_nextn_predict_layers", "quantization_config"}
    if left := [key for key in reader.unused() if key not in special]:
        yield f"ignored keys: {', '.join(left)}"
