"""What cannot be captured: one message each, with a way out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_copies import Copies
from small_models import SMALL

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import nn

import armillary as arm
from armillary.errors import InputError

LLAMA = {"model_type": "llama", **SMALL["llama"]}


def refused(tmp_path: Path, values: Any, **options: Any) -> str:  # noqa: ANN401
    file = tmp_path / "config.json"
    file.write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        arm.capture(file, **options)
    (problem,) = caught.value.problems
    assert problem.help
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a mapping"),
        ({}, "is not a configuration of Hugging Face"),
        ({"model_type": "lama"}, "llama"),
        ({**LLAMA, "auto_map": {"AutoModel": "model.Model"}}, "never run"),
        ({**LLAMA, "hidden_size": "wide"}, "LlamaConfig refuses it"),
        ({**LLAMA, "num_attention_heads": 5}, "LlamaConfig refuses it"),
        ({**LLAMA, "hidden_act": "unheard"}, "unheard"),
        ({**LLAMA, "num_hidden_layers": 10**9}, "num_hidden_layers: 1,000,000,000 is too large"),
        ({**LLAMA, "rope": {"theta": [10**99]}}, "rope.theta[0]"),
        ({"model_type": "speech_to_text"}, "takes input_features, whose shape"),
    ],
    ids=[
        "broken",
        "list",
        "nothing",
        "typo",
        "code",
        "word",
        "heads",
        "function",
        "layers",
        "number",
        "sound",
    ],
)
def test_configurations(values: Any, said: str, tmp_path: Path) -> None:  # noqa: ANN401
    assert said in refused(tmp_path, values)


@pytest.mark.parametrize(("key", "value"), [("batch", 0), ("sequence", -1), ("sequence", 2**30)])
def test_counts(key: str, value: int, tmp_path: Path) -> None:
    assert f"invalid count: {value}" in refused(tmp_path, LLAMA, **{key: value})


def test_keys_that_choose_an_implementation_choose_nothing(tmp_path: Path) -> None:
    choices = {"attn_implementation": "somebody/kernel", "_attn_implementation": "eager"}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, **choices, "quantization_config": {"x": 1}}))
    found = arm.capture(file, sequence=16)
    assert any(each.name == "attention" for each in found.blocks[0].operations)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        arm.capture(tmp_path / "nowhere.json")


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x)
        if y.sum() > 0:
            return y
        return -y


@pytest.mark.parametrize(
    ("module", "inputs", "said"),
    [
        (nn.Sequential(Branching()), torch.empty(2, 4), "stopped in 0 (Branching)"),
        (nn.Linear(4, 4), torch.empty(2, 5), "stopped in the module (Linear)"),
        (nn.Linear(4, 4), None, "needs its inputs"),
        (nn.Linear(4, 4), {"y": torch.empty(2, 4)}, "unexpected keyword argument"),
        (nn.ReLU(), torch.empty(2, 4), "no result depends on a parameter"),
    ],
    ids=["branch", "shape", "none", "name", "nothing to train"],
)
def test_modules(module: nn.Module, inputs: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(InputError) as caught:
        arm.capture(module, inputs)
    assert said in str(caught.value)


def test_pytorch_prints_no_traceback(tmp_path: Path, trainings: Copies) -> None:
    program = (
        "import torch, armillary as arm\n"
        "try:\n"
        "    arm.capture(torch.nn.AvgPool2d(0, 0), torch.empty(1, 3, 8, 8))\n"
        "except arm.InputError as error:\n"
        "    print(error)\n"
    )
    run = trainings.run(["-c", program], tmp_path, os.environ)
    assert run.returncode == 0, run.stderr
    assert "stopped in the module (AvgPool2d)" in run.stdout
    assert "Traceback" not in run.stderr


def test_a_branch_names_file_and_line() -> None:
    with pytest.raises(InputError, match=r"test_refusals.py line \d+: .* has none"):
        arm.capture(Branching(), torch.empty(2, 4))
