"""Modules of a user: counted by hand, and against PyTorch's own hooks on real tensors."""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional

import armillary as arm
from armillary.capture.result import Capture


class Perceptron(nn.Module):
    def __init__(self, width: int = 8, inner: int = 32) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = self.down(functional.gelu(self.up(x)))
        return x + changed


class Attention(nn.Module):
    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            parts[0], parts[1], parts[2], is_causal=True
        )
        result: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return result


class Stack(nn.Module):
    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(
            [nn.Sequential(Attention(), Perceptron(16, 24 if i % 3 else 40)) for i in range(layers)]
        )
        self.head = nn.Linear(16, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        result: torch.Tensor = self.head(x)
        return result


def test_a_perceptron_counted_by_hand() -> None:
    found = arm.capture(Perceptron(), torch.empty(4, 10, 8))
    one = 2 * 40 * 8 * 32
    assert found.parameters.total == 8 * 32 + 32 + 32 * 8
    assert found.flops == 2 * one
    # The input needs no gradient: one product less.
    assert found.flops_backward == 3 * one
    names = [each.name for each in found.after.operations if not each.backward]
    assert names == ["addmm", "gelu", "mm", "add"]
    up = found.after.operations[0]
    assert (up.module, up.kind) == ("up", "matmul")
    assert up.product is not None
    assert (up.product.m, up.product.n, up.product.k) == (40, 32, 8)
    assert up.bytes == 4 * (32 + 40 * 8 + 8 * 32 + 40 * 32)
    # The input, the input of the function and its result.
    assert found.saved == 4 * (40 * 8 + 40 * 32 + 40 * 32)


def saved_for_real(module: nn.Module, *given: torch.Tensor) -> int:
    """Bytes that autograd keeps of a real run, but for parameters."""
    held = (*module.parameters(), *module.buffers())
    own = {each.untyped_storage().data_ptr() for each in held}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(*given)
    return sum(
        each.untyped_storage().nbytes() for address, each in kept.items() if address not in own
    )


@pytest.mark.parametrize(
    ("module", "given"),
    [
        (Perceptron(), torch.rand(4, 10, 8)),
        (nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8)), torch.rand(3, 8)),
        (nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU()), torch.rand(2, 3, 9, 9)),
        (nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Softmax(-1)), torch.rand(3, 8)),
    ],
    ids=["perceptron", "norm", "convolution", "dropout"],
)
def test_saved_tensors_are_those_of_a_real_run(module: nn.Module, given: torch.Tensor) -> None:
    assert arm.capture(module, given).saved == saved_for_real(module, given)


def totals(found: Capture) -> tuple[int, ...]:
    return found.flops, found.flops_backward, found.bytes, found.saved, found.kernels


def test_layers_that_are_alike_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = torch.zeros((2, 12), dtype=torch.long)
    once = arm.capture(Stack(), tokens)
    assert [block.modules for block in once.blocks] == [
        ("layers.0", "layers.3"),
        ("layers.1", "layers.2", "layers.4", "layers.5"),
    ]
    repeated = importlib.import_module("armillary.capture.repeated")
    monkeypatch.setattr(repeated, "_members", lambda module: ())
    every = arm.capture(Stack(), tokens)
    assert not every.blocks
    assert totals(every) == totals(once)


