"""Recomputation of a number of layers, against counts by hand.

The GPT here has l = 8 layers of h = 64 and 8 heads over s = 64 tokens, with its score matrix
written out: a layer keeps s b h (34 + 5 a s / h) bytes and its input 2 s b h of these (Korthikanti
et al. 2022, table 2), and its forward pass has 24 b s h^2 (1 + s / 6h) operations (Narayanan et al.
2021, appendix)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_transformer import EXPERTS, GPT, LATENT, LLAMA, platform, summary

import armillary as arm
from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.schema import Detail
from armillary.workload import Model, Workload, build, footprints
from armillary.workload.framework_set import nested
from armillary.workload.memory import loss
from armillary.workload.parallelism_reader import parallelism
from armillary.workload.setting import Setting

H, S, HEADS, LAYERS = 64, 64, 8, 8
INPUT = 2 * S * H
WHOLE = S * H * 34 + 5 * HEADS * S * S
FORWARD = 24 * S * H * H + 4 * S * S * H


def gpt(model: Model = GPT, /, **options: object) -> Workload:
    return build(model, **nested({"attention": "unfused", "recompute": "full", **options}))


def parts_of(counts: list[int]) -> list[range]:
    """The layers of each part."""
    return [range(sum(counts[:i]), sum(counts[: i + 1])) for i in range(len(counts))]


def detail(workload: Workload) -> Detail:
    found = arm.simulate(workload, platform(workload.ranks), detail=True).report["detail"]
    assert found is not None
    return found


def recomputed(workload: Workload) -> dict[str, tuple[float, float]]:
    """Times of a layer's recomputation, and of its forward pass."""
    found = {}
    for row in detail(workload)["layers"]:
        times = {each["pass_name"]: each["compute_ns"] for each in row["passes"]}
        if "recompute" in times:
            found[row["layer"]] = times["recompute"], times["forward"]
    return found


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], dict[str, object]]:
    """Layers of each part, and the options that deal them out."""
    pp = draw(st.sampled_from([1, 2, 4]))
    virtual = draw(st.sampled_from([1, 2])) if pp > 1 else 1
    cuts = sorted(draw(st.permutations(range(1, LAYERS)))[: pp * virtual - 1])
    counts = [b - a for a, b in zip([0, *cuts], [*cuts, LAYERS], strict=True)]
    order = {"pp": pp, "virtual_stages": virtual, "layers_per_stage": counts}
    return counts, order | {"global_batch": draw(st.sampled_from([1, 2])) * pp}


@settings(max_examples=15, deadline=None)
@given(layouts(), st.booleans(), st.data())
def test_layers_and_operations(
    layout: tuple[list[int], dict[str, object]], uniform: bool, data: st.DataObject
) -> None:
    """Those that are recomputed repeat their forward pass, and no others do."""
    counts, options = layout
    count = data.draw(st.integers(int(uniform), max(counts)))
    workload = gpt(
        **options, recompute_layers=count, recompute_method="uniform" if uniform else "block"
    )
    parts = parts_of(counts)
    expected = {f"layer{i}" for part in parts for i in (part if uniform else part[:count])}
    found = recomputed(workload)
    assert set(found) == expected
    assert all(again == forward for again, forward in found.values())
    flops = summary(workload)
    batch = flops.batch
    assert flops.hardware_flops - flops.flops == len(expected) * batch * FORWARD
    assert sum(each.operations * each.ranks for each in flops.classes) == flops.hardware_flops


