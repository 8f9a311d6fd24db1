"""What the kernels of a layer move, by the tensors they read and write; tensor parallelism beside
multiplications."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_transformer import EXPERTS, GPT, LATENT, LLAMA, summary
from thorough import usually

import armillary as arm
from armillary.model.decoder_reader import decoder
from armillary.workload import Model, Workload, build
from armillary.workload.attention import core, rotary
from armillary.workload.experts import experts
from armillary.workload.layer import (
    activation,
    attention,
    head,
    norm,
    norm_grad,
    perceptron,
)
from armillary.workload.parallelism_reader import parallelism
from armillary.workload.recompute import recomputed
from armillary.workload.script import CollectiveStep, Gemm, KernelStep, Start, Step, join
from armillary.workload.setting import Setting

TOKENS, HIDDEN, FFN, VOCABULARY = 64, 64, 256, 512
"""Of the small models; a sample of 64 tokens a micro-batch."""
WIDTH = 2


def setting(model: Model, **options: object) -> Setting:
    shape = decoder(model)
    return Setting(shape, parallelism(shape, "m", options))


def moved(steps: Iterable[Step], name: str) -> int:
    """Bytes of the one kernel of that name."""
    found = [step.bytes for step in steps if isinstance(step, KernelStep) and step.name == name]
    assert len(found) == 1, f"{len(found)} of {name}"
    return found[0]


@pytest.mark.parametrize(("sp", "cut"), [(False, 1), (True, 4)])
@pytest.mark.parametrize("dropout", [False, True])
def test_norms(sp: bool, cut: int, dropout: bool) -> None:
    """Forward: what enters, the block's result, and out the sum and the norm, read once more for
    its statistics. Backward: 6 tensors, 2 more and the mask of a byte an element with dropout."""
    at = setting(dataclasses.replace(GPT, fields={**GPT.fields, "dropout": dropout}), tp=4, sp=sp)
    elements = TOKENS * HIDDEN // cut
    assert norm(at, "n").bytes == elements * (5 * WIDTH + dropout)
    assert norm_grad(at, "n").bytes == elements * ((8 if dropout else 6) * WIDTH + dropout)


@pytest.mark.parametrize(
    ("model", "kernels", "forward", "backward"),
    [
        (GPT, "fused", 2, 3),  # read, write; value and gradient read, gradient written
        (GPT, "eager", 2, 3),
        (LLAMA, "fused", 3, 5),  # gate and value
        (LLAMA, "eager", 5, 7),  # the gate's function written and read once more
    ],
)
@pytest.mark.parametrize("tp", [1, 2])
def test_activation(model: Model, kernels: str, forward: int, backward: int, tp: int) -> None:
    ffn = model.fields["ffn"]
    at = setting(model, tp=tp, kernels=kernels)
    inner = activation(at, ffn // tp, TOKENS)
    tensor = TOKENS * ffn // tp * WIDTH
    assert (moved(inner.forward, "activation"), moved(inner.backward, "activation.grad")) == (
        forward * tensor,
        backward * tensor,
    )


@pytest.mark.parametrize(
    ("kernels", "precision", "forward", "backward"),
    [
        # Logit in its own precision and 4 bytes beside it.
        ("fused", "bf16", 2 + 4, 2 + 4),
        ("fused", "fp32", 4 + 4, 4 + 4),
        # 7 and 5 tensors in fp32: conversion, largest, difference, exponential, sum; gradient,
        # scale, conversion.
        ("eager", "bf16", 2 + 7 * 4, 2 + 5 * 4),
        ("eager", "fp32", 4 + 7 * 4, 4 + 5 * 4),
    ],
)
@pytest.mark.parametrize("tp", [1, 2])
def test_loss(kernels: str, precision: str, forward: int, backward: int, tp: int) -> None:
    scripts = head(setting(GPT, tp=tp, kernels=kernels, precision=precision))
    logits = TOKENS * VOCABULARY // tp
    assert moved(scripts.forward, "loss") == forward * logits
    assert (
        moved(scripts.backward, "loss.grad")
        == moved(scripts.inputs, "loss.grad")
        == backward * logits
    )


@pytest.mark.parametrize(("precision", "width"), [("bf16", 2), ("fp32", 4)])
@pytest.mark.parametrize(("tp", "sp"), [(1, False), (2, False), (2, True)])
def test_norms_of_several_operations(precision: str, width: int, tp: int, sp: bool) -> None:
    """Tensors read and written by PyTorch's operations for x.float(), pow, mean, product with the
    root, cast, product with the weight, and by autograd's for their gradients; W has the
    activations' width. Then the sum with the residual."""
    at = setting(LLAMA, tp=tp, sp=sp, precision=precision, fused_norm=False)
    elements = TOKENS * LLAMA.fields["hidden"] // (tp if sp else 1)
    forward = [width + 4, 8, 4, 8, 4 + width, 2 * width]
    product = [2 * width, 3 * width, width, width + 4]
    root = [8, 12, 4]
    square = [4, 8, 8, 12]
    backward = [*product, *root, *square, 12, 4 + width]
    assert norm(at, "n").bytes == elements * (3 * width + sum(forward))
    assert norm_grad(at, "n").bytes == elements * (3 * width + sum(backward))
    fused = setting(LLAMA, tp=tp, sp=sp, precision=precision)
    assert norm(fused, "n").bytes == 5 * elements * width


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_gathered_logits(tp: int) -> None:
    """Every rank has all logits for the loss: parts are gathered, and no sums are exchanged."""
    found = head(setting(GPT, tp=tp, gathered_logits=True))
    calls = {step.name: step for step in found.forward if isinstance(step, CollectiveStep)}
    assert moved(found.forward, "loss") == (2 + 4) * TOKENS * VOCABULARY
    assert set(calls) == ({"logits.gather"} if tp > 1 else set())
    if tp > 1:
        assert calls["logits.gather"].bytes == TOKENS * VOCABULARY // tp * WIDTH


