"""Training steps of captured models, against the generator of decoders and by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import nn

import armillary as arm
from armillary.capture.result import Capture
from armillary.errors import InputError
from armillary.workload import Workload, build, captured

LLAMA = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 3072,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
TOKENS = 2048


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("llama") / "config.json"
    file.write_text(json.dumps(LLAMA), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def llama(config: Path) -> Capture:
    return arm.capture(config, sequence=TOKENS, name="captured")


def operations(made: Workload) -> int:
    assert made.summary is not None
    return made.summary.flops


@pytest.mark.parametrize("draw", range(6))
def test_states_are_those_of_the_generator(draw: int, llama: Capture, config: Path) -> None:
    drawn = random.Random(draw)
    options: dict[str, Any] = {
        "dp": drawn.choice([1, 2, 8, 32]),
        "pp": drawn.choice([1, 2, 4]),
        "zero": drawn.choice([0, 1, 2, 3]),
        "fp32_gradients": drawn.choice([False, True]),
        "moments": drawn.choice(["fp32", "bf16"]),
        "recompute": drawn.choice(["none", "full"]),
    }
    ours, theirs = captured(llama, **options), build(config, seq=TOKENS, **options)
    assert ours.summary is not None
    assert theirs.summary is not None
    assert ours.summary.parameters == theirs.summary.parameters
    assert ours.ranks == theirs.ranks
    for one, other in zip(ours.summary.classes, theirs.summary.classes, strict=True):
        assert one.memory.optimizer == other.memory.optimizer
        assert one.memory.gradients == other.memory.gradients
        assert one.memory.weights == other.memory.weights
        assert one.volumes == other.volumes


def test_a_step_is_like_the_generators(llama: Capture, config: Path) -> None:
    """The same products. The kernels between them are PyTorch's, so that bytes differ."""
    ours, theirs = captured(llama, dp=8), build(config, dp=8, seq=TOKENS)
    assert operations(ours) == pytest.approx(operations(theirs), rel=2e-3)
    times = [arm.simulate(made, "dgx-h100").step_time_ns for made in (ours, theirs)]
    assert times[0] == pytest.approx(times[1], rel=0.1)


@pytest.mark.parametrize("recipe", ["delayed", "tensorwise", "rowwise", "blockwise"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_products_in_8_bits_save_what_the_generator_says(
    recipe: str, recompute: str, llama: Capture, config: Path
) -> None:
    """Faster products, less what casts take; the head keeps its format."""
    times: list[list[float]] = [
        [
            arm.simulate(made, "dgx-h100").step_time_ns
            for made in (
                captured(llama, dp=8, recompute=recompute, **more),
                build(config, dp=8, seq=TOKENS, recompute=recompute, **more),
            )
        ]
        for more in ({}, {"precision": "fp8", "fp8_recipe": recipe})
    ]
    ours, theirs = (wide - narrow for wide, narrow in zip(*times, strict=True))
    # Queries, keys and values are three kernels here, which share the cast of their input.
    assert ours == pytest.approx(theirs, rel=0.1, abs=0.02 * times[0][0])


def test_narrow_products_keep_memory_and_operations(llama: Capture) -> None:
    wide, narrow = captured(llama).summary, captured(llama, precision="nvfp4").summary
    assert wide is not None
    assert narrow is not None
    assert wide.flops == narrow.flops
    assert [each.memory for each in wide.classes] == [each.memory for each in narrow.classes]


def test_formats_that_a_capture_cannot_have_are_refused(llama: Capture) -> None:
    with pytest.raises(InputError, match=r"fp32, but parameters were captured in bf16"):
        captured(llama, precision="fp32")
    module = arm.capture(Mine(), torch.empty(64, 256))
    with pytest.raises(InputError, match=r"fp8, but parameters were captured in fp32"):
        captured(module, precision="fp8")


def test_a_recipe_without_8_bits_is_said_to_have_no_effect(llama: Capture) -> None:
    result = arm.simulate(captured(llama, fp8_recipe="delayed"), "dgx-h100", npus=1)
    assert "fp8_recipe has no effect with bf16" in result.warnings


def test_kernels_that_pass_over_tensors_are_merged(llama: Capture) -> None:
    merged, single = captured(llama), captured(llama, kernels="eager")
    assert operations(merged) == operations(single)
    assert merged.operations < single.operations / 2
    times = [arm.simulate(made, "dgx-h100", npus=1).step_time_ns for made in (merged, single)]
    assert times[0] < times[1]


def test_recomputation_keeps_the_input_of_each_layer(llama: Capture) -> None:
    whole, again = captured(llama).summary, captured(llama, recompute="full").summary
    assert whole is not None
    assert again is not None
    kept = [summary.classes[0].memory.activations for summary in (whole, again)]
    ends = sum(each.bytes for block in (llama.before, llama.after) for each in block.saved)
    assert kept[1] == 8 * TOKENS * 1024 * 2 + ends
    assert kept[0] - ends > 10 * (kept[1] - ends)
    layers = sum(
        block.count * each.flops
        for block in llama.blocks
        for each in block.operations
        if not each.backward
    )
    assert again.hardware_flops == whole.hardware_flops + layers


def test_shared_parameters_are_on_both_ends(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "tie_word_embeddings": True}), encoding="utf-8")
    found = arm.capture(file, sequence=64)
    made = captured(found, pp=4, global_batch=8).summary
    assert made is not None
    first, last = made.classes[0], made.classes[-1]
    inner = made.classes[1].memory.weights
    assert first.memory.weights == inner + 2 * 32000 * 1024
    assert last.memory.weights == inner + 2 * (32000 * 1024 + 1024)
    assert any(each.kind == "send" for each in last.volumes)


