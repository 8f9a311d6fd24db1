"""Frozen parameters: a module with adapters of low rank (Hu et al. 2021, arXiv:2106.09685), and
layers that are partly frozen."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from test_modules import saved_for_real
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import armillary as arm
from armillary.capture.result import Capture
from armillary.workload import captured

WIDTH, INNER, RANK, LAYERS = 64, 96, 4, 6


class Adapted(nn.Module):
    """A frozen matrix with a trained product of two narrow ones next to it, as peft has."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.base(x) + 2 * self.up(self.down(x))
        return result


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH).requires_grad_(False)
        self.first = Adapted(nn.Linear(WIDTH, INNER, bias=False))
        self.last = nn.Linear(INNER, WIDTH, bias=False).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = self.last(torch.relu(self.first(self.norm(x))))
        return x + changed


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, WIDTH).requires_grad_(False)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, 10).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        result: torch.Tensor = self.head(x)
        return result


ADAPTERS = LAYERS * RANK * (WIDTH + INNER)
TOTAL = ADAPTERS + LAYERS * 2 * (WIDTH * INNER + WIDTH) + 9 * WIDTH + WIDTH * 10 + 10


@pytest.fixture(scope="module")
def found() -> Capture:
    return arm.capture(Model(), torch.empty(32, 8))


def test_parameters_are_counted_in_all_and_trained(found: Capture) -> None:
    assert found.parameters.trained == ADAPTERS
    assert found.parameters.total == TOTAL
    assert found.parameters.as_dict()["trained"] == ADAPTERS


def test_operations_are_those_of_autograd(found: Capture) -> None:
    """The first layer's input needs no gradient, so that it is a kind of its own."""
    counter = FlopCounterMode(display=False)
    with counter:
        result = Model()(torch.rand(32, 8))
    assert found.flops == counter.get_total_flops()
    with counter:
        result.sum().backward()
    assert found.flops_backward == counter.get_total_flops()
    assert [block.count for block in found.blocks] == [1, LAYERS - 1]


def test_saved_tensors_are_those_of_autograd(found: Capture) -> None:
    assert found.saved == saved_for_real(Model(), torch.rand(32, 8))


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("pp", [1, 2])
def test_gradients_and_their_reduction_are_of_trained_parameters(
    zero: int, pp: int, found: Capture
) -> None:
    made = captured(found, dp=8, zero=zero, pp=pp).summary
    assert made is not None
    here, ranks = ADAPTERS // pp, [8 if zero >= stage else 1 for stage in (1, 2, 3)]
    for each in made.classes:
        assert each.memory.optimizer == 8 * here // ranks[0]
        assert each.memory.gradients == 4 * here // ranks[1]
    waves = 1 if pp == 1 else 4 * pp
    moved = {each.kind: each.bytes for each in made.classes[-1].volumes if each.group == "dp"}
    if zero == 0:
        assert moved == {"all_reduce": 4 * here}
    elif zero < 3:
        assert moved["reduce_scatter"] == 4 * here * (waves if zero == 2 else 1)
        assert moved["all_gather"] == 4 * here // 8
    else:
        assert moved["reduce_scatter"] == 4 * here * waves
        # Frozen parameters are cut, too, and gathered in both passes of each micro-batch.
        assert moved["all_gather"] > 2 * waves * 4 * here // 8
    weights = sum(each.memory.weights for each in made.classes)
    assert weights == 4 * TOTAL if zero < 3 else weights < 4 * TOTAL
    assert f"{ADAPTERS:,} of {TOTAL:,} parameters are trained" in made.notes


def test_a_model_that_is_trained_whole_says_nothing() -> None:
    made = captured(arm.capture(nn.Linear(8, 8), torch.empty(4, 8))).summary
    assert made is not None
    assert not any("trained" in note for note in made.notes)


class Heads(nn.Module):
    """Two heads that are alike read the same frozen input. What the second one gives is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)])
        self.behind = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = (torch.tanh(head(x)) for head in self.heads)
        result: torch.Tensor = torch.relu(first) + self.behind(second)
        return result


def test_a_module_that_stands_for_another_keeps_its_gradient() -> None:
    counter, module = FlopCounterMode(display=False), Heads()
    with counter:
        module(torch.rand(4, 16)).sum().backward()
    found = arm.capture(module, torch.empty(4, 16))
    assert found.flops + found.flops_backward == counter.get_total_flops()


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_the_first_layers_are_frozen(cut: int) -> None:
    module: Any = Model()
    for at, layer in enumerate(module.layers):
        layer.requires_grad_(at >= cut)
    counter = FlopCounterMode(display=False)
    with counter:
        module(torch.rand(32, 8)).sum().backward()
    found = arm.capture(module, torch.empty(32, 8))
    assert found.flops + found.flops_backward == counter.get_total_flops()
    assert found.saved == saved_for_real(module, torch.rand(32, 8))