@pytest.mark.parametrize("kept", [False, True])
def test_what_is_kept_is_not_gathered_again(kept: bool) -> None:
    at = setting(LLAMA, tp=2, sp=True, keeps_gathered=kept)
    scripts = perceptron(at, FFN)
    again = [step for step in scripts.backward if "gather_again" in str(step)]
    assert bool(again) is not kept


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("metrics", [0, 1, 2])
def test_metrics_of_training(metrics: int, tp: int) -> None:
    """A conversion (2 bytes read, 4 written) and a logarithm of the softmax (4 and 4) for each
    logit and metric, in the forward pass alone."""
    at = setting(GPT, tp=tp, loss_metrics=metrics)
    logits = TOKENS * VOCABULARY // tp
    scripts, plain = head(at), head(setting(GPT, tp=tp))
    for i in range(metrics):
        assert moved(scripts.forward, f"metric{i}.convert") == (2 + 4) * logits
        assert moved(scripts.forward, f"metric{i}.loss") == (4 + 4) * logits
    assert len(scripts.forward) == len(plain.forward) + 2 * metrics
    assert (scripts.backward, scripts.weights) == (plain.backward, plain.weights)


@pytest.mark.parametrize(
    ("model", "tp", "heads", "width"),
    [
        (LLAMA, 1, 8 + 4, 8),
        (LLAMA, 2, 4 + 2, 8),
        (LLAMA, 8, 1 + 1, 8),  # 4 heads of keys on 8 ranks: each has one
        (LATENT, 1, 8 + 1, 4),  # MLA: one key for all heads, and only the rotary part of each
        (LATENT, 4, 2 + 1, 4),
    ],
)
def test_rotary(model: Model, tp: int, heads: int, width: int) -> None:
    """Queries and keys read and written, forward and backward, and when the core is computed
    again."""
    expected = 2 * TOKENS * heads * width * WIDTH
    for recompute, again in (("selective", 1), ("full", 1), ("none", 0)):
        at = setting(model, tp=tp, recompute=recompute)
        scripts = attention(at)
        assert moved(scripts.forward, "rotary") == expected
        assert (
            moved(scripts.backward, "rotary.grad")
            == moved(scripts.inputs, "rotary.grad")
            == expected
        )
        assert [step.name for step in recomputed(at, scripts, mixed=False)].count("rotary") == again


