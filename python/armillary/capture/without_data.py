"""Modules and inputs whose tensors have shapes, and no data.

Here: a tensor without data for each tensor of a module, and what takes them. Not here: what runs on
them (`run.py`)."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as trees

Inputs = Mapping[str, Any] | Sequence[Any] | torch.Tensor
"""Inputs of a module: by name, in order, or a single tensor. Their values are not used."""


def of_module(fake: FakeTensorMode, module: torch.nn.Module, *, own: bool) -> torch.nn.Module:
    """A copy of a module on tensors without data, or the module itself where it is `own`."""
    made = _tensors(fake, module)
    if not own:
        return copy.deepcopy(module, made)
    for each in module.modules():
        for held in (each._parameters, each._buffers, vars(each)):
            for name, value in held.items():
                if id(value) in made and isinstance(value, torch.Tensor):
                    held[name] = made[id(value)]
    return module


def of_inputs(fake: FakeTensorMode, inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named inputs, without data."""
    made = trees.tree_map_only(torch.Tensor, fake.from_tensor, inputs)
    if isinstance(made, Mapping):
        return (), dict(made)
    return ((made,) if isinstance(made, torch.Tensor) else tuple(made)), {}


def _tensors(fake: FakeTensorMode, module: torch.nn.Module) -> dict[int, Any]:
    """Tensors without data for those of a module, by their identities, for copies of it."""
    tensors: list[torch.Tensor] = [*module.parameters(), *module.buffers()]
    shared = Counter(_memory(each) for each in tensors if each.layout is torch.strided)
    plain = [each for each in tensors if _is_plain(each) and shared[_memory(each)] == 1]
    found: dict[int, Any] = {}
    with fake:
        for each in plain:
            # as `from_tensor` makes it, in a tenth of the time
            made = torch.empty(each.shape, dtype=each.dtype, device=each.device)
            made.requires_grad_(each.requires_grad)
            if isinstance(each, torch.nn.Parameter):
                made._is_param = True
            fake.fake_tensor_converter.set_tensor_memo(each, made)  # type: ignore[arg-type]
            found[id(each)] = made
    for each in tensors:
        if id(each) not in found:
            made = fake.from_tensor(each)
            is_parameter = isinstance(each, torch.nn.Parameter)
            found[id(each)] = torch.nn.Parameter(made, each.requires_grad) if is_parameter else made
    return found


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory, in order, and depends on no other."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        and tensor.layout is torch.strided
        and tensor.dim() > 0
        and tensor.is_leaf
        and tensor.is_contiguous()
        and not (tensor._is_view() or tensor.is_quantized or tensor.is_inference())
        and not (tensor.is_conj() or tensor.is_neg())
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    )


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