@settings(max_examples=30, deadline=None)
@given(layouts(), st.booleans(), st.data())
def test_bytes_by_hand(
    layout: tuple[list[int], dict[str, object]], uniform: bool, data: st.DataObject
) -> None:
    """In a pipeline of one chunk a stage, a stage holds a micro-batch for each stage from its own
    on. In its backward pass the results of the last checkpoint are there, if no layer after it kept
    more, and less the loss."""
    counts, options = layout
    if options["virtual_stages"] != 1:
        return
    count = data.draw(st.integers(int(uniform), max(counts)))
    given_ = {**options, "recompute_layers": count}
    given_ |= {"recompute_method": "uniform"} if uniform else {}
    settings_ = {"attention": "unfused", "recompute": "full"}
    none = footprints(GPT, **{**settings_, **options, "recompute": "none"})
    found = footprints(GPT, **{**settings_, **given_})
    at = Setting(decoder(GPT), parallelism(decoder(GPT), "", settings_))
    pp, waves = len(counts), int(str(options["global_batch"]))
    for stage, layers in enumerate(counts):
        size = count if uniform else 1
        again = layers if uniform else min(count, layers)
        inputs, last = -(-again // size), (again - 1) % size + 1
        less = again * WHOLE - inputs * INPUT
        held = min(pp - stage, waves)
        assert none[stage].activations - found[stage].activations == held * less
        gone = loss(at) if stage == pp - 1 else 0
        ends = [last, *([size] if inputs > 1 else [])] if again else []
        back = [each * WHOLE - INPUT - gone - (layers - again) * (WHOLE - INPUT) for each in ends]
        assert found[stage].temporary - none[stage].temporary == max(0, *back) if back else True


def files(workload: Workload, folder: Path) -> dict[str, bytes]:
    workload.write(folder)
    return {each.name: each.read_bytes() for each in sorted(folder.iterdir())}


@pytest.mark.parametrize("model", [GPT, LLAMA, EXPERTS, LATENT], ids=lambda each: each.name)
@pytest.mark.parametrize(
    "options",
    [
        {"pp": 2, "virtual_stages": 2},
        {"pp": 2, "schedule": "zb-h1", "framework_set": {"early_stop": True}},
        {"pp": 4, "schedule": "dualpipe", "overlap_passes": True, "global_batch": 8},
        {"dp": 2, "zero": 3},
        {"tp": 2, "sp": True, "attention": "flash"},
    ],
    ids=["interleaved", "zb-h1", "dualpipe", "zero3", "sp"],
)
def test_none_and_all(model: Model, options: dict[str, object], tmp_path: Path) -> None:
    """No layer is `none`; all of them, or checkpoints of one, are `full`: the same bytes."""
    none, full = (gpt(model, **options, recompute=kind) for kind in ("none", "full"))
    most = LAYERS // (int(str(options.get("pp", 1))) * int(str(options.get("virtual_stages", 1))))
    made = {
        "0": (gpt(model, **options, recompute_layers=0), none),
        "most": (gpt(model, **options, recompute_layers=most), full),
        "1": (gpt(model, **options, recompute_layers=1, recompute_method="uniform"), full),
    }
    for name, (one, other) in made.items():
        assert summary(one).classes == summary(other).classes, name
        assert summary(one).hardware_flops == summary(other).hardware_flops
        mine, theirs = (files(w, tmp_path / f"{name}.{i}") for i, w in enumerate((one, other)))
        mine.pop("workload.json"), theirs.pop("workload.json")
        assert mine == theirs


@settings(max_examples=12, deadline=None)
@given(layouts(), st.sampled_from([GPT, LLAMA, EXPERTS, LATENT]), st.booleans())
def test_more_layers_take_less_memory_and_more_time(
    layout: tuple[list[int], dict[str, object]], model: Model, early: bool
) -> None:
    counts, options = layout
    before: tuple[list[int], int] | None = None
    for count in range(max(counts) + 1):
        given_ = {**options, "recompute_layers": count, "framework_set": {"early_stop": early}}
        workload = gpt(model, **given_)
        memory = [each.memory.total for each in summary(workload).classes]
        time = round(arm.simulate(workload, platform(workload.ranks)).step_time_ns * 1000)
        if before is not None:
            # A stage counts the largest layer of the model, with experts or without.
            alike = "experts" not in model.fields
            assert not alike or all(a <= b for a, b in zip(memory, before[0], strict=True))
            assert time >= before[1]
        before = memory, time


def test_a_group_repeats_before_any_of_its_layers_runs_backward() -> None:
    """Checkpoints of 3 of 8 layers: 6 and 7, then 3 to 5, then 0 to 2 are computed again in a
    row."""
    options = {"recompute_layers": 3, "recompute_method": "uniform", "global_batch": 1}
    workload = gpt(**options)
    bars = detail(workload)["gantt"][0]["bars"]
    again = [each["end_ns"] - each["start_ns"] for each in bars if each["kind"] == "recompute"]
    one = recomputed(workload)["layer0"][1]
    assert again == pytest.approx([2 * one, 3 * one, 3 * one])


def test_early_stop_ends_a_checkpoint() -> None:
    """It leaves out the last matrix of the last layer of each checkpoint."""
    early = {"early_stop": True}
    last = 2 * S * H * 192
    for size, stops in [(1, 8), (3, 3), (8, 1)]:
        options = {"recompute_layers": size, "recompute_method": "uniform", "global_batch": 1}
        whole, less = (
            summary(gpt(LLAMA, **options, **more)).hardware_flops for more in ({}, early)
        )
        assert whole - less == stops * last


def test_modules_of_multi_token_prediction() -> None:
    """Megatron recomputes them with `uniform` and not with `block`."""
    options = {"mtp": 1, "global_batch": 1}
    whole = recomputed(gpt(**options))
    assert whole.keys() - recomputed(gpt(**options, recompute_layers=LAYERS)).keys() == {"mtp0"}
    uniform = {"recompute_layers": 1, "recompute_method": "uniform"}
    again = gpt(**options, **uniform)
    assert recomputed(again) == whole
    assert summary(again).classes == summary(gpt(**options)).classes


def test_adapters_are_computed_again_with_their_layers() -> None:
    """Each of a layer's 4 matrices of 64 x 64 and both of 64 x 256 has an adapter of rank 2."""
    options = {"lora_rank": 2, "global_batch": 1}
    base, two, all_ = (
        summary(gpt(**options, recompute_layers=count)).hardware_flops for count in (0, 2, 8)
    )
    low = 2 * S * 2 * (64 + 192 + 64 + 64 + 64 + 256 + 256 + 64)
    assert two - base == 2 * (FORWARD + low)
    assert all_ - base == 8 * (FORWARD + low)


UNIFORM: dict[str, object] = {"recompute_method": "uniform"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recompute_layers": 9}, "9 layers of each part, but no part of the pipeline has more"),
        ({"recompute_layers": 3, "pp": 4}, "has more than 2 (allowed: 0 to 2)"),
        ({"recompute_layers": 3, "pp": 4} | UNIFORM, "has more than 2 (allowed: 1 to 2)"),
        ({"recompute_layers": 0} | UNIFORM, "recompute_layers: 0 layers of each checkpoint"),
        (UNIFORM, "recompute_method: uniform without recompute_layers"),
        ({"recompute": "none", "recompute_layers": 2}, "recompute_layers: 2 with recompute none"),
        ({"recompute": "ops", "recompute_layers": 0}, "recompute_layers: 0 with recompute ops"),
        (
            {"recompute": "none", "recompute_modules": "mlp", "recompute_layers": 1},
            "1 with recompute none (allowed: recompute full)",
        ),
        ({"recompute_layers": 2, "zero": 3, "dp": 2} | UNIFORM, "with ZeRO 3, which gathers one"),
        ({"recompute_layers": 2, "mtp": 1} | UNIFORM, "with 1 module of multi-token prediction"),
        ({"recompute_layers": -1}, "recompute_layers"),
        ({"recompute_layers": 1.5}, "recompute_layers"),
        ({"recompute_layers": "many"}, "recompute_layers"),
        ({"recompute_layers": 1, "recompute_method": "blocks"}, "block, uniform"),
        ({"recompute_layers": 2**40}, "recompute_layers"),
    ],
)
def test_bad_numbers_of_layers(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as raised:
        gpt(**options)
    assert message in str(raised.value)


def test_a_faulty_layout_is_the_only_fault() -> None:
    with pytest.raises(InputError) as raised:
        gpt(pp=2, layers_per_stage="4,5", recompute_layers=2)
    assert [problem.place for problem in raised.value.problems] == ["layers_per_stage"]
