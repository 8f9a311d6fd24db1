"""Identity and size of tensors while they are recorded."""

from __future__ import annotations

import math

import torch

from .records import Buffer


class Memories:
    """Numbers of the memories that tensors lie in. They are held, so that no number is used
    twice."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._held: list[torch.UntypedStorage] = []
        self._parameters: dict[int, str] = {}

    def number(self, tensor: torch.Tensor) -> int:
        """The number of the memory of a tensor, from 0 in the order of appearance."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self._numbers:
            self._numbers[address] = len(self._held)
            self._held.append(storage)
        return self._numbers[address]

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """Says that a tensor is the parameter `name`. The first name of shared weights stays."""
        self._parameters.setdefault(self.number(tensor), name)

    def parameter(self, tensor: torch.Tensor) -> str:
        """The parameter that a tensor is, or a view of; empty where it is none."""
        return self._parameters.get(self.number(tensor), "")

    def buffer(self, tensor: torch.Tensor) -> Buffer:
        """The record of a tensor."""
        return Buffer(
            self.number(tensor),
            tuple(tensor.shape),
            dtype(tensor),
            bytes_of(tensor),
            self.parameter(tensor),
            tuple(each * tensor.element_size() for each in tensor.stride()),
        )


def dtype(tensor: torch.Tensor) -> str:
    """The name of its format, as PyTorch spells it."""
    return str(tensor.dtype).removeprefix("torch.")


def bytes_of(tensor: torch.Tensor) -> int:
    """Bytes of its elements. Elements that a broadcast repeats count once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.element_size() * math.prod(size for size, stride in sizes if stride or not size)