def test_learned_positions_turn_nothing() -> None:
    assert rotary(setting(GPT)) == ()


CASTS = st.sampled_from([GPT, LLAMA])


RECIPES = {"delayed": 2 + 2 * 1, "tensorwise": 2 * 2 + 2 * 1, "rowwise": 3 * 2 + 2 * 1}
"""Bytes an element: read once, twice, or by rows and twice by columns, in 2 bytes; written as it is
and transposed."""


@given(
    model=CASTS,
    tp=st.sampled_from([1, 2, 4]),
    micro_batch=st.integers(1, 3),
    recipe=st.sampled_from(list(RECIPES)),
    narrow=st.booleans(),
)
def test_casts_to_eight_bits(
    model: Model, tp: int, micro_batch: int, recipe: str, narrow: bool
) -> None:
    """Each operand of (m x k)(k x n) once a step, both forward, gradients backward; weights that
    came in 8 bits are only transposed."""
    each = RECIPES[recipe]
    at = setting(
        model,
        tp=tp,
        precision="fp8",
        micro_batch=micro_batch,
        fp8_recipe=recipe,
        fp8_param_gather=narrow,
    )
    for scripts in (attention(at), perceptron(at, model.fields["ffn"])):
        matrices = {step.name: step for step in scripts.forward if isinstance(step, Gemm)}
        assert matrices
        for name, (_, m, n, k, _, width, _) in matrices.items():
            assert width == 0
            assert moved(scripts.forward, f"{name}.cast") == m * k * each + k * n * (
                2 * 1 if narrow else each
            )
            assert moved(scripts.backward, f"{name}.dgrad.cast") == m * n * each
        casts = [step.name for step in scripts.backward if step.name.endswith(".cast")]
        assert sorted(casts) == sorted(f"{name}.dgrad.cast" for name in matrices)
        assert not any(step.name.endswith(".cast") for step in scripts.weights)


@pytest.mark.parametrize(("recipe", "reads"), [("delayed", 1), ("tensorwise", 2)])
def test_gathers_in_eight_bits(recipe: str, reads: int) -> None:
    """With sp a rank casts its own tokens, which are gathered in a byte an element and transposed
    where they arrive."""
    at, plain = (
        setting(LLAMA, tp=4, sp=True, precision=kind, fp8_recipe=recipe) for kind in ("fp8", "bf16")
    )
    scripts, before = perceptron(at, LLAMA.fields["ffn"]), perceptron(plain, LLAMA.fields["ffn"])
    own, all_ = TOKENS // 4 * HIDDEN, TOKENS * HIDDEN
    assert moved(scripts.forward, "mlp.gather.cast") == own * (reads * WIDTH + 1)
    assert moved(scripts.forward, "up.cast") == 2 * all_ + 2 * 48 * HIDDEN * RECIPES[recipe]
    assert moved(scripts.backward, "mlp.gather_grad.cast") == own * (reads * WIDTH + 1)
    assert moved(scripts.backward, "down.dgrad.cast") == 2 * all_
    for there, wide in zip(scripts, before, strict=True):
        narrow, full = (
            [
                step
                for step in script
                if isinstance(step, (CollectiveStep, Start)) and step.kind == "all_gather"
            ]
            for script in (there, wide)
        )
        assert [2 * step.bytes for step in narrow] == [step.bytes for step in full]


def test_rows_and_columns_are_gathered_in_sixteen_bits() -> None:
    """No rank has a whole column before tokens are gathered."""
    at, plain = (
        setting(LLAMA, tp=4, sp=True, precision=kind, fp8_recipe="rowwise")
        for kind in ("fp8", "bf16")
    )
    calls = [
        [step for step in attention(one).forward if isinstance(step, CollectiveStep)]
        for one in (at, plain)
    ]
    assert calls[0] == calls[1]
    assert moved(attention(at).forward, "qkv.cast") == (TOKENS + 32) * HIDDEN * RECIPES["rowwise"]


