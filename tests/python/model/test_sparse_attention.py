"""Sparse attention and the hybrid of Qwen3.5: configurations, operations, training, serving."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from thorough import usually

import armillary as arm
from armillary.errors import InputError
from armillary.kernels import Attention, Mla, Stream
from armillary.model.decoder import Decoder
from armillary.model.decoder_reader import decoder
from armillary.model.files import Model, load_model
from armillary.model.flops import attention_flops, step_flops
from armillary.model.weights import parameters
from armillary.platform import Platform
from armillary.serve import Layout, Precision, deploy, load_engine, rooflines, sparse
from armillary.serve.layout import footprint
from armillary.workload import build

GLM_5 = {
    "architectures": ["GlmMoeDsaForCausalLM"],
    "model_type": "glm_moe_dsa",
    "vocab_size": 154880,
    "hidden_size": 6144,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 2048,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "qk_nope_head_dim": 192,
    "head_dim": 64,
    "index_head_dim": 128,
    "index_n_heads": 32,
    "index_topk": 2048,
    "indexer_rope_interleave": True,
    "tie_word_embeddings": False,
    "num_nextn_predict_layers": 1,
    "attention_bias": False,
}
DEEPSEEK = GLM_5 | {
    "architectures": ["DeepseekV32ForCausalLM"],
    "model_type": "deepseek_v32",
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "index_n_heads": 64,
}
QWEN = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "tie_word_embeddings": False,
    "vision_config": {"depth": 27},
    "text_config": {
        "model_type": "qwen3_5_moe_text",
        "attn_output_gate": True,
        "full_attention_interval": 4,
        "head_dim": 256,
        "hidden_size": 4096,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 64,
        "linear_value_head_dim": 128,
        "mamba_ssm_dtype": "float32",
        "mlp_only_layers": [],
        "moe_intermediate_size": 1024,
        "mtp_num_hidden_layers": 1,
        "num_attention_heads": 32,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "num_hidden_layers": 60,
        "num_key_value_heads": 2,
        "shared_expert_intermediate_size": 1024,
        "vocab_size": 248320,
    },
}
SMALL = {
    "layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocabulary": 256, "sequence": 128,
    "tied": False, "dropout": False, "bias": False, "norm": "rms", "head_dim": 16, "rope_dim": 8,
    "value_dim": 16, "q_rank": 32, "kv_rank": 24, "index_heads": 2, "index_dim": 16,
    "index_top_k": 32,
}  # fmt: skip


def read(tmp_path: Path, values: dict[str, object]) -> Decoder:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    return decoder(load_model(path))


@pytest.mark.parametrize(
    ("values", "count", "preset"),
    [
        (GLM_5, 743_911_199_232, "glm-5"),
        (DEEPSEEK, 671_877_929_216, "deepseek-v3.2"),
        (QWEN, 396_346_350_336, "qwen3.5-397b-a17b"),
    ],
    ids=["glm_moe_dsa", "deepseek_v32", "qwen3_5_moe"],
)
def test_configurations(tmp_path: Path, values: dict[str, object], count: int, preset: str) -> None:
    """Parameters of their classes in transformers 5.24 on PyTorch's meta device."""
    shape = read(tmp_path, values)
    assert parameters(shape) == count
    own = decoder(load_model(preset))
    assert replace(shape, sequence=4096, kv_heads=own.kv_heads) == replace(
        own, qkv_bias=False, out_bias=False
    )


