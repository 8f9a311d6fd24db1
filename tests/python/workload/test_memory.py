"""Peak memory against the papers' formulas and figures."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_rank import states, unit

from armillary.model.decoder import Decoder
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.model.weights import Weights
from armillary.workload import build, transformer
from armillary.workload.memory import (
    EMBEDDING,
    HEAD,
    head_activations,
    layer_activations,
    on_rank,
    rules,
    shares,
)
from armillary.workload.parallelism import Parallelism
from armillary.workload.parallelism_reader import parallelism
from armillary.workload.placement import split_by_cost
from armillary.workload.setting import Setting
from armillary.workload.transformer import footprints


def per_layer(model: Decoder, **options: object) -> int:
    return layer_activations(Setting(model, parallelism(model, "m", options)), 0)


TABLE_2 = [
    # Korthikanti et al. 2022, table 2: sequence parallel, recomputation, bytes over s b h given t
    # and 5 a s / h.
    (False, "none", lambda t, core: 10 + 24 / t + core / t),
    (True, "none", lambda t, core: 34 / t + core / t),
    (False, "selective", lambda t, core: 10 + 24 / t),
    (True, "selective", lambda t, core: 34 / t),
    (False, "full", lambda t, core: 2),
]


@pytest.mark.parametrize(("sp", "recompute", "formula"), TABLE_2)
@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("batch", [1, 4])
def test_activations_of_a_layer(
    sp: bool, recompute: str, formula: object, tp: int, batch: int
) -> None:
    a, s, h = 96, 2048, 12288
    gpt = Decoder(layers=96, hidden=h, heads=a, ffn=4 * h, vocabulary=51200, sequence=s)
    ours = per_layer(
        gpt,
        tp=tp,
        sp=sp,
        recompute=recompute,
        micro_batch=batch,
        attention="unfused",
        saved="fused",
    )
    expected = s * batch * h * formula(tp, 5 * a * s / h)  # type: ignore[operator]
    print(f"tp={tp} sp={sp} {recompute}: ours {ours:,}, formula {expected:,.0f}")
    assert ours == expected


def test_flash_attention_keeps_what_selective_recomputation_does() -> None:
    """Less the row sums, 4 bytes a head and token (Dao et al. 2022)."""
    gpt = decoder(load_model("gpt3-175b"))
    flash = per_layer(gpt, tp=8, sp=True)
    selective = per_layer(gpt, tp=8, sp=True, attention="unfused", recompute="selective")
    assert flash - selective == 4 * 2048 * 96 // 8


@pytest.mark.parametrize(("tp", "sp"), [(1, False), (2, False), (8, True)])
def test_every_other_multiplication_is_kept(tp: int, sp: bool) -> None:
    """Of a Llama 3 8B's layer: its input, queries, values, attention and row sums, gate, and what
    comes of the layer; with sp what attention sends on, too. No keys, second inputs or norms."""
    found = per_layer(decoder(load_model("llama-3-8b")), tp=tp, sp=sp, recompute="ops")
    cut = (4096 + 4096 + 1024 + 14336) // tp
    whole = 3 * 4096 // tp if sp else 2 * 4096
    assert found == 8192 * (2 * (whole + cut) + 4 * 32 // tp)


@pytest.mark.parametrize("ep", [1, 8])
def test_what_experts_keep_with_ops(ep: int) -> None:
    """A layer of Qwen3-30B-A3B (128 experts of 768, 8 for each token): its input, queries, values,
    attention and row sums. torchtitan's list has no grouped multiplications, so that nothing of the
    experts stays but what all-to-alls brought there and back."""
    model = decoder(load_model("qwen3-30b-a3b"))
    found = per_layer(model, dp=8, ep=ep, seq=8192, recompute="ops")
    inside = 2 * (2048 + 32 * 128 + 4 * 128 + 32 * 128) + 4 * 32
    sent = 2 * 8 * 2048 * 2 if ep > 1 else 0
    assert found == 8192 * (inside + sent)


def test_what_stays_of_compressed_attention_with_ops() -> None:
    """DeepSeek-V3's products in torchtitan's order: compressed queries (stay), queries, compressed
    keys and values (stay), these, output (stays), gate, up (stays), down. 512 + 64 and 1,536
    elements, 128 heads of 128; a shared expert of 2,048."""
    model = decoder(load_model("deepseek-v3"))
    found = layer_activations(
        Setting(
            model, parallelism(model, "m", {"dp": 8, "ep": 1, "seq": 4096, "recompute": "ops"})
        ),
        60,
    )
    inside = 2 * (2 * 7168 + 1536 + 512 + 64 + 128 * 128 + 2048) + 4 * 128
    assert found == 4096 * inside


def test_the_memory_of_experts_with_ops_is_near_the_measured_one() -> None:
    """pith-train issue 79: 152 GB on each of 8 B200 with torchtitan's default, of Qwen3-30B-A3B,
    FSDP, 8,192 tokens and 8 sequences; without recomputation of operations it was 537 GB here."""
    workload = build(
        load_model("qwen3-30b-a3b"),
        framework="torchtitan",
        dp=8,
        seq=8192,
        micro_batch=8,
        recompute="ops",
    )
    assert workload.summary is not None
    assert 152e9 < workload.summary.memory < 1.25 * 152e9


@pytest.mark.parametrize(
    ("offload", "shares"),
    [("none", 0), ("optimizer", 12), ("parameters", 12 + 2 + 2)],
)
def test_what_is_offloaded_is_on_the_host(offload: str, shares: int) -> None:
    """12 bytes for each parameter of Adam's states, 2 of a weight and 2 of a gradient, over 8
    ranks; on the host or on the NPU, nowhere twice."""
    model = load_model("llama-3-8b")
    common: dict[str, Any] = {"dp": 8, "zero": 3, "recompute": "full", "precision": "bf16"}
    away = transformer(model, offload=offload, fp32_gradients=False, **common).summary
    here = transformer(model, fp32_gradients=False, **common).summary
    assert away is not None
    assert here is not None
    assert away.host_total == pytest.approx(shares * here.parameters, rel=1e-6)
    assert here.memory - away.memory == away.host


@given(p=st.sampled_from([2, 4, 8]), waves=st.integers(1, 3))
def test_first_stage_of_1f1b_holds_a_whole_models_layers(p: int, waves: int) -> None:
    """Korthikanti et al. 2022, equation 5: s b h L (10 + 24 / t), and s b h p for the dropout after
    the embedding."""
    model = load_model("megatron-3.6b")
    shape = decoder(model)
    layers = 32 if shape.layers % p else shape.layers
    model = type(model)(model.name, model.family, {**model.fields, "layers": layers})
    workload = transformer(
        model, pp=p, tp=2, global_batch=p * waves, attention="unfused", recompute="selective"
    )
    assert workload.summary is not None
    first = workload.summary.classes[0].memory.activations
    sbh = 2048 * 3072
    assert first == sbh * layers * 22 + sbh * p


def test_zero_figure_1() -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 B parameters, 64 ranks, mixed-precision Adam; GB."""
    published = {0: 120.0, 1: 31.4, 2: 16.6, 3: 1.9}
    for zero, expected in published.items():
        ours = states(Weights(7_500_000_000), Parallelism(dp=64, zero=zero)).total / 1e9
        print(f"ZeRO {zero}: ours {ours:.2f} GB, published {expected}")
        assert round(ours, 1) == expected


