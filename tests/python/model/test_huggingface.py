"""Hugging Face configurations give the parameter counts that their model pages show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.flops import attention_flops
from armillary.model.weights import layer_weights, parameters
from armillary.workload import Model, build, load_model

GPT_2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}

QWEN2_7B = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
    "vocab_size": 152064,
}

QWEN3_8B = {
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "vocab_size": 151936,
}

QWEN3_30B = QWEN3_8B | {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}

DEEPSEEK_V2 = {
    "model_type": "deepseek_v2",
    "first_k_dense_replace": 1,
    "hidden_size": 5120,
    "intermediate_size": 12288,
    "kv_lora_rank": 512,
    "moe_intermediate_size": 1536,
    "moe_layer_freq": 1,
    "n_routed_experts": 160,
    "n_shared_experts": 2,
    "num_attention_heads": 128,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 60,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "tie_word_embeddings": False,
    "v_head_dim": 128,
    "vocab_size": 102400,
}

DEEPSEEK_V2_LITE = DEEPSEEK_V2 | {
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 64,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "num_key_value_heads": 16,
    "q_lora_rank": None,
}


GEMMA_2 = {
    "model_type": "gemma2",
    "head_dim": 256,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "max_position_embeddings": 8192,
    "num_attention_heads": 8,
    "num_hidden_layers": 26,
    "num_key_value_heads": 4,
    "sliding_window": 4096,
    "vocab_size": 256000,
}

GEMMA_3 = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "max_position_embeddings": 131072,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152},
}

GPT_OSS = {
    "model_type": "gpt_oss",
    "attention_bias": True,
    "head_dim": 64,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "max_position_embeddings": 131072,
    "num_attention_heads": 64,
    "experts_per_token": 4,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 24,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "quantization_config": {"quant_method": "mxfp4"},
    "sliding_window": 128,
    "vocab_size": 201088,
}

PHI_3 = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "sliding_window": 2047,
    "vocab_size": 32064,
}

FALCON_7B = {
    "model_type": "falcon",
    "bias": False,
    "hidden_size": 4544,
    "multi_query": True,
    "new_decoder_architecture": False,
    "num_attention_heads": 71,
    "num_hidden_layers": 32,
    "parallel_attn": True,
    "vocab_size": 65024,
}

FALCON_40B = FALCON_7B | {
    "hidden_size": 8192,
    "new_decoder_architecture": True,
    "num_attention_heads": 128,
    "num_hidden_layers": 60,
    "num_kv_heads": 8,
}

GLM_4 = {
    "model_type": "glm4",
    "attention_bias": True,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_attention_heads": 32,
    "num_hidden_layers": 40,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
    "vocab_size": 151552,
}

GLM_4_5_AIR = GLM_4 | {
    "model_type": "glm4_moe",
    "first_k_dense_replace": 1,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_attention_heads": 96,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 46,
    "num_key_value_heads": 8,
    "num_nextn_predict_layers": 1,
    "use_qk_norm": False,
}

QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "decoder_sparse_step": 1,
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "moe_intermediate_size": 512,
    "num_attention_heads": 16,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "num_hidden_layers": 48,
    "num_key_value_heads": 2,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 151936,
}

OLMO_2 = {
    "model_type": "olmo2",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "vocab_size": 100352,
}

GRANITE = {
    "model_type": "granite",
    "hidden_size": 4096,
    "intermediate_size": 12800,
    "num_attention_heads": 32,
    "num_hidden_layers": 40,
    "num_key_value_heads": 8,
    "tie_word_embeddings": True,
    "vocab_size": 49155,
}

KIMI_K2 = DEEPSEEK_V2 | {
    "model_type": "kimi_k2",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 384,
    "n_shared_experts": 1,
    "num_attention_heads": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 64,
    "vocab_size": 163840,
}

LLAMA_4_SCOUT = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "attention_chunk_size": 8192,
        "head_dim": 128,
        "hidden_size": 5120,
        "interleave_moe_layer_step": 1,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "max_position_embeddings": 10485760,
        "num_attention_heads": 40,
        "num_experts_per_tok": 1,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "num_local_experts": 16,
        "vocab_size": 202048,
    },
}

PUBLISHED = {
    "gpt2": (GPT_2, 124_439_808),
    "qwen2-7b": (QWEN2_7B, 7_615_616_512),
    "qwen3-8b": (QWEN3_8B, 8_190_735_360),
    "qwen3-30b-a3b": (QWEN3_30B, 30_532_122_624),
    "deepseek-v2": (DEEPSEEK_V2, 235_741_434_880),
    "deepseek-v2-lite": (DEEPSEEK_V2_LITE, 15_706_484_224),
    "gemma-2-2b": (GEMMA_2, 2_614_341_888),
    "gemma-3-4b, text": (GEMMA_3, 3_880_263_168),
    "gpt-oss-20b": (GPT_OSS, 20_914_757_184),
    "gpt-oss-120b": (
        GPT_OSS
        | {
            "num_hidden_layers": 36,
            "num_local_experts": 128,
            "layer_types": ["sliding_attention", "full_attention"] * 18,
        },
        116_829_156_672,
    ),
    "phi-3-mini": (PHI_3, 3_821_079_552),
    "falcon-7b": (FALCON_7B, 6_921_720_704),
    "falcon-40b": (FALCON_40B, 41_303_293_952),
    "glm-4-9b-0414": (GLM_4, 9_400_279_040),
    "qwen3-next-80b-a3b": (QWEN3_NEXT, 79_674_391_296),
    "olmo-2-7b": (OLMO_2, 7_298_617_344),
    "granite-3.1-8b": (GRANITE, 8_170_848_256),
    # Without 384 biases of routers in each of 60 layers, which are not parameters.
    "kimi-k2": (KIMI_K2, 1_026_408_232_448 - 60 * 384),
    "llama-4-scout, text": (LLAMA_4_SCOUT, 107_769_861_120),
}
"""Configurations and the parameters that are counted in the published checkpoints."""


def loaded(folder: Path, configuration: Mapping[str, object]) -> Model:
    (folder / "config.json").write_text(json.dumps(configuration))
    return load_model(folder)


@pytest.mark.parametrize(("configuration", "published"), PUBLISHED.values(), ids=PUBLISHED)
def test_parameters(tmp_path: Path, configuration: dict[str, object], published: int) -> None:
    assert parameters(decoder(loaded(tmp_path, configuration))) == published


@pytest.mark.parametrize("configuration", [c for c, _ in PUBLISHED.values()], ids=PUBLISHED)
def test_every_configuration_runs(tmp_path: Path, configuration: dict[str, object]) -> None:
    """Each rank's weights add up to the model's, and its step takes time."""
    model = loaded(tmp_path, configuration)
    workload = build(model, dp=2, seq=1024)
    assert workload.summary is not None
    assert workload.summary.parameters == parameters(decoder(model))
    result = arm.simulate(workload, arm.Platform.load("dgx-h100", {"npus": 2}))
    assert result.report["step_time_ns"] > 0


def pairs(sequence: int, sees: Callable[[int, int], bool]) -> int:
    """Pairs of a token and one that it attends to, counted one by one."""
    return sum(sees(token, other) for token in range(sequence) for other in range(token + 1))


@pytest.mark.parametrize("sequence", [64, 96, 100])
def test_windows_see_what_counting_gives(sequence: int) -> None:
    model = decoder(Model("m", "transformer", SMALL))
    window, chunk = (replace(model, window=32, chunked=chunked) for chunked in (False, True))
    assert model.seen(sequence) == sequence
    # Counted with half of the diagonal, as full causal attention is: s^2 / 2 of its pairs.
    counted = pairs(sequence, lambda token, other: token - other < 32) - sequence / 2
    assert window.seen(sequence) == pytest.approx(2 * counted / sequence, abs=1.5)
    counted = pairs(sequence, lambda token, other: token // 32 == other // 32) - sequence / 2
    assert chunk.seen(sequence) == pytest.approx(2 * counted / sequence, abs=1)


SMALL = {
    "layers": 8,
    "hidden": 64,
    "heads": 4,
    "ffn": 256,
    "vocabulary": 512,
    "sequence": 128,
    "positions": 0,
}


def test_kernels_of_windows_add_up_to_the_operations() -> None:
    """Of eight layers two attend to everything; the fused kernels do half of what is counted,
    hidden by the mask."""
    model = Model("m", "transformer", {**SMALL, "window": 32, "full_every": 4})
    shape = decoder(model)
    assert [shape.has_full_attention(layer) for layer in range(8)] == [False] * 3 + [True] + [
        False
    ] * 3 + [True]
    assert shape.kinds() == [(0, 2), (1, 2), (2, 2), (3, 2)]
    per_layer = 2 * 128 * 64 * 2
    whole, windowed = 128 * per_layer, (2 * 32 - 32 * 32 // 128) * per_layer
    assert (
        sum(attention_flops(shape, layer, 128, 128) for layer in range(8))
        == 2 * whole + 6 * windowed
    )
    full, cut = (
        build(Model("m", "transformer", dict(fields))).summary for fields in (SMALL, model.fields)
    )
    assert full is not None and cut is not None
    # Fused kernels: 2 multiplications forward and 5 backward, each half of what is counted.
    assert full.classes[0].operations - cut.classes[0].operations == 6 * (whole - windowed) * 7 // 4


def test_long_sequences_are_cheaper_with_windows(tmp_path: Path) -> None:
    platform = arm.Platform.load("dgx-h100")
    plain = {**GPT_OSS, "layer_types": ["full_attention"] * 24}
    times = [
        arm.simulate(build(loaded(tmp_path, each), tp=8, seq=32768), platform).report[
            "step_time_ns"
        ]
        for each in (plain, GPT_OSS)
    ]
    assert times[1] < 0.95 * times[0]


def test_layer_types_decide(tmp_path: Path) -> None:
    types = ["full_attention"] * 24
    assert decoder(loaded(tmp_path, {**GPT_OSS, "layer_types": types})).window == 0
    types = (["sliding_attention"] * 5 + ["full_attention"]) * 4
    assert decoder(loaded(tmp_path, {**GPT_OSS, "layer_types": types})).full_every == 6
    with pytest.raises(InputError, match="not in each n-th layer"):
        loaded(tmp_path, {**GPT_OSS, "layer_types": ["full_attention", *types[1:]]})


def test_windows_that_are_switched_off_stay_off(tmp_path: Path) -> None:
    off = QWEN2_7B | {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}
    assert decoder(loaded(tmp_path, off)).window == 0
    on = {**off, "use_sliding_window": True}
    assert decoder(loaded(tmp_path, {**on, "max_window_layers": 0})).window == 4096
    assert decoder(loaded(tmp_path, {**on, "max_window_layers": 28})).window == 0
    with pytest.raises(InputError, match="21 layers with full attention before"):
        loaded(tmp_path, {**on, "max_window_layers": 21})


def test_what_is_not_used_is_named(tmp_path: Path) -> None:
    model = loaded(tmp_path, GPT_OSS)
    assert not any("quantization_config" in note for note in model.notes)
    summary = build(str(tmp_path), micro_batch=1).summary
    assert summary is not None
    assert any("quantization_config is for inference" in note for note in summary.notes)
    notes = loaded(tmp_path, GLM_4_5_AIR).notes
    assert any("num_nextn_predict_layers 1" in note and "--mtp 1" in note for note in notes)
    assert any("text part" in note for note in loaded(tmp_path, GEMMA_3).notes)


MISTRAL_SMALL_4 = {
    "model_type": "mistral3",
    "text_config": {
        "model_type": "mistral4",
        "first_k_dense_replace": 0,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "kv_lora_rank": 256,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_attention_heads": 32,
        "num_experts_per_tok": 4,
        "num_hidden_layers": 36,
        "num_key_value_heads": 32,
        "q_lora_rank": 1024,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 131072,
    },
}


def test_experts_of_a_token_have_one_number(tmp_path: Path) -> None:
    """`transformers` reads one of the two keys alone."""
    with pytest.raises(InputError, match=r"experts_per_token: 8 is not modelled \(allowed: 4;"):
        loaded(tmp_path, {**GPT_OSS, "experts_per_token": 8})


def test_the_text_part_says_what_it_is(tmp_path: Path) -> None:
    """Mistral Small 4 has 118,435,955,712 parameters in its class of transformers 5.24."""
    assert parameters(decoder(loaded(tmp_path, MISTRAL_SMALL_4))) == 118_435_955_712
    text = {**MISTRAL_SMALL_4["text_config"], "model_type": "qwen3_5_text"}  # type: ignore[dict-item]
    with pytest.raises(InputError, match="'qwen3_5_text' is not a decoder that is known"):
        loaded(tmp_path, {**MISTRAL_SMALL_4, "text_config": text})


@pytest.mark.parametrize(
    "kind",
    [
        "mamba2",
        "jamba",
        "nemotron_h",
        "apertus",
        "kimi_linear",
        "minimax",
        "deepseek_v4",
        "bert",
        "kimi_k3",
        "qwen3_5",
        "hunyuan_v1_moe",
        "novel",
        "t5",
        "peft",
    ],
)
def test_unknown_architectures_are_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match=f"'{kind}' is not a decoder that is known") as caught:
        loaded(tmp_path, QWEN3_8B | {"model_type": kind})
    assert "capture:" in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"mamba_d_state": 16},
        {"ssm_state_size": 128},
        {"hybrid_override_pattern": "M-M*"},
        {"layer_types": ["linear_attention"] * 36},
        {"layer_types": ["conv", "full_attention"] * 18},
        {"index_topk": 2048},
        {"num_experts": 8},
        {"lora_rank": 8},
        {"vision_config": {"hidden_size": 8}},
        {"kv_lora_rank": 512},
        {"initial_mamba_layers": 4},
        {"hidden_act": "xielu"},
        {"architectures": ["Qwen3ForSequenceClassification"]},
        {"architectures": ["NovelForCausalLM"]},
        {"is_encoder_decoder": True},
        {"mlp_only_layers": [0]},
        {"frobnication_factor": 3},
    ],
    ids=str,
)
def test_keys_that_may_change_the_model_are_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, QWEN3_8B | changes)
    assert next(iter(changes)) in {problem.place for problem in caught.value.problems}


def test_keys_without_cost_are_taken(tmp_path: Path) -> None:
    plain = {"torch_dtype": "bfloat16", "rope_theta": 1e6, "attention_dropout": 0.0}
    assert loaded(tmp_path, QWEN3_8B | plain).notes == ()


def test_a_head_that_two_places_disagree_on_is_refused(tmp_path: Path) -> None:
    text = {**GEMMA_3["text_config"], "tie_word_embeddings": False}  # type: ignore[dict-item]
    with pytest.raises(InputError, match="tie_word_embeddings: is True"):
        loaded(tmp_path, {**GEMMA_3, "text_config": text})


def test_missing_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, {"model_type": "llama", "hidden_size": 768})
    assert {problem.place for problem in caught.value.problems} >= {
        "num_hidden_layers",
        "num_attention_heads",
    }


@pytest.mark.parametrize("tp", [1, 4])
def test_linear_attention_splits_over_ranks(tmp_path: Path, tp: int) -> None:
    shape = decoder(loaded(tmp_path, QWEN3_NEXT))
    assert [shape.has_full_attention(layer) for layer in range(4)] == [False, False, False, True]
    whole, cut = layer_weights(shape, 0).total, layer_weights(shape, 0, tp).total
    assert cut <= whole and tp * cut >= whole
    # The rule's work grows with the sequence, not with its square.
    one, two = (attention_flops(shape, 0, tokens, tokens) for tokens in (4096, 8192))
    assert two == 2 * one
    one, two = (attention_flops(shape, 3, tokens, tokens) for tokens in (4096, 8192))
    assert two == 4 * one


def test_what_is_left_out_is_a_warning_of_every_run(tmp_path: Path) -> None:
    model = loaded(tmp_path, GEMMA_3)
    result = arm.simulate(build(model, dp=2, seq=1024), arm.Platform.load("dgx-h100", {"npus": 2}))
    assert any("left out: vision_config" in warning for warning in result.warnings)