@pytest.mark.parametrize(
    ("values", "change", "said"),
    [
        (GLM_5, {"index_topk": None}, "index_topk: is missing"),
        (GLM_5, {"index_topk_freq": 4}, "index_topk_freq"),
        (GLM_5, {"q_lora_rank": None}, "an indexer without compressed queries"),
        (QWEN, {"attn_output_gate": False}, "attn_output_gate: False"),
    ],
    ids=str,
)
def test_other_models_are_refused(
    tmp_path: Path, values: dict[str, object], change: dict[str, object], said: str
) -> None:
    inner = values.get("text_config")
    changed = values | change if inner is None else {**values, "text_config": {**inner, **change}}  # type: ignore[dict-item]
    with pytest.raises(InputError, match=said):
        read(tmp_path, changed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"index_dim": 0}, "index_dim: is missing"),
        ({"kv_rank": 0, "q_rank": 0, "rope_dim": 0}, "compressed queries and keys"),
        ({"window": 16, "full_every": 2}, "next to windows"),
    ],
    ids=str,
)
def test_fields_that_do_not_fit_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        decoder(Model("m", "transformer", {**SMALL, **change}))


@pytest.mark.parametrize("draw", range(usually(20, 400)))
def test_pairs_are_those_that_a_loop_counts(draw: int) -> None:
    """A token at place i, from 1, attends to the smaller of i and the chosen keys: the diagonal
    counts half, as everywhere."""
    random_ = random.Random(draw)
    most, sequence = random_.randint(1, 200), random_.randint(1, 300)
    shape = decoder(Model("m", "transformer", {**SMALL, "index_top_k": most}))
    looped = sum(min(place, most) for place in range(1, sequence + 1)) - min(most, sequence) / 2
    assert shape.seen(sequence) == pytest.approx(2 * looped / sequence, abs=1)


def test_operations_of_a_layer_by_hand() -> None:
    """GLM-5 at 8,192 tokens: scores and sums over 2,048 keys but for the first tokens, and an
    indexer that is computed once, without a backward pass."""
    shape = decoder(load_model("glm-5"))
    tokens = 8192
    pairs = 2 * 2048 - 2048**2 // tokens
    assert attention_flops(shape, 40, tokens, tokens) == 2 * tokens * pairs * 64 * (256 + 256)
    without = replace(shape, index_heads=0, index_dim=0)
    index = 2 * tokens * (2048 * 4096 + 6144 * 128 + 6144 * 32 + tokens * 32 * 129)
    both = (step_flops(each, 1, tokens) for each in (shape, without))
    assert [each.model for each in both] == [
        step_flops(without, 1, tokens).model + 78 * index,
        step_flops(without, 1, tokens).model,
    ]
    full = step_flops(shape, 1, tokens, "full").hardware
    assert full - step_flops(without, 1, tokens, "full").hardware == 2 * 78 * index


def test_linear_attention_of_qwen_by_hand() -> None:
    """Each token: a convolution of 4 over 12,288 channels, and three products with 64 states of 128
    by 128; three of four layers."""
    shape = decoder(load_model("qwen3.5-397b-a17b"))
    assert [count for _, count in shape.kinds()] == [15] * 4
    linear = 2 * (12288 * 4 + 3 * 64 * 128 * 128)
    assert attention_flops(shape, 0, 1000, 1000) == 1000 * linear
    assert attention_flops(shape, 3, 1000, 1000) == 2 * 1000 * 1000 * 32 * 512


def test_training_has_the_indexer_once() -> None:
    """The indexer has products in the forward pass alone. It keeps places of keys."""
    made, plain = (
        build(Model("m", "transformer", {**SMALL, **change}), seq=128)
        for change in ({}, {"index_heads": 0, "index_dim": 0, "index_top_k": 0})
    )
    assert made.summary is not None and plain.summary is not None
    index = 32 * 32 + 64 * 16 + 64 * 2
    assert made.summary.parameters - plain.summary.parameters == 2 * (index + 32)
    kept = [each.summary.classes[0].memory.activations for each in (made, plain)]  # type: ignore[union-attr]
    assert kept[0] - kept[1] == 2 * 4 * 128 * 32
    target = arm.Platform(
        "Switch(2)", bandwidth="10 GB/s", latency="1 us", settings={"npu.peak": "1 TFLOPS"}
    )
    for options in ({"tp": 2}, {"dp": 2, "recompute": "full"}):
        model = Model("m", "transformer", SMALL)
        assert arm.simulate(build(model, seq=128, **options), target).step_time_ns > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cp": 2}, "cp: 2 with sparse attention"),
        ({"attention": "unfused"}, "unfused with sparse attention"),
    ],
    ids=str,
)
def test_options_without_a_model_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        build(Model("m", "transformer", SMALL), seq=128, **options)