@pytest.mark.parametrize(("fp32", "expected"), [(False, 16), (True, 18)])
def test_bytes_of_a_parameter(fp32: bool, expected: int) -> None:
    """2 + 2 + 12 (Rajbhandari et al. 2020, section 3.1); Megatron's fp32 gradients make it 18; with
    its distributed optimizer 6 + 12 / d (NVIDIA/Megatron-LM, docs of the distributed optimizer)."""
    assert states(Weights(1000), Parallelism(fp32_gradients=fp32)).total == expected * 1000
    cut = states(Weights(1200), Parallelism(fp32_gradients=fp32, dp=4, zero=1)).total
    assert cut == (expected - 12) * 1200 + 12 * 1200 // 4
    assert states(Weights(1000), Parallelism(precision="fp32")).total == 16 * 1000


def test_experts_are_cut_by_their_own_replicas() -> None:
    """With ep 8 of dp 16 each expert has two replicas, everything else sixteen."""
    ours = states(Weights(1600, 800), Parallelism(dp=16, ep=8, zero=3))
    assert ours.weights == 2 * (1600 // 16 + 800 // 2)


def test_weights_of_stages_sum_to_the_model() -> None:
    for options in ({"pp": 4}, {"pp": 4, "tp": 2}, {"pp": 2, "virtual_stages": 4}):
        workload = transformer("llama-3-8b", global_batch=8, **options)
        assert workload.summary is not None
        tp = options.get("tp", 1)
        total = sum(entry.memory.weights for entry in workload.summary.classes) // 2 * tp
        norms = (2 * 32 + 1) * 4096 * (tp - 1)
        assert total - norms == workload.summary.parameters


LLAMA = Decoder(
    layers=16,
    hidden=2048,
    heads=32,
    ffn=8192,
    vocabulary=131072,
    sequence=4096,
    gated=True,
    norm="rms",
    bias=False,
    dropout=False,
)


@pytest.mark.parametrize(
    ("kernels", "queries", "inner", "logit"), [("fused", 4, 3, 4), ("eager", 6, 4, 8)]
)
def test_what_eager_kernels_keep(kernels: str, queries: int, inner: int, logit: int) -> None:
    """By hand, 2 bytes each: four states of a layer's width (two norms and what follows them);
    queries, keys, values and their mean, eager also queries and keys before rotation; gate, up and
    product, eager also the gate's function; 4 bytes a row of the scores. Logits in 4 bytes, eager
    their exponentials too (huggingface/nanotron, `tensor_parallel/functional.py`)."""
    options = {"kernels": kernels, "saved": "fused", "loss": "fused"}
    at = Setting(LLAMA, parallelism(LLAMA, "m", options))
    h, tokens = 2048, 4096
    assert layer_activations(at, 0) == tokens * (2 * (4 * h + queries * h + inner * 8192) + 4 * 32)
    assert head_activations(at) == tokens * (4 * h + logit * 131072)


SAVED = [
    # Bytes of a token with a hidden width h, an inner width f, over t ranks.
    ({"saved": "fused"}, {}, lambda h, f, t: 0),
    ({}, {}, lambda h, f, t: 2 * (2 * h + f) // t),
    ({"saved": "fused", "fused_norm": False}, {}, lambda h, f, t: 2 * 6 * h),
    ({"saved": "fused", "keeps_gathered": True}, {"sp": True}, lambda h, f, t: 4 * h - 4 * h // t),
]


@pytest.mark.parametrize(("keys", "options", "more"), SAVED)
@pytest.mark.parametrize("tp", [2, 4])
def test_what_other_functions_keep(
    keys: dict[str, object], options: dict[str, object], more: object, tp: int
) -> None:
    """A layer counted by hand: queries, keys and the gate's value (PyTorch's `silu` and `mul` keep
    what they read); of each norm 4 bytes of its input and 2 of the normalized values; what sequence
    parallelism gathered before queries and before the perceptron."""
    kept = per_layer(LLAMA, tp=tp, **keys, **options)
    least = per_layer(LLAMA, tp=tp, saved="fused", **options)
    assert kept - least == 4096 * more(2048, 8192, tp)  # type: ignore[operator]


@pytest.mark.parametrize(("gathered", "rows"), [(False, 131072 // 4), (True, 131072)])
def test_what_a_plain_loss_holds(gathered: bool, rows: int) -> None:
    """Counted by hand: logits in 2 bytes, logarithms of their softmax and two gradients in 4 each
    (PyTorch's `nll_loss_backward` and `_log_softmax_backward_data` write one each)."""
    keys = {"loss": "plain", "gathered_logits": gathered}
    at = Setting(LLAMA, parallelism(LLAMA, "m", {"tp": 4, **keys}))
    assert head_activations(at) == 4096 * (4 * 2048 + 14 * rows)


def test_a_layer_is_there_again_when_all_is_recomputed() -> None:
    """On a stage without a head. On one with a head, what is there again is less than its loss."""
    options = {"pp": 2, "global_batch": 2, "recompute": "full"}
    first, last = footprints("llama-3-8b", **options)
    shape = decoder(load_model("llama-3-8b"))
    again = per_layer(shape) - 2 * 8192 * 4096
    unit = 2 * 218_112_000  # An empty gradient of each shape of a layer.
    assert first.temporary == again + unit
    assert last.temporary == unit + 2 * (128256 + 1) * 4096


@pytest.mark.parametrize(("tp", "recompute"), [(1, "full"), (2, "full"), (1, "none")])
def test_metrics_hold_logits(tp: int, recompute: str) -> None:
    """By hand: after the backward pass 2 bytes of logits, 4 of the same converted, 4 of logarithms.
    Activations count where they are more (without recomputation they are)."""
    kept = {}
    for metrics in (0, 2):
        given = {"tp": tp, "recompute": recompute, "loss_metrics": metrics, "loss": "fused"}
        kept[metrics] = footprints("llama-3-8b", **given)[-1].activations
    logits = 8192 * 128256 // tp * (2 + 4 + 4)
    assert kept[2] == max(kept[0], logits)
    assert (kept[2] > kept[0]) is (recompute == "full")


def held_between(model: Decoder = LLAMA, **options: object) -> int:
    """Temporary buffers of a rank with 3,500 parameters: an embedding, a layer that is dense and
    one of experts, a head."""
    par = parallelism(model, "m", options)
    experts = max(model.experts // par.ep, 1)
    units = [
        unit(Weights(900), tensor=900, place=EMBEDDING),
        unit(Weights(500), tensor=400),
        unit(Weights(300, 800), tensor=400)._replace(placeholders=300 + 800 // experts),
        unit(Weights(1000), tensor=1000, place=HEAD),
    ]
    found, _ = on_rank([units], [], rules(Setting(model, par), 0), shares(par))
    return found.temporary


def test_temporary_buffers_of_eager_kernels() -> None:
    """2 bytes a parameter of buckets under data parallelism, and the largest unit's gradient in 2
    and 4 bytes."""
    assert held_between(kernels="eager") == 6 * 1100
    assert (
        held_between(kernels="eager", dp=2)
        == held_between(kernels="eager", dp=2, zero=1)
        == 2 * 3500 + 6 * 1100
    )
    assert held_between(kernels="eager", dp=2, zero=2) == 6 * 1100


def test_gradients_that_wait_for_the_end_need_no_copy() -> None:
    """They are added up and reduced in place: the largest tensor's exists twice."""
    late: dict[str, Any] = {"kernels": "eager", "dp": 2, "overlap_grad_reduce": False}
    assert held_between(**late) == 2 * 400
    assert held_between(**late, fp32_gradients=True) == 2 * 3500 + 6 * 1100


def test_temporary_buffers_of_fused_kernels() -> None:
    """An empty gradient in 2 bytes of each shape: of the head's, and of the layer that has most;
    experts are alike."""
    assert held_between() == held_between(dp=2) == held_between(tp=2) == 2 * (1000 + 1100)
    mixed = dataclasses.replace(LLAMA, experts=8, top_k=2, expert_ffn=1024)
    assert held_between(mixed) == 2 * (1000 + 500)
    assert held_between(mixed, dp=2, ep=2) == 2 * (1000 + 500)
    assert held_between(mixed, dp=4, ep=4) == 2 * (1000 + 300 + 800 // 2)


def test_temporary_buffers_of_gathering() -> None:
    """Four whole hidden states of 2 bytes under sequence parallelism; ZeRO 3, the largest unit's
    gradient."""
    assert held_between(tp=2, sp=True) - held_between(tp=2) == 4 * 2 * 4096 * 2048
    for kernels in ("fused", "eager"):
        assert held_between(kernels=kernels, dp=2, zero=3) == 2 * 1100
        assert held_between(kernels=kernels, dp=2, zero=3, fp32_gradients=True) == 4 * 1100


def test_layers_by_cost() -> None:
    """A layer of 4 h^2 + 3 h f = 4 + 12 (in h^2), a head of 64: 320 in all. Two parts end at 160,
    so the head counts as four layers; eight at 40, the third layer's 48."""
    assert split_by_cost(LLAMA, 1) == [16]
    assert split_by_cost(LLAMA, 2) == [10, 6]
    assert split_by_cost(LLAMA, 4) == [5, 5, 5, 1]
    assert split_by_cost(LLAMA, 8)[0] == 3
    assert split_by_cost(LLAMA, 17) == [1] * 16 + [0]


@given(layers=st.integers(1, 60), parts=st.integers(1, 61), vocabulary=st.integers(1, 10**6))
def test_every_part_but_the_last_has_a_layer(layers: int, parts: int, vocabulary: int) -> None:
    counts = split_by_cost(
        Decoder(layers=layers, hidden=64, heads=4, ffn=256, vocabulary=vocabulary, sequence=8),
        min(parts, layers + 1),
    )
    assert sum(counts) == layers
    assert all(counts[:-1])


@pytest.mark.parametrize(
    "options",
    [{}, {"pp": 4, "framework_set": {"kernels": "eager", "partition": "cost"}, "dp": 2, "zero": 1}],
)
def test_footprints_are_those_of_the_workload(options: dict[str, object]) -> None:
    options = {"global_batch": 8, **options}
    workload = transformer("llama-3-8b", **options)
    assert workload.summary is not None
    assert footprints("llama-3-8b", **options) == [
        entry.memory for entry in workload.summary.classes
    ]
