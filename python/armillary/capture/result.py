"""A captured training step of a model: costs by module, and totals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ..units import counted
from .parameter_counts import Parameters
from .records import Block, Operation, Rules


@dataclass(frozen=True, slots=True)
class ModuleCost:
    """Costs of one module and all inside it in a step, all of its kind together."""

    module: str
    """Path; a star stands for the numbers of modules that are alike."""
    count: int
    parameters: int
    flops: int
    flops_backward: int
    bytes: int
    """Bytes that its kernels read and write, both passes."""
    saved: int
    """Bytes that autograd keeps from the forward pass."""
    kernels: int


@dataclass(frozen=True, slots=True)
class Capture:
    """One training step of a model on one device, each kind of repeated module recorded once.

    Counts are those of PyTorch's own kernels one by one, but for attention, scans and causal
    convolutions, which count as one fused kernel each."""

    name: str
    parameters: Parameters
    before: Block
    """Operations before the first repeated module, such as the embedding, and those of the backward
    pass behind it."""
    blocks: tuple[Block, ...]
    """Modules that repeat, in the order of their first calls."""
    after: Block
    """All other operations, such as the last norm, the head and the loss."""
    order: tuple[int, ...] = ()
    """The block of each repeated module, in the order of the calls."""
    samples: int = 1
    """Samples of the inputs: their first dimension."""
    tokens: int = 0
    """Tokens of all samples; 0 where inputs are not tokens."""
    warnings: tuple[str, ...] = ()
    rules: Rules = field(default_factory=Rules)
    """How parallelism divides its parameters."""

    @property
    def flops(self) -> int:
        """Operations of the forward pass."""
        return self._sum(lambda each: 0 if each.backward else each.flops)

    @property
    def flops_backward(self) -> int:
        """Operations of the backward pass."""
        return self._sum(lambda each: each.flops if each.backward else 0)

    @property
    def bytes(self) -> int:
        """Bytes that all kernels read and write."""
        return self._sum(lambda each: each.bytes)

    @property
    def saved(self) -> int:
        """Bytes that autograd keeps from the forward pass for the backward pass."""
        return sum(block.count * sum(each.bytes for each in block.saved) for block in self._all)

    @property
    def kernels(self) -> int:
        """Kernels of both passes."""
        return sum(block.count * len(block.operations) for block in self._all)

    @property
    def _all(self) -> tuple[Block, ...]:
        return (self.before, *self.blocks, self.after)

    def _sum(self, of: Callable[[Operation], int]) -> int:
        return sum(block.count * sum(map(of, block.operations)) for block in self._all)

    def modules(self, depth: int = 2) -> list[ModuleCost]:
        """Costs by module, to `depth` levels inside of a repeated module, first call first."""
        rows: list[ModuleCost] = []
        for block in self._all:
            modules = [each.module for each in block.operations]
            modules += [each.module for each in block.saved]
            paths = dict.fromkeys(
                path for module in modules for path in _levels(module, block, depth)
            )
            rows += [self._cost(block, path) for path in paths]
        return rows

    def _cost(self, block: Block, path: str) -> ModuleCost:
        def within(name: str) -> bool:
            return not path or name == path or name.startswith(f"{path}.")

        operations = [each for each in block.operations if within(each.module)]
        count = block.count
        first = block.modules[0] if block.modules else ""
        inside = [each for each in self.parameters.tensors if within(each.name) and path]
        return ModuleCost(
            _starred(path, first) if count > 1 else path,
            count,
            count * sum(each.count for each in inside),
            count * sum(each.flops for each in operations if not each.backward),
            count * sum(each.flops for each in operations if each.backward),
            count * sum(each.bytes for each in operations),
            count * sum(each.bytes for each in block.saved if within(each.module)),
            count * len(operations),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: totals, parameters by part, costs by module, every operation."""
        return {
            "name": self.name,
            "parameters": self.parameters.as_dict(),
            "flops": {"forward": self.flops, "backward": self.flops_backward},
            "bytes": self.bytes,
            "saved": self.saved,
            "kernels": self.kernels,
            "warnings": list(self.warnings),
            "rules": asdict(self.rules),
            "modules": [asdict(each) for each in self.modules()],
            "blocks": [asdict(each) for each in self._all],
        }

    def __repr__(self) -> str:
        size = counted(self.parameters.total, "parameter")
        return f"<Capture {self.name}: {size}, {counted(self.kernels, 'kernel')}>"


def _levels(module: str, block: Block, depth: int) -> Iterator[str]:
    """The paths of a module and of the modules around it, down to `depth` levels."""
    first = block.modules[0] if block.modules else ""
    rest = module.removeprefix(first).strip(".")
    parts = rest.split(".") if rest else []
    yield from itertools.accumulate(
        parts[:depth], lambda path, part: f"{path}.{part}" if path else part, initial=first
    )


def _starred(path: str, first: str) -> str:
    """The path with a star for the number of a repeated module."""
    return f"{first.rpartition('.')[0]}.*{path.removeprefix(first)}"
