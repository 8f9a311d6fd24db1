"""Models in the flags of Megatron-LM: from flags to the fields of a decoder, and back.

Not here: the layout (`megatron.py`, `megatron_export.py`). Megatron pads the vocabulary to a
multiple of `--make-vocab-size-divisible-by` x tp, which is what is trained. Source: NVIDIA/
Megatron-LM, megatron/training/arguments.py; megatron-core, transformer_config.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from ..declared import Wrong
from ..errors import InputError, Problem
from ..model.decoder import Decoder
from ..model.decoder_reader import decoder
from ..model.files import Model
from .given import Given
from .patterns import dense_and_distance, pattern_of, read_pattern, written

_SHAPE = "--num-layers"
_VOCABULARIES: Mapping[str, int] = {"GPT2BPETokenizer": 50257}
"""Vocabulary of tokenizers that have one alone (OpenAI's GPT-2)."""
_PADDING = 128
_LATENT = (
    ("head_dim", "--qk-head-dim", 128),
    ("rope_dim", "--qk-pos-emb-head-dim", 64),
    ("value_dim", "--v-head-dim", 128),
    ("kv_rank", "--kv-lora-rank", 32),
)
"""Fields of multi-latent attention, their flags and defaults."""
_OF_VOCABULARY = (
    "--make-vocab-size-divisible-by",
    "--padded-vocab-size",
    "--vocab-size",
    "--tokenizer-type",
)
_OF_EXPERTS = (
    "--moe-ffn-hidden-size", "--moe-router-topk", "--moe-router-enable-expert-bias",
    "--moe-shared-expert-gate", "--moe-shared-expert-intermediate-size", "--moe-layer-freq",
)  # fmt: skip
"""Flags that only mean something with experts."""
_GELU_WIDTH, _GATED_WIDTH = 4, 64


def read_model(given: Given, base: Model | None, tp: int) -> Model | None:
    """The model that the flags describe. With `base` they must describe that one; without flags of
    a model, it is `base`. `None` where there are problems, which `given` keeps."""
    given.asked.update(_OF_VOCABULARY)
    if base is not None and not given.has(_SHAPE):
        return base
    before = len(given.problems)
    for key in (_SHAPE, "--hidden-size", "--num-attention-heads"):
        if not given.has(key):
            given.fault(key, "is missing", "a whole number, or name the model before --from")
    fields = _fields(given)
    if len(given.problems) == before:
        known = decoder(base).vocabulary if base is not None else None
        _add(fields, "vocabulary", _vocabulary(given, known, tp))
    if len(given.problems) > before:
        return None
    family = "moe" if fields.get("experts") else "transformer"
    found = Model(
        Path(given.file).stem or "job", family, fields, f"flags of {given.file}", given.file
    )
    try:
        shape = decoder(found)
    except InputError as error:
        given.problems += error.problems
        return None
    return found if base is None else _same(given, base, shape)


def _same(given: Given, base: Model, shape: Decoder) -> Model | None:
    """`base`, if the flags describe it."""
    wanted = decoder(base)
    both = bool(wanted.positions) == bool(shape.positions)
    found = dataclasses.replace(
        shape,
        sequence=wanted.sequence,
        vocabulary=wanted.vocabulary,
        positions=wanted.positions if both else shape.positions,
    )
    for each in dataclasses.fields(Decoder):
        one, other = _effective(found, each.name), _effective(wanted, each.name)
        if one != other:
            said = f"{each.name} is {one}, but {base.name} has {other}"
            given.problems.append(Problem(given.file, each.name, said, "flags of this model"))
    if shape.vocabulary != wanted.vocabulary:
        given.note(f"the vocabulary is {wanted.vocabulary}, that of {base.name}")
    return base


def _effective(shape: Decoder, name: str) -> object:
    """The value of a field, with what stands for a value that is not given."""
    defaults: dict[str, object] = {
        "kv_heads": shape.kv if not shape.kv_rank else None,
        "head_dim": shape.head_dim or shape.hidden // shape.heads,
        "value_dim": shape.value_width,
        "qkv_bias": shape.bias if shape.qkv_bias is None else shape.qkv_bias,
        "out_bias": shape.bias if shape.out_bias is None else shape.out_bias,
        "qk_norm": shape.qk_norm and not shape.kv_rank,
    }
    return defaults.get(name, getattr(shape, name))


def _add(fields: dict[str, object], name: str, value: object) -> None:
    if value is not None:
        fields[name] = value


def _fields(given: Given) -> dict[str, object]:
    """Fields of the decoder but the vocabulary."""
    fields: dict[str, object] = {"norms": 2}
    for name, key in (
        ("layers", _SHAPE), ("hidden", "--hidden-size"), ("heads", "--num-attention-heads"),
        ("sequence", "--seq-length"), ("head_dim", "--kv-channels"),
    ):  # fmt: skip
        _add(fields, name, given.count(key))
    gated = _perceptron(given, fields)
    fields |= {"gated": gated, "dropout": _dropout(given)}
    rms = given.word("--normalization", ("LayerNorm", "RMSNorm")) == "RMSNorm"
    no_bias = bool(given.switch("--disable-bias-linear"))
    fields |= {
        "norm": "rms" if rms else "layer",
        "bias": not no_bias,
        "tied": not given.switch("--untie-embeddings-and-output-weights"),
    }
    if given.switch("--add-qkv-bias"):
        fields["qkv_bias"] = True
    _attention(given, fields)
    _experts(given, fields)
    return fields


def _perceptron(given: Given, fields: dict[str, object]) -> bool:
    """Adds the width of the perceptron; returns whether it is gated."""
    quick = bool(given.switch("--quick-geglu"))
    gated = bool(given.switch("--swiglu")) or quick
    given.switch("--squared-relu")
    if given.number("--activation-func-clamp-value") is not None:
        fields["clamped"] = quick
    hidden, width = fields.get("hidden"), given.count("--ffn-hidden-size")
    if width is None and isinstance(hidden, int):
        width = int(4 * hidden * 2 / 3 / _GATED_WIDTH) * _GATED_WIDTH if gated else 4 * hidden
        given.note(f"--ffn-hidden-size is taken as {width}, as Megatron does without it")
    _add(fields, "ffn", width)
    return gated


def _dropout(given: Given) -> bool:
    rates = [given.number(key) for key in ("--attention-dropout", "--hidden-dropout")]
    found = [0.1 if rate is None else rate for rate in rates]
    if bool(found[0]) != bool(found[1]):
        given.note("masks of both dropouts are taken to be kept, although one of them is off")
    return any(found)


def _attention(given: Given, fields: dict[str, object]) -> None:
    kinds = ("learned_absolute", "rope", "none", "mrope", "relative")
    kind = given.word("--position-embedding-type", kinds) or "learned_absolute"
    if given.switch("--use-rotary-position-embeddings"):
        kind = "rope"
    given.switch("--no-position-embedding")
    if kind in ("mrope", "relative"):
        given.fault("--position-embedding-type", f"is {kind}", ", ".join(kinds[:3]))
    given.word("--rope-type", ("rope", "yarn"))
    longest = given.count("--max-position-embeddings")
    if kind == "learned_absolute":
        _add(fields, "positions", longest)
    groups = given.count("--num-query-groups")
    if given.switch("--group-query-attention"):
        fields["kv_heads"] = groups or 1
    _add(fields, "qk_norm", given.switch("--qk-layernorm"))
    given.switch("--qk-l2-norm")
    softmax = given.word("--softmax-type", ("vanilla", "learnable", "off-by-one"))
    fields["sinks"] = softmax == "learnable"
    window = given.text("--window-size")
    if window is not None:
        _window(given, window, fields)
    if given.switch("--multi-latent-attention"):
        _latent(given, fields)
    given.asked.update(("--q-lora-rank", *(key for _, key, _ in _LATENT)))


def _window(given: Given, text: str, fields: dict[str, object]) -> None:
    sides = text.strip("()").replace(" ", "").split(",")
    if len(sides) != 2 or not sides[0].isdecimal() or len(sides[0]) > 8 or sides[1] != "0":
        given.fault("--window-size", f"has the value {text[:60]!r}", "(N,0), N tokens to the left")
        return
    fields["window"] = int(sides[0])
    skip = given.count("--window-attn-skip-freq")
    _add(fields, "full_every", skip)


def _latent(given: Given, fields: dict[str, object]) -> None:
    """Multi-latent attention. Its norms of compressed keys and queries are always there."""
    fields.pop("kv_heads", None)
    if not fields.pop("qk_norm", False):
        given.note("norms of compressed queries and keys are taken as on (--qk-layernorm)")
    for name, key, usual in _LATENT:
        fields[name] = given.count(key) or usual
    _add(fields, "q_rank", given.count("--q-lora-rank"))


def _experts(given: Given, fields: dict[str, object]) -> None:
    experts = given.count("--num-experts", least=0)
    if not experts:
        given.asked.update(_OF_EXPERTS)
        return
    inner = given.count("--moe-ffn-hidden-size") or fields.get("ffn")
    fields |= {
        "experts": experts,
        "top_k": given.count("--moe-router-topk") or 2,
        "expert_ffn": inner,
        "router_bias": bool(given.switch("--moe-router-enable-expert-bias")),
        "shared_gate": bool(given.switch("--moe-shared-expert-gate")),
    }
    shared = given.count("--moe-shared-expert-intermediate-size")
    if shared and isinstance(inner, int):
        if shared % inner:
            said = f"{shared} is not a multiple of an expert's inner width of {inner}"
            given.fault("--moe-shared-expert-intermediate-size", said, "a multiple")
        fields["shared_experts"] = shared // inner
    pattern = given.text("--moe-layer-freq")
    layers = fields.get("layers")
    if pattern is not None and isinstance(layers, int):
        _mixed_layers(given, pattern, layers, fields)


def _mixed_layers(given: Given, text: str, layers: int, fields: dict[str, object]) -> None:
    key = "--moe-layer-freq"
    try:
        if text.isdecimal() and len(text) < 9 and int(text) > 0:
            pattern = [int(layer % int(text) == 0) for layer in range(layers)]
        else:
            pattern = read_pattern(text)
    except Wrong as wrong:
        given.fault(key, wrong.message, wrong.allowed)
        return
    if len(pattern) != layers or not set(pattern) <= {0, 1}:
        said = f"is a pattern of {len(pattern)} layers with {sorted(set(pattern))[:5]}"
        given.fault(key, said, f"0 and 1 for each of {layers} layers")
        return
    found = dense_and_distance(pattern)
    if found is None:
        said = f"{written(pattern)[:60]} has layers with experts at uneven distances"
        given.fault(key, said, "dense layers, then every N-th layer with experts")
        return
    fields["first_dense"], fields["every"] = found


def _vocabulary(given: Given, known: int | None, tp: int) -> int | None:
    unit = given.count("--make-vocab-size-divisible-by") or _PADDING
    whole, size = given.count("--padded-vocab-size"), given.count("--vocab-size")
    if whole is not None:
        return whole
    name = given.text("--tokenizer-type")
    if name is None and "--merge-file" in given.keys:
        # pretrain_gpt.py sets this one where the command sets none.
        name = "GPT2BPETokenizer"
    if size is None and name in _VOCABULARIES:
        size = _VOCABULARIES[str(name)]
        given.note(f"the vocabulary is that of {name}, {size}")
    if size is None and known is not None:
        return known
    if size is None:
        said = "is missing: the tokenizer decides the vocabulary"
        given.fault("--vocab-size", said, "--vocab-size N, or name the model before --from")
        return None
    padded = -(-size // (unit * tp)) * unit * tp
    if padded != size:
        given.note(f"the vocabulary is padded from {size} to {padded}, as Megatron does")
    return padded


def model_flags(model: Model, shape: Decoder, seq: int, tp: int) -> list[tuple[str, str]]:
    """The flags that describe a model. Raises `InputError` for what Megatron-LM has no flag for."""
    _require(model, shape)
    flags: list[tuple[str, str]] = [
        ("--num-layers", str(shape.layers)),
        ("--hidden-size", str(shape.hidden)),
        ("--ffn-hidden-size", str(shape.ffn)),
        ("--num-attention-heads", str(shape.heads)),
        ("--seq-length", str(seq)),
        ("--max-position-embeddings", str(shape.positions or max(seq, shape.sequence))),
        ("--position-embedding-type", "learned_absolute" if shape.positions else "rope"),
        ("--normalization", "RMSNorm" if shape.norm == "rms" else "LayerNorm"),
        *_head(shape, tp),
    ]
    switches = {
        "--quick-geglu": shape.clamped,
        "--swiglu": shape.gated and not shape.clamped,
        "--disable-bias-linear": not shape.bias,
        "--add-qkv-bias": bool(shape.qkv_bias) and not shape.bias,
        "--untie-embeddings-and-output-weights": not shape.tied,
        "--qk-layernorm": shape.qk_norm or bool(shape.kv_rank),
    }
    flags += [(key, "") for key, on in switches.items() if on]
    if not shape.dropout:
        flags += [("--attention-dropout", "0.0"), ("--hidden-dropout", "0.0")]
    if shape.clamped:
        flags.append(("--activation-func-clamp-value", "7.0"))
    return [*flags, *_attention_flags(shape), *(_expert_flags(shape) if shape.experts else [])]


def _head(shape: Decoder, tp: int) -> list[tuple[str, str]]:
    """The vocabulary, and a padding that keeps it where one does."""
    unit = _PADDING
    while unit > 1 and shape.vocabulary % (unit * tp):
        unit //= 2
    said = [("--make-vocab-size-divisible-by", str(unit))] if unit != _PADDING else []
    return [("--vocab-size", str(shape.vocabulary)), *said]


def _attention_flags(shape: Decoder) -> list[tuple[str, str]]:
    if shape.kv_rank:
        return [
            ("--multi-latent-attention", ""),
            *([("--q-lora-rank", str(shape.q_rank))] if shape.q_rank else []),
            ("--kv-lora-rank", str(shape.kv_rank)),
            ("--qk-head-dim", str(shape.key_width - shape.rope_dim)),
            ("--qk-pos-emb-head-dim", str(shape.rope_dim)),
            ("--v-head-dim", str(shape.value_width)),
        ]
    flags = [("--kv-channels", str(shape.key_width))] if shape.head_dim else []
    if shape.kv != shape.heads:
        flags += [("--group-query-attention", ""), ("--num-query-groups", str(shape.kv))]
    if shape.sinks:
        flags.append(("--softmax-type", "learnable"))
    if shape.window:
        flags.append(("--window-size", f"({shape.window},0)"))
        if shape.full_every:
            flags.append(("--window-attn-skip-freq", str(shape.full_every)))
    return flags


def _expert_flags(shape: Decoder) -> list[tuple[str, str]]:
    flags = [
        ("--num-experts", str(shape.experts)),
        ("--moe-router-topk", str(shape.top_k)),
        ("--moe-ffn-hidden-size", str(shape.expert_ffn)),
    ]
    if shape.shared_experts:
        width = shape.shared_experts * shape.expert_ffn
        flags.append(("--moe-shared-expert-intermediate-size", str(width)))
    if shape.shared_gate:
        flags.append(("--moe-shared-expert-gate", ""))
    if shape.router_bias:
        flags += [("--moe-router-enable-expert-bias", "")]
        flags += [("--moe-router-score-function", "sigmoid")]
    if shape.first_dense or shape.every > 1:
        pattern = pattern_of(shape.layers, shape.first_dense, shape.every)
        flags.append(("--moe-layer-freq", written(pattern)))
    return flags


def _require(model: Model, shape: Decoder) -> None:
    """Refuses fields that no flag gives."""
    odd = {
        "norm": shape.norm == "plain",
        "norms": shape.norms != 2,
        "chunked": shape.chunked,
        "qk_norm_whole": shape.qk_norm and shape.qk_norm_whole,
        "gated_attention": shape.gated_attention,
        "linear_key_heads": bool(shape.linear_key_heads),
        "index_heads": bool(shape.index_heads),
        "rotary_scaled": shape.rotary_scaled,
        "out_bias": shape.out_bias not in (None, shape.bias),
        "qkv_bias": shape.qkv_bias is False and shape.bias,
        "clamped": shape.clamped and not shape.gated,
        "value_dim": not shape.kv_rank and shape.value_width != shape.key_width,
        "first_dense": bool(shape.experts) and not any(
            pattern_of(shape.layers, shape.first_dense, shape.every)
        ),
    }  # fmt: skip
    faults = [
        model.problem(name, "has no flag of Megatron-LM", "a model without it")
        for name, there in odd.items()
        if there
    ]
    if faults:
        raise InputError(faults)
