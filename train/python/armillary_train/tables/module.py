"""Common part of collections of tables as modules of torch.

Here: the parameter that freezes them, moves to other types and devices, which are refused, and
tensors of a batch that change before the backward pass. Not here: lookups (`embedding.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from armillary.errors import InputError, Problem

from .batch import SparseBatch


class TablesModule(torch.nn.Module):
    """A module whose tables are not parameters, because they change in the backward pass."""

    device: torch.device

    def __init__(self) -> None:
        super().__init__()
        self.anchor = torch.nn.Parameter(torch.empty(0))
        """The tables, as torch's modules see them: empty. They are frozen while it needs no
        gradient, as by `requires_grad_(False)`."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TablesModule:
        """Refuses another type or device, which the tables would not have."""
        before = torch.empty(0, device=self.device)
        after = fn(before)
        if (after.dtype, after.device) == (before.dtype, before.device):
            return self
        said = f"tables can't be moved from {_kind(before)} to {_kind(after)}"
        allowed = (
            "another collection: Table(dtype=...) sets the type, GpuEmbeddingCollection is on a "
            "GPU, and load_state_dict copies weights"
        )
        raise InputError([Problem("", type(self).__name__, said, allowed)])

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Saves nothing of the module itself: the anchor has no elements."""

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads nothing for the module itself."""
        known = tuple(f"{prefix}{name}." for name, _ in self.named_children())
        found = (key for key in state_dict if key.startswith(prefix))
        unexpected_keys += [key for key in found if not key.startswith(known)]


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"


class Given:
    """The tensors of a batch as they were looked up. Torch counts how often each has changed."""

    def __init__(self, sparse: SparseBatch) -> None:
        named = {
            "lengths": sparse.lengths,
            "indices": sparse.indices,
            "weights": sparse.weights,
        }
        self._seen = [
            (name, tensor, tensor._version)
            for name, tensor in named.items()
            if tensor is not None and not tensor.is_inference()
        ]

    def require_same(self) -> None:
        """Raises `InputError` if one has changed since. The backward pass would change other rows
        than those that were looked up."""
        changed = [name for name, tensor, version in self._seen if tensor._version != version]
        if changed:
            said = "changed in place after they were looked up, before the backward pass"
            help_ = "other tensors for the next batch, or a copy of these"
            raise InputError([Problem("", f"batch: {name}", said, help_) for name in changed])