def test_heads_and_scores_are_not_in_eight_bits() -> None:
    """Frameworks leave the last matrix, routers and attention in 16 bits."""
    at = setting(LLAMA, precision="fp8", attention="unfused")
    for script in (
        head(at).forward,
        head(at).backward,
        head(at).weights,
        core(at).forward,
        core(at).backward,
    ):
        found = [step for step in script if isinstance(step, Gemm)]
        assert found
        assert all(step.width == WIDTH for step in found)
        assert not any(step.name.endswith(".cast") for step in script)


@pytest.mark.parametrize(("sp", "out"), [(False, True), (True, False)])
def test_every_other_multiplication_again(sp: bool, out: bool) -> None:
    """torchtitan's selective op: of queries, keys, values, output, gate, up and down the second,
    fourth and sixth; with sp the sum of the output over ranks is kept, and no one asks for the
    output."""
    at = setting(LLAMA, tp=2, sp=sp, recompute="ops")
    scripts = attention(at), perceptron(at, LLAMA.fields["ffn"])
    again = [step for each in scripts for step in recomputed(at, each, mixed=False)]
    found = [(step.name, step.n) for step in again if isinstance(step, Gemm)]
    assert found == [("qkv", 16), *([("out", 64)] if out else []), ("up", 96)]
    names = [step.name for step in again if isinstance(step, KernelStep)]
    assert names == ["attention.norm", "rotary", "mlp.norm", "activation"]
    calls = [step.kind for step in again if isinstance(step, CollectiveStep)]
    assert calls == (["all_gather"] * 2 if sp else ["all_reduce"])


@pytest.mark.parametrize("early", [False, True])
def test_recomputation_that_stops_early(early: bool) -> None:
    """PyTorch's checkpoints end before a layer's last matrix; Megatron's don't."""
    at = setting(LLAMA, tp=2, recompute="full", early_stop=early)
    both = join(attention(at), perceptron(at, LLAMA.fields["ffn"]))
    left = {step.name for step in both.forward} - {
        step.name for step in recomputed(at, both, mixed=False)
    }
    assert left == ({"down", "mlp.reduce"} if early else set())


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_matrices_by_themselves(precision: str) -> None:
    """Where matrices are not merged, operations are the same; inputs are cast once; gradients of an
    input of several are added up."""
    one, several = (setting(LLAMA, tp=2, merged=on, precision=precision) for on in (True, False))
    for build_, parts, name in (
        (attention, (32, 16, 16), "qkv"),
        (lambda at: perceptron(at, LLAMA.fields["ffn"]), (96, 96), "up"),
    ):
        merged, apart = build_(one), build_(several)
        for kind in ("forward", "backward", "inputs", "weights"):
            work = [
                sum(x.m * x.n * x.k for x in getattr(each, kind) if isinstance(x, Gemm))
                for each in (merged, apart)
            ]
            assert work[0] == work[1]
        assert [x.n for x in apart.forward if isinstance(x, Gemm)][: len(parts)] == list(parts)
        assert (
            moved(apart.backward, f"{name}.dgrad.sum")
            == (len(parts) - 1) * 3 * TOKENS * HIDDEN * WIDTH
        )
        casts = [
            sum(x.bytes for x in each.forward if isinstance(x, KernelStep) and "cast" in x.name)
            for each in (merged, apart)
        ]
        assert casts[0] == casts[1]


def test_other_precisions_cast_nothing() -> None:
    for precision in ("bf16", "fp16", "fp32"):
        at = setting(LLAMA, precision=precision)
        assert not any(
            step.name.endswith(".cast")
            for step in (*attention(at).forward, *attention(at).backward)
        )


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_tokens_are_sorted_by_expert(ep: int) -> None:
    """What came from several ranks for several experts is copied, before and after them, forward
    and backward."""
    at = setting(EXPERTS, dp=8, ep=ep)
    scripts, tokens = experts(at), TOKENS * 2 * HIDDEN * WIDTH
    for script in (scripts.forward, scripts.backward, scripts.inputs):
        found = [
            step.bytes
            for step in script
            if isinstance(step, KernelStep) and step.name.endswith(".sort")
        ]
        assert found == ([2 * tokens] * 2 if ep == 2 else [])