class Numbered(nn.Module):
    """Layers in a mapping, as torchtitan has them."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(8, 8) for name in names})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for each in self.layers.values():
            x = each(x)
        return x


def test_layers_may_have_numbers_as_keys() -> None:
    first, second = arm.capture(Numbered("0", "1", "4"), torch.zeros(2, 8)).blocks
    assert first.modules == ("layers.0",), "its input has no gradient"
    assert second.modules == ("layers.1", "layers.4")
    assert not arm.capture(Numbered("first", "second"), torch.zeros(2, 8)).blocks


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (nn.Conv1d(8, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=2, dilation=2)),
        (nn.Conv1d(8, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding="same", bias=True)),
        (nn.Conv1d(8, 8, 1, stride=1), nn.Conv1d(8, 8, 1, stride=2)),
    ],
    ids=["dilation", "padding", "stride"],
)
def test_layers_with_other_settings_are_not_alike(first: nn.Module, second: nn.Module) -> None:
    module = nn.Sequential(first, second, first)
    found = arm.capture(module, torch.empty(2, 8, 32))
    assert len(found.blocks) >= 2
    assert all("1" not in block.modules or block.modules == ("1",) for block in found.blocks)


def test_a_capture_leaves_the_module_as_it_was() -> None:
    module = Stack()
    before = {name: each.clone() for name, each in module.state_dict().items()}
    arm.capture(module, torch.zeros((2, 12), dtype=torch.long))
    assert all(each.grad is None for each in module.parameters())
    assert all(torch.equal(each, before[name]) for name, each in module.state_dict().items())
    assert "forward" not in vars(module.layers[0])


def test_attention_is_one_kernel() -> None:
    found = arm.capture(Attention(), torch.empty(2, 12, 16))
    (forward,) = [each for each in found.after.operations if each.name == "attention"]
    assert forward.flops == 2 * (2 * 4 * 12 * 12 // 2) * (4 + 4)


@pytest.mark.parametrize(
    "module",
    [
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0),
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, dropout=0.0),
            2,
            enable_nested_tensor=False,
        ),
    ],
    ids=["layer", "encoder"],
)
def test_attention_of_pytorchs_modules_is_one_kernel(module: nn.Module) -> None:
    found = arm.capture(module, torch.empty(2, 12, 16))
    assert found.warnings == ()
    names = {each.name for block in found._all for each in block.operations}
    assert {"unmasked_attention", "unmasked_attention.backward"} <= names
    pairs = 2 * 4 * 12 * 12
    attention = [
        each.flops
        for block in found._all
        for each in block.operations
        if each.name == "unmasked_attention"
    ]
    assert set(attention) == {2 * pairs * (4 + 4)}
    assert arm.simulate(found, "dgx-h100", dp=2).step_time_ns > 0


def test_inputs_by_name_and_a_loss() -> None:
    module = Perceptron()
    named = arm.capture(module, {"x": torch.empty(4, 10, 8)}, loss=lambda y: y.float().mean())
    assert named.flops == arm.capture(module, [torch.empty(4, 10, 8)]).flops


def test_frozen_parameters_have_no_gradients() -> None:
    module = Perceptron()
    module.up.requires_grad_(False)
    assert arm.capture(module, torch.empty(4, 10, 8)).flops_backward == 2 * 40 * 8 * 32


def test_costs_by_module_add_up() -> None:
    found = arm.capture(Stack(), torch.zeros((2, 12), dtype=torch.long))
    rows = {(each.module, each.count): each for each in found.modules(1)}
    layers = rows["layers.*", 2], rows["layers.*", 4]
    inside = sum(each.flops for each in layers)
    assert inside + rows["", 1].flops == found.flops
    assert rows["layers.*.0", 4].parameters == 4 * 4 * 16 * 16
    assert rows["embed", 1].parameters == 50 * 16


def test_one_capture_is_like_the_next() -> None:
    tokens = torch.zeros((2, 12), dtype=torch.long)
    assert arm.capture(Stack(), tokens).as_dict() == arm.capture(Stack(), tokens).as_dict()


def test_operators_without_a_formula_give_a_warning() -> None:
    class Inverse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.eye(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inverse: torch.Tensor = torch.linalg.inv(self.weight)
            return x @ inverse

    (warning,) = arm.capture(Inverse(), torch.empty(2, 4)).warnings
    assert warning == "operations are not counted of linalg_inv_ex, only bytes"
    assert arm.capture(Perceptron(), torch.empty(2, 8)).warnings == ()


class Named(nn.Module):
    """Layers that are read from a set of their names."""

    def __init__(self) -> None:
        super().__init__()
        self.names = {f"layer_{index}" for index in range(12)}
        for name in sorted(self.names):
            self.add_module(name, nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.names:
            x = self.get_submodule(name)(x)
        return x


def test_sets_are_read_in_order() -> None:
    """Python's own order of words differs from process to process."""
    module = Named()
    found = arm.capture(module, torch.zeros(4, 8))
    read = [buffer.parameter for each in found.after.operations for buffer in each.reads]
    used = [each for each in read if each.endswith("weight")][: len(module.names)]
    assert used == [f"{name}.weight" for name in sorted(module.names)]
    assert type(module.names) is set