class Mine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(256, 256) for _ in range(4)])
        self.last = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.inner:
            x = torch.relu(layer(x))
        result: torch.Tensor = self.last(x)
        return result


def test_a_module_goes_to_a_page_in_one_call() -> None:
    result = arm.simulate(arm.capture(Mine(), torch.empty(64, 256)), "dgx-h100", dp=8)
    assert "Mine" in result.html()
    # All gradients in 4 bytes, once.
    (volume,) = result.report["config"]["workload"]["summary"]["classes"][0]["volumes"]
    assert volume["bytes"] == 4 * (4 * (256 * 256 + 256) + 256 * 10 + 10)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mp": 2}, "unknown option"),
        ({"schedule": "zb-h1"}, "unknown schedule 'zb-h1'"),
        ({"recompute": "selective"}, "unknown recompute 'selective'"),
        ({"kernels": "compiled"}, "captured: kernels: unknown kernels 'compiled'"),
        ({"moments": "fp8"}, "unknown moments 'fp8'"),
        ({"bucket_mb": -3}, "captured: bucket_mb: -3"),
        ({"global_batch": 0}, "invalid count: 0"),
        ({"zero_group": "a"}, "zero_group: invalid count: 'a'"),
        ({"micro_batch": 2}, "2, but 1 were captured"),
        ({"pp": 9}, "8 layers for 9 = pp 9 x virtual_stages 1 parts"),
        ({"pp": 0}, "invalid count: 0"),
        ({"dp": "many"}, "dp: invalid count: 'many'"),
        ({"zero": 4}, "zero: invalid count: 4"),
        ({"dp": 4, "zero": 1, "zero_group": 3}, "3 doesn't divide"),
        ({"dp": 4, "global_batch": 6}, "6 samples are not a multiple"),
        ({"dp": 4, "ranks": 6}, "6 ranks, but"),
        ({"virtual_stages": 2}, "2 chunks of a single stage"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_that_do_not_fit(options: dict[str, Any], said: str, llama: Capture) -> None:
    with pytest.raises(InputError) as caught:
        captured(llama, **options)
    assert said in str(caught.value)
    assert all(problem.help for problem in caught.value.problems)


def test_a_model_without_repeated_modules_has_no_stages() -> None:
    found = arm.capture(nn.Linear(8, 8), torch.empty(4, 8))
    assert captured(found, dp=2).ranks == 2
    with pytest.raises(InputError, match="pp: no module repeats"):
        captured(found, pp=2)


def test_inputs_without_samples_are_refused() -> None:
    with pytest.raises(InputError, match="have no samples"):
        arm.capture(nn.Linear(8, 8), torch.empty(0, 8))