@pytest.mark.parametrize(("narrow", "weight"), [(False, 6), (True, 2)])
def test_experts_cast(narrow: bool, weight: int) -> None:
    """Tokens of all experts of a rank (16 each) and their matrices."""
    at = setting(EXPERTS, precision="fp8", fp8_param_gather=narrow)
    scripts = experts(at)
    for name, k, n in (("up", 64, 64), ("down", 32, 64)):
        assert moved(scripts.forward, f"experts.{name}.cast") == 8 * k * (16 * 6 + n * weight)
        assert moved(scripts.backward, f"experts.{name}.dgrad.cast") == 8 * 16 * n * 6
    assert not any("router" in step.name for step in scripts.forward if step.name.endswith(".cast"))


@pytest.mark.parametrize("tp", [1, 4])
def test_compressed_heads_are_put_together(tp: int) -> None:
    """MLA: queries and keys of 8 + 4, values of 8, read and written, forward and backward."""
    inner = core(setting(LATENT, tp=tp))
    expected = 2 * TOKENS * (8 // tp) * (12 + 12 + 8) * WIDTH
    assert moved(inner.forward, "heads") == moved(inner.backward, "heads.grad") == expected
    assert not any(step.name == "heads" for step in core(setting(LLAMA)).forward)


OVERLAPPED = st.fixed_dictionaries(
    {
        "tp": st.sampled_from([1, 2, 4]),
        "pp": st.sampled_from([1, 2]),
        "sp": st.booleans(),
        "recompute": st.sampled_from(["none", "selective", "full"]),
        "schedule": st.sampled_from(["gpipe", "1f1b", "zb-h1"]),
        "zero": st.sampled_from([0, 1, 3]),
        "dp": st.sampled_from([1, 2]),
        "precision": st.sampled_from(["bf16", "fp8"]),
    }
)


@settings(max_examples=usually(20, 400))
@given(model=st.sampled_from([GPT, LLAMA]), options=OVERLAPPED)
def test_overlap_changes_only_when(model: Model, options: dict[str, object]) -> None:
    """The same collectives, volumes and operations with overlapped tensor parallelism and without;
    never later where collectives have the network to themselves."""
    plain, beside = (
        build(model, **options, framework_set={"overlap_tp": on}) for on in (False, True)
    )
    assert summary(plain).classes == summary(beside).classes
    target = platform("15.625 GB/s", plain.ranks)
    if options["dp"] == options["pp"] == 1:
        times = [arm.simulate(workload, target).step_time_ns for workload in (plain, beside)]
        assert times[1] <= times[0]
        assert options["tp"] == 1 or times[1] < times[0]
    else:
        assert arm.simulate(beside, target).step_time_ns > 0


def platform(
    bandwidth: str, ranks: int = 2, peak: str = "1 TFLOPS", **compute: object
) -> arm.Platform:
    """NPUs that do an operation a picosecond and move no bytes of their own, without latency."""
    keys = {"npu.peak": peak, "scheduler.endpoint_delay": "0 ns", "scheduler.chunks": 1}
    return arm.Platform(
        f"Switch({ranks})",
        bandwidth=bandwidth,
        latency="0 ns",
        settings=keys | {f"npu.compute.{key}": value for key, value in compute.items()},
    )


LAYERS = 8
# Operations of GPT's kernels on one of two ranks, forward: T x 3h/2 x h, the core (half of two
# multiplications of all pairs), T x h x h/2, T x f/2 x h and back, T x V/2 x h.
QKV, CORE, OUT, UP, DOWN, LOGITS = (
    2 * TOKENS * 96 * 64,
    2 * TOKENS * 64 * 4 * 8,
    2 * TOKENS * 64 * 32,
    2 * TOKENS * 128 * 64,
    2 * TOKENS * 64 * 128,
    2 * TOKENS * 256 * 64,
)
FULL = TOKENS * HIDDEN * WIDTH
"""Bytes that are reduced: 8,192."""
SUMS = 12 * TOKENS
"""Bytes of the loss."""


def ps(workload: Workload, target: arm.Platform) -> float:
    return 1e3 * arm.simulate(workload, target).step_time_ns


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    ("bandwidth", "reduction"),
    [
        ("62.5 GB/s", 131_072),
        ("15.625 GB/s", 524_288),
        ("3.90625 GB/s", 2_097_152),
        ("1000000 GB/s", 8.192),
    ],
)
def test_reductions_beside_rows(overlap: bool, bandwidth: str, reduction: float) -> None:
    """An all-reduce of two ranks takes bytes / bandwidth. Rows and their reduction take the longer
    of both instead of both; input gradients are reduced beside the weights' gradients in any
    case."""

    def both(rows: int) -> float:
        return max(rows, reduction) if overlap else rows + reduction

    def last(columns: int) -> float:
        return columns + max(columns, reduction)

    forward = QKV + CORE + both(OUT) + UP + both(DOWN)
    backward = 2 * DOWN + last(UP) + 2 * OUT + 2.5 * CORE + last(QKV)
    expected = (
        reduction + LAYERS * (forward + backward) + LOGITS + reduction * SUMS / FULL + last(LOGITS)
    )
    found = ps(build(GPT, tp=2, framework_set={"overlap_tp": overlap}), platform(bandwidth))
    print(f"{bandwidth} overlap {overlap}: {found:.0f} ps, by hand {expected:.0f} ps")
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("overlap", [False, True])
def test_gathers_and_scatters_beside_multiplications(overlap: bool) -> None:
    """With sequence parallelism half of the bytes each way, shorter than any multiplication: only
    what isn't beside one takes time. Gathers for the weights' gradients always are."""
    half = 65_536
    shown = 0 if overlap else half
    forward = QKV + CORE + OUT + UP + DOWN + 4 * shown
    backward = 2 * (QKV + OUT + UP + DOWN) + 2.5 * CORE + 2 * shown
    # Rows of the embedding scattered, the head's input gathered, the embedding's gradient gathered.
    ends = 3 * half + 3 * LOGITS + 2 * half * SUMS / FULL
    found = ps(
        build(GPT, tp=2, sp=True, framework_set={"overlap_tp": overlap}), platform("62.5 GB/s")
    )
    assert found == pytest.approx(LAYERS * (forward + backward) + ends, rel=1e-6)


