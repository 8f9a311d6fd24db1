"""Names of models in tables: the shapes that they stand for, or why a row is left out."""

from __future__ import annotations

from typing import Any

import pytest

from armillary.kernels.tables import Left
from armillary.model.decoder_reader import decoder
from armillary.model.weights import parameters as weights
from armillary_lab.measured.published import steps
from armillary_lab.measured.training import Training
from armillary_lab.predict import training_steps

BRIDGE: dict[str, Any] = {
    "id": "bridge", "group": "nemo_megatron_bridge", "grade": "A",
    "model": {"name": "DeepSeekV3", "seq": 4096}, "hardware": {"gpu": "DGX-B200", "gpus": 256},
    "parallel": {"tp": "1", "pp": "8", "cp": "1", "vp": "2", "ep": "8", "fsdp": "0"},
    "batch": {"global_batch": 4096, "micro_batch": "1"}, "precision": "MXFP8",
    "metric": {"iter_time_s_derived": 19.7},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "billions"),
    [
        ("NeMo Megatron", 96, 12288, 175),
        ("GPT3-5B", 24, 4096, 5),
        ("GPT3-20B", 44, 6144, 20),
        ("Nemotron-22B", 40, 6144, 22),
        ("Nemotron4-15B", 32, 6144, 15),
        ("LLAMA2-7B SFT", 32, 4096, 6.7),
    ],
)
def test_names_of_tables_are_models_of_that_size(
    name: str, layers: int, hidden: int, billions: float
) -> None:
    """Sizes in the names, within a digit."""
    parallel = {"tp": 1, "pp": 1, "dp": 256}
    model = {"name": name, "seq": 2048}
    run = steps.training(BRIDGE | {"model": model, "parallel": parallel, "precision": "BF16"})
    assert isinstance(run, Training)
    shape = decoder(run.model)
    assert (shape.layers, shape.hidden) == (layers, hidden)
    assert weights(shape) / 1e9 == pytest.approx(billions, rel=0.07)


def test_a_hybrid_of_mamba_layers_is_captured() -> None:
    """Megatron-Bridge, `Nemotron3NanoProvider`: 31.6 billion parameters."""
    parallel = {"tp": "1", "pp": "1", "cp": "1", "vp": "n/a", "ep": "8", "fsdp": "0"}
    model = {"name": "Nemotron_3_Nano", "seq": 8192}
    run = steps.training(BRIDGE | {"model": model, "parallel": parallel})
    assert isinstance(run, Training)
    assert (run.captured, run.seq, run.dp, run.ep) == (True, 8192, 256, 8)
    pytest.importorskip("transformers")
    from armillary.capture import parameters

    assert parameters(run.model.file).total == 31_577_937_344
    assert "framework" not in training_steps.options(run)
    left = steps.training(BRIDGE | {"model": model, "parallel": parallel | {"tp": "2"}})
    assert isinstance(left, Left)
    assert "tp 1 and pp 1 alone" in left.reason


def test_adapters_are_on_queries_keys_and_values() -> None:
    run = steps.training(BRIDGE | {"model": {"name": "LLAMA3_70B LoRA", "seq": 4096}})
    assert isinstance(run, Training)
    options = training_steps.options(run)
    assert (options["lora_rank"], options["lora_modules"]) == (16, "qkv")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("LLAMA3_70B PEFT", "adapters of another kind than LoRA"),
        ("Nemotron_3_Super", "without multi-token prediction"),
        ("nemotronh_56b", "Mamba-2 layers have no model"),
    ],
)
def test_a_name_without_a_model_is_the_reason(name: str, reason: str) -> None:
    left = steps.training(BRIDGE | {"model": {"name": name, "seq": 4096}})
    assert isinstance(left, Left)
    assert reason in left.reason


def test_experts_without_a_degree_are_left_out() -> None:
    parallel = {key: value for key, value in BRIDGE["parallel"].items() if key != "ep"}
    left = steps.training(BRIDGE | {"parallel": parallel})
    assert isinstance(left, Left)
    assert "ep of a model with experts" in left.reason