# Serving


def test_bytes_of_a_token_and_weights_by_hand() -> None:
    """A latent of 512 and 64 elements, a key of 128 bytes and its scale; the indexer is whole on
    every GPU."""
    shape = decoder(load_model("glm-5"))
    held = footprint(shape, Layout(tp=8), Precision("fp8", "fp8", "bf16"), 8192, 64)
    assert held.token == 78 * (2 * 576 + 132)
    without = replace(shape, index_heads=0, index_dim=0, index_top_k=0)
    less = footprint(without, Layout(tp=8), Precision("fp8", "fp8", "bf16"), 8192, 64)
    narrow, wide = 2048 * 4096 + 6144 * 128, 6144 * 32 + 2 * 128
    assert held.weights - less.weights == pytest.approx(78 * (narrow + 2 * wide), rel=1e-6)


def test_prompts_see_no_more_than_the_chosen_keys() -> None:
    """With a time that is the number of pairs, the time of a prompt is the number of pairs that are
    seen."""

    def pairs(lengths: object) -> list[float]:
        return [length * length / 2 for length in lengths]  # type: ignore[attr-defined]

    lengths = [1, 100, 2048, 3000, 9000, 100_000]
    found = sparse.prompts(lengths, 2048, pairs)
    for length, time in zip(lengths, found, strict=True):
        most = min(length, 2048)
        assert time == pytest.approx(most * length - most * most / 2, rel=1e-9)


@pytest.mark.parametrize("platform", ["dgx-b200", "hgx-h200", "mi355x-8"])
def test_steps_of_sparse_attention(platform: str) -> None:
    """Decode beyond the chosen keys costs only the indexer's reads."""
    model, longest = load_model("glm-5"), 65536
    made = deploy(
        decoder(model), Platform.load(platform), load_engine("sglang"), Layout(tp=8),
        Precision("fp8_block", "fp8_block", "fp8"), longest=longest,
    )  # fmt: skip
    parts = {term.name: term for term in made.terms}
    assert parts["decode attention"].columns[-1] == parts["decode attention"].window == 2048
    assert parts["indexer, decode"].columns[-1] == longest
    assert sparse.WARNING in made.warnings
    prefill = parts["prefill attention"]
    ends = [(at, time) for at, time in zip(prefill.at, prefill.seconds, strict=True) if at >= 8192]
    (one, first), (two, second), (three, third) = ends[0], ends[8], ends[-1]
    assert (third - first) / (three - one) == pytest.approx((second - first) / (two - one))


def test_rooflines_of_sparse_attention_by_hand() -> None:
    """Absorbed prefill works on latents: 2 x (512 + 64 + 512) operations for each pair and head,
    where expanded heads take 2 x 320."""
    target = Platform.load("mi355x-8")
    length = 2**16
    each = [Mla(batch=1, length=length, heads=64, form=form) for form in ("absorbed", "expanded")]
    one, two = (time - rooflines.Beyond().launch for time in rooflines.seconds(each, target))
    assert one / two == pytest.approx(1088 / 320, rel=1e-3)
    shape = decoder(load_model("glm-5"))
    read_ = sparse.looked_up(shape, 3, 1000)
    assert read_ == Stream(bytes=3 * 1000 * (128 + 4 + 8))
    scored = sparse.scored(shape, 1000, "flash3", "vllm")
    assert isinstance(scored, Attention)
    assert (scored.heads, scored.kv_heads, scored.head_dim) == (16, 1, 128)


def test_heads_of_linear_attention_are_shared() -> None:
    shape = decoder(load_model("qwen3.5-397b-a17b"))
    Layout(tp=16).check(shape)
    with pytest.raises(InputError, match=r"16 and 64, can't be shared by 32"):
        Layout(tp=32).check(shape)
