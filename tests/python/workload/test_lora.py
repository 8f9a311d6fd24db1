"""Adapters of low rank (Hu et al. 2021, arXiv:2106.09685): operations, messages and memory follow
from the matrices alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

from armillary.errors import InputError
from armillary.workload import Summary, transformer

LAYERS, HIDDEN, VOCABULARY, SEQ, BATCH = 4, 128, 512, 64, 32
MATRICES = {
    "qkv": (128, (128, 64, 64)),
    "out": (128, (128,)),
    "up": (128, (352, 352)),
    "down": (352, (128,)),
}
"""Inputs of each matrix, and outputs of its parts."""
ROWS = ("out", "down")
"""Matrices whose inputs tensor parallelism divides; it divides the outputs of the others."""
MODEL = f"""
family: transformer
layers: {LAYERS}
hidden: {HIDDEN}
heads: 8
kv_heads: 4
ffn: 352
gated: true
norm: rms
bias: false
dropout: false
tied: false
vocabulary: {VOCABULARY}
sequence: {SEQ}
"""
WHOLE = (
    LAYERS * (sum(k * sum(parts) for k, parts in MATRICES.values()) + 2 * HIDDEN)
    + 2 * HIDDEN * VOCABULARY
    + HIDDEN
)
"""Parameters without adapters."""

modules = st.sets(st.sampled_from(sorted(MATRICES)), min_size=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lora") / "small.yml"
    path.write_text(MODEL, encoding="utf-8")
    return path


def summary(model: Path, **options: object) -> Summary:
    made = transformer(model, global_batch=BATCH, **options).summary
    assert made is not None
    return made


def sizes(names: set[str], rank: int, tp: int = 1, merged: bool = True) -> list[tuple[int, int]]:
    """Parameters on a rank of both matrices of each adapter of a layer."""
    found = []
    for name in names:
        k, parts = MATRICES[name]
        k, cut = (k // tp, 1) if name in ROWS else (k, tp)
        for n in [sum(parts)] if merged else parts:
            found.append((rank * k, rank * (n // cut)))
    return found


@settings(max_examples=usually(20, 400))
@given(data=st.data())
def test_operations_by_hand(model: Path, data: st.DataObject) -> None:
    """Frozen matrices have no gradients of weights. Adapters have all three multiplications."""
    draw = data.draw
    tp, names, rank = draw(st.sampled_from([1, 2, 4])), draw(modules), draw(st.integers(1, 64))
    merged = draw(st.booleans())
    layout = {
        "tp": tp,
        "sp": draw(st.booleans()),
        "pp": draw(st.sampled_from([1, 2, 4])),
        "cp": draw(st.sampled_from([1, 2])),
        "dp": draw(st.sampled_from([1, 2])),
        "zero": draw(st.integers(0, 3)),
        "schedule": draw(st.sampled_from(["1f1b", "gpipe", "zb-h1"])),
        "precision": draw(st.sampled_from(["bf16", "fp8"])),
        "framework_set": {"merged": merged},
    }
    plain = summary(model, **layout)
    low = summary(model, lora_rank=rank, lora_modules=",".join(sorted(names)), **layout)
    operations = [sum(each.ranks * each.operations for each in s.classes) for s in (plain, low)]
    tokens = BATCH * SEQ
    frozen = LAYERS * sum(k * sum(parts) for k, parts in MATRICES.values()) + HIDDEN * VOCABULARY
    adapted = LAYERS * tp * sum(map(sum, sizes(names, rank, tp, merged)))
    assert operations[0] - operations[1] == 2 * tokens * frozen - 6 * tokens * adapted
    # What the model has, whatever ranks compute twice.
    once = LAYERS * sum(map(sum, sizes(names, rank, 1, merged)))
    assert plain.flops - low.flops == 2 * tokens * frozen - 6 * tokens * once
    assert low.parameters == WHOLE + once
    assert any(f"{once:,} of {WHOLE + once:,} parameters are trained" in n for n in low.notes)


@settings(max_examples=usually(20, 400))
@given(data=st.data())
def test_only_adapters_are_reduced_and_updated(model: Path, data: st.DataObject) -> None:
    draw = data.draw
    tp, pp, names = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2])), draw(modules)
    rank, zero = draw(st.sampled_from([8, 16])), draw(st.integers(0, 2))
    found = summary(
        model, tp=tp, pp=pp, dp=4, zero=zero, lora_rank=rank, lora_modules=",".join(sorted(names))
    )
    here = LAYERS // pp * sum(map(sum, sizes(names, rank, tp)))
    for each in found.classes:
        assert each.memory.gradients == 2 * here // (4 if zero == 2 else 1)
        assert each.memory.optimizer == 12 * here // (4 if zero else 1)
        moved = {v.kind: v.bytes for v in each.volumes if v.group == "dp"}
        if zero == 0:
            assert moved == {"all_reduce": 2 * here}
        else:
            assert moved["all_gather"] == 2 * here // 4
    weights = sum(each.memory.weights for each in found.classes)
    assert weights * tp >= 2 * (WHOLE + tp * pp * here)


def test_frozen_matrices_keep_no_inputs(model: Path) -> None:
    """Bytes of a layer for one token: a norm's output, 2 x 128; a gated function's value, 2 x 352;
    what lies between the matrices of an adapter, 2 x rank."""
    kept = {
        name: summary(model, lora_rank=8, lora_modules=name).classes[0].memory.activations
        for name in MATRICES
    }
    per = LAYERS * SEQ
    between = 2 * 8 * per
    assert kept["qkv"] == kept["up"] == kept["out"] + 2 * 128 * per
    assert kept["down"] == kept["out"] + 2 * 352 * per
    every = summary(model, lora_rank=8).classes[0].memory.activations
    others = 2 * (2 * 128) * per + 2 * 352 * per
    assert every == kept["out"] + others + 3 * between
    # The head keeps no input, and the loss is the same.
    whole = summary(model).classes[0].memory.activations
    assert whole == every - 4 * between + 2 * 128 * SEQ


def test_gathers_again_only_for_what_is_trained(model: Path) -> None:
    def gathered(**options: object) -> int:
        found = summary(model, tp=2, sp=True, **options).classes[0].volumes
        return sum(each.count for each in found if (each.group, each.kind) == ("tp", "all_gather"))

    # A block gathers in the forward pass, its gradient, and again for gradients of its columns.
    # Embedding and head are frozen, and so gather once less each.
    blocks = 2 * LAYERS
    assert gathered() == BATCH * (3 * blocks + 3)
    assert gathered(lora_rank=4) == BATCH * (3 * blocks + 1)
    assert gathered(lora_rank=4, lora_modules="out,down") == BATCH * (2 * blocks + 1)
    assert gathered(lora_rank=4, lora_modules="qkv,down") == BATCH * (2 * blocks + LAYERS + 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lora_modules": "qkv"}, "without lora_rank"),
        ({"lora_rank": 4, "lora_modules": "qkv,gate"}, "unknown: gate"),
        ({"lora_rank": 4, "lora_modules": "q k v"}, "unknown: q k v"),
        ({"lora_rank": -1}, "lora_rank"),
        ({"lora_rank": 1.5}, "lora_rank"),
        ({"lora_rank": 129}, "above the hidden width"),
        ({"lora_rank": 4, "lora_modules": 7}, "lora_modules"),
        ({"lora_rank": 4, "recompute": "ops"}, "ops with lora_rank"),
        ({"lora_rank": 4, "mtp": 1}, "trains nothing"),
        ({"lora_rank": True}, "lora_rank"),
    ],
)
def test_refused(model: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        transformer(model, **options)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3"])
def test_models_whose_adapters_are_unknown(name: str) -> None:
    from armillary.workload import build

    with pytest.raises(InputError, match="adapters of a model with"):
        build(name, lora_rank=8)
