"""Stands for classes of modules that cannot be captured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Armillary

pytest.importorskip("torch")

import torch
from torch import nn

import armillary as arm
from armillary.capture.result import Capture
from armillary.errors import InputError
from armillary.workload import build, captured

WIDTH, ROWS = 16, 32


class Branching(nn.Module):
    """Asks for the values of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x)
        return y if y.sum() > 0 else -y


class Experts(nn.Module):
    """Loops over the experts that have tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.ModuleList([nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(8)])

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(x)
        for at, expert in enumerate(self.each):
            (rows,) = torch.where(chosen == at)
            result = result.index_add(0, rows, expert(x[rows]))
        return result


class Model(nn.Module):
    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Branching() for _ in range(layers)])
        self.experts = Experts()
        self.head = nn.Linear(WIDTH, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        x = self.experts(x, x.argmax(-1) % 8)
        result: torch.Tensor = self.head(x)
        return result


HEAD = 2 * ROWS * WIDTH * 4


def found(**treat: str) -> Capture:
    return arm.capture(Model(), torch.empty(ROWS, WIDTH), treat=treat)


def test_a_stop_names_the_way_out() -> None:
    with pytest.raises(InputError) as caught:
        found()
    (problem,) = caught.value.problems
    assert problem.place == "layers.0"
    assert "test_treated.py line" in problem.message
    assert "--treat Branching=RULE, with skip, linear" in problem.help


def test_skipped_modules_cost_nothing() -> None:
    made = found(Branching="skip", Experts="skip")
    assert made.flops == HEAD
    assert made.flops_backward == HEAD
    assert made.parameters.total == 3 * WIDTH**2 + 8 * WIDTH**2 + WIDTH * 4


def test_linear_modules_meet_each_parameter_once() -> None:
    made, one = found(Branching="linear", Experts="experts:2"), 2 * ROWS * WIDTH**2
    assert made.flops == HEAD + (3 + 2) * one
    # The first input needs no gradient.
    assert made.flops_backward == 2 * made.flops - one
    assert [block.count for block in made.blocks] == [1, 2]
    kinds = {each.kind for block in made.blocks for each in block.operations}
    assert kinds == {"matmul"}


def test_frozen_modules_have_one_gradient() -> None:
    module = Model()
    module.experts.requires_grad_(False)
    rules = {"Branching": "linear", "Experts": "linear"}
    made = arm.capture(module, torch.empty(ROWS, WIDTH), treat=rules)
    one = 2 * ROWS * WIDTH**2
    assert made.flops == HEAD + (3 + 8) * one
    assert made.flops_backward == 2 * HEAD + 5 * one + 8 * one


def test_a_width() -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(WIDTH, 40, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.up(x)
            return y * y.max().item()

    module = nn.Sequential(Wide(), nn.Linear(40, 4))
    made = arm.capture(module, torch.empty(ROWS, WIDTH), treat=["Wide=linear:40"])
    assert made.flops == 2 * ROWS * (WIDTH * 40 + 40 * 4)


@pytest.mark.parametrize(
    ("treat", "said"),
    [
        ({"Branchin": "skip"}, "no module is of the class 'Branchin' (allowed: Branching"),
        ({"Branching": "free"}, "unknown rule 'free' of Branching (allowed: skip, linear"),
        ({"Branching": ""}, "unknown rule ''"),
        ({"Branching": "linear:x"}, "unknown rule 'linear:x'"),
        ({"Branching": "linear:0"}, "unknown rule 'linear:0'"),
        ({"Branching": "experts"}, "unknown rule 'experts'"),
        ({"Branching": "experts:2"}, "2 of 0 experts in Branching"),
        ({"Branching": "skip", "Experts": "experts:9"}, "9 of 8 experts in Experts"),
        ("Branching", "unknown rule ''"),
    ],
)
def test_what_is_refused(treat: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(InputError) as caught:
        arm.capture(Model(), torch.empty(ROWS, WIDTH), treat=treat)
    assert said in str(caught.value)
    assert all(problem.help for problem in caught.value.problems)


def test_a_capture_takes_no_stands_afterwards() -> None:
    with pytest.raises(InputError, match="treat"):
        captured(found(Branching="skip", Experts="skip"), treat="Branching=skip")


def test_a_step_of_a_configuration(tmp_path: Path, armillary: Armillary) -> None:
    pytest.importorskip("transformers")
    file = tmp_path / "config.json"
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"intermediate_size": 96, "num_key_value_heads": 4, "vocab_size": 96}
    file.write_text(json.dumps({"model_type": "llama", **shape}), encoding="utf-8")
    plain = build(f"capture:{file}", seq=32).summary
    same = build(f"capture:{file}", seq=32, treat="LlamaMLP=linear").summary
    less = build(f"capture:{file}", seq=32, treat=["LlamaMLP=skip"]).summary
    assert plain is not None
    assert same is not None
    assert less is not None
    assert same.flops == plain.flops == less.flops + 2 * 3 * 2 * 32 * 3 * 64 * 96
    words = ("run", f"capture:{file}", "-p", "dgx-h100", "--seq", "32", "--treat", "LlamaMLP=free")
    run = armillary(*words, XDG_CACHE_HOME=str(tmp_path))
    assert run.returncode == 2
    assert "unknown rule 'free' of LlamaMLP" in " ".join(run.stderr.split())
