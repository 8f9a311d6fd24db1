"""Recomputation of captured models, against PyTorch's checkpoints on real tensors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional
from torch.utils import _pytree as trees
from torch.utils import checkpoint as checkpoints
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode

import armillary as arm
from armillary.capture.result import Capture
from armillary.errors import InputError
from armillary.workload import captured

WIDTH, INNER, HEADS, TOKENS, LAYERS = 32, 48, 4, 24, 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = (
            matrix(x).view(batch, tokens, HEADS, -1).transpose(1, 2)
            for matrix in (self.q, self.k, self.v)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        result: torch.Tensor = self.o(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return result


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return result


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.mlp = Attention(), Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        result: torch.Tensor = x + self.mlp(self.norm2(x))
        return result


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        result: torch.Tensor = self.head(self.norm(x))
        return result


Shape = tuple[int, ...]


def attention(q: Shape, k: Shape, v: Shape, *_: object, **__: object) -> int:
    return int(flop_counter.sdpa_flop_count(q, k, v))  # type: ignore[no-untyped-call]


def attention_backward(g: Shape, q: Shape, k: Shape, v: Shape, *_: object, **__: object) -> int:
    return int(flop_counter.sdpa_backward_flop_count(g, q, k, v))  # type: ignore[no-untyped-call]


ON_PROCESSORS = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
}
"""PyTorch's formulas, which it does not use for kernels on processors."""


def checkpointed(module: nn.Module, kept: list[torch.Tensor], **options: Any) -> None:  # noqa: ANN401
    """Runs the module under PyTorch's checkpoint, which keeps its inputs."""
    forward = module.forward

    def run(*inputs: torch.Tensor) -> Any:  # noqa: ANN401
        kept.extend(inputs)
        return checkpoints.checkpoint(forward, *inputs, use_reentrant=False, **options)

    module.forward = run


class Real:
    """A real step with checkpoints: operations of both passes, and bytes that are kept."""

    def __init__(self, names: list[str], early_stop: bool, contexts: Chosen | None = None) -> None:
        model = Model()
        kept: list[torch.Tensor] = []
        options: dict[str, Any] = {}
        if contexts:
            options = {"context_fn": contexts, "respect_saved_tensors_hooks": False}
        for name in names:
            checkpointed(model.get_submodule(name), kept, early_stop=early_stop, **options)
        own = {each.untyped_storage().data_ptr() for each in model.parameters()}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            kept.append(tensor)
            return tensor

        counter = FlopCounterMode(display=False, custom_mapping=ON_PROCESSORS)
        with counter, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            end = model(torch.rand(2, TOKENS, 8))
        if contexts:
            kept += contexts.tensors()
        self.kept = bytes_of(kept, own)
        with counter:
            end.sum().backward()
        self.backward = counter.get_total_flops()


def bytes_of(tensors: list[torch.Tensor], own: set[int]) -> int:
    sizes = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}
    return sum(size for address, size in sizes.items() if address not in own)


@pytest.fixture(scope="module")
def found() -> Capture:
    return arm.capture(Model(), torch.empty(2, TOKENS, 8))


@cache
def plain() -> Real:
    return Real([], early_stop=False)


def kept_and_again(found: Capture, **options: Any) -> tuple[int, int]:  # noqa: ANN401
    """Bytes that a rank keeps, and operations that run again."""
    made = captured(found, **options).summary
    assert made is not None
    return made.classes[0].memory.activations, made.hardware_flops - made.flops


NAMES = [
    ("mlp", [f"layers.{at}.mlp" for at in range(LAYERS)]),
    ("layers.*.attention", [f"layers.{at}.attention" for at in range(LAYERS)]),
    ("mlp,norm2", [f"layers.{at}.{name}" for at in range(LAYERS) for name in ("mlp", "norm2")]),
    ("layers.1.mlp", ["layers.1.mlp"]),
    ("layers.3", ["layers.3"]),
    ("layers.*.mlp.down", [f"layers.{at}.mlp.down" for at in range(LAYERS)]),
    ("head,layers.0.attention", ["head", "layers.0.attention"]),
]


@pytest.mark.parametrize("early_stop", [False, True])
@pytest.mark.parametrize(("pattern", "names"), NAMES, ids=[pattern for pattern, _ in NAMES])
def test_modules_are_those_of_pytorchs_checkpoint(
    pattern: str, names: list[str], early_stop: bool, found: Capture
) -> None:
    real, whole = Real(names, early_stop), plain()
    kept, again = kept_and_again(found, recompute_modules=pattern, early_stop=early_stop)
    assert kept - found.saved == real.kept - whole.kept
    assert again == real.backward - whole.backward
    assert found.saved == whole.kept


@pytest.mark.parametrize("early_stop", [False, True])
def test_whole_layers(early_stop: bool, found: Capture) -> None:
    real = Real([f"layers.{at}" for at in range(LAYERS)], early_stop)
    kept, again = kept_and_again(found, recompute="full", early_stop=early_stop)
    assert kept == real.kept
    assert again == real.backward - plain().backward


class Chosen:
    """torchtitan's policy: results of attention and of every other product stay."""

    def __init__(self) -> None:
        self.storages: list[Any] = []
        self.products = {False: 0, True: 0}

    def __call__(self) -> tuple[Any, Any]:
        self.products = {False: 0, True: 0}
        make: Any = checkpoints.create_selective_checkpoint_contexts
        made: tuple[Any, Any] = make(self.policy)
        self.storages.append(made[0].storage)
        return made

    def policy(self, ctx: Any, func: Any, *_: object, **__: object) -> Any:  # noqa: ANN401
        stays = "scaled_dot_product" in str(func)
        if func == torch.ops.aten.mm.default:
            self.products[ctx.is_recompute] += 1
            stays = self.products[ctx.is_recompute] % 2 == 1
        policies = checkpoints.CheckpointPolicy
        return policies.MUST_SAVE if stays else policies.PREFER_RECOMPUTE

    def tensors(self) -> Iterator[torch.Tensor]:
        """Bytes that are stored."""
        stored = [list(each.values()) for each in self.storages]
        for leaf in trees.tree_leaves(stored):
            value = getattr(leaf, "val", None)
            if isinstance(value, torch.Tensor):
                yield value


@pytest.mark.parametrize("early_stop", [False, True])
def test_chosen_results_are_those_of_torchtitan(early_stop: bool, found: Capture) -> None:
    contexts = Chosen()
    real = Real([f"layers.{at}" for at in range(LAYERS)], early_stop, contexts)
    kept, again = kept_and_again(found, recompute="ops", early_stop=early_stop)
    assert kept == real.kept
    assert again == real.backward - plain().backward


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recompute_modules": "mpl"}, "no module is called 'mpl'"),
        ({"recompute_modules": "layers.9.mlp"}, "no module is called 'layers.9.mlp'"),
        ({"recompute_modules": "mlp", "recompute": "full"}, "one of them"),
        ({"recompute_modules": 3}, "neither a text nor a list"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str, found: Capture) -> None:
    with pytest.raises(InputError) as caught:
        captured(found, **options)
    assert said in str(caught.value)


def test_a_step_takes_longer_and_less_memory(found: Capture) -> None:
    steps = []
    for options in ({}, {"recompute_modules": "mlp"}, {"recompute": "full"}):
        made = captured(found, **options)
        assert made.summary is not None
        peak = made.summary.classes[0].memory.total
        steps.append((arm.simulate(made, "dgx-h100", npus=1).step_time_ns, -peak))
    assert steps == sorted(steps)