@pytest.mark.parametrize("overlap", [False, True])
def test_multiplications_beside_reductions_are_slower(overlap: bool) -> None:
    """At `beside` 0.5 half of what they would do during a reduction is left for later; all of them
    are longer."""
    workload = build(GPT, tp=2, framework_set={"overlap_tp": overlap})
    alone, shared = (ps(workload, platform("62.5 GB/s", beside=part)) for part in (1, 0.5))
    reductions = LAYERS * (4 if overlap else 2) + 1
    assert shared - alone == pytest.approx(reductions * 131_072 / 2, rel=1e-6)


@pytest.mark.parametrize("overlap", [False, True])
def test_endless_compute_leaves_collectives(overlap: bool) -> None:
    """One reduction of the embedding, four a layer, the head's, the loss's, one after the other."""
    found = ps(
        build(GPT, tp=2, framework_set={"overlap_tp": overlap}),
        platform("62.5 GB/s", peak="1000000 TFLOPS"),
    )
    assert found == pytest.approx(131_072 * (2 + 4 * LAYERS + SUMS / FULL), rel=1e-3)


@pytest.mark.parametrize("clamped", [True, False])
@pytest.mark.parametrize("separate", [True, False])
def test_separate_clamps_of_gated_functions(clamped: bool, separate: bool) -> None:
    """Two clamps (read, write 2 bytes) and one tensor of both (4, 4): 16 bytes a value. Backward:
    comparisons (2, 1) with three bounds, two of them joined (2, 1), two selections (1 and 2, 2),
    one tensor of both (4, 4): 30."""
    model = Model("clamped", "moe", {**EXPERTS.fields, "clamped": clamped, "gated": True})
    scripts = experts(setting(model, separate_clamp=separate))
    there, values = clamped and separate, 64 * 2 * model.fields["expert_ffn"]
    for steps, name, each in (
        (scripts.forward, "experts.activation.clamp", 16),
        (scripts.backward, "experts.activation.clamp.grad", 30),
    ):
        found = [s.bytes for s in steps if isinstance(s, KernelStep) and s.name == name]
        assert found == ([each * values] if there else [])
