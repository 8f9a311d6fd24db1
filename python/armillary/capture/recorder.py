"""Records the operations of a module while PyTorch runs it on tensors without data.

Here: one operation after the other, the module that each belongs to, and tensors that autograd
keeps. Not here: which modules repeat (`repeated.py`), fused kernels (`fused.py`).

Operations of the backward pass belong to the module of the operation whose gradient they compute:
autograd numbers its nodes in the order of the forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from . import operators
from .records import Kind, Operation, Product, SavedTensor
from .tensors import Memories, dtype

_DEVICE = torch.ops.prim.device.default


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode under which PyTorch's operations are recorded."""

    def __init__(self, memories: Memories) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memories = memories
        self.operations: list[Operation] = []
        self.saved: dict[int, SavedTensor] = {}
        """Tensors that autograd keeps, by their memory."""
        self.saved_in: dict[int, dict[str, None]] = {}
        """Modules in which autograd kept a tensor, by the operations that were recorded then."""
        self.path: list[str] = [""]
        """Modules that run, outermost first."""
        self.stopped = ""
        """The module in which an error was raised."""
        self.uncounted: set[str] = set()
        """Operators that have no formula, and may be more than a pass over their tensors."""
        self._modules: dict[int, str] = {}
        """The module of each number of autograd."""
        self._last = ""
        """The module of the last operation of the backward pass."""

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is _DEVICE and isinstance(args[0], FakeTensor):
            # More than half of all calls, mostly of autograd. No operator asks for it here.
            return args[0].fake_device
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if operators.starts_kernel(func):
            reads = [each for each in trees.tree_leaves((args, kwargs)) if _is_tensor(each)]
            writes = [each for each in trees.tree_leaves(result) if _is_tensor(each)]
            if writes:
                self._operator(func, args, kwargs, result, reads, writes)
        return result

    def _operator(
        self,
        func: torch._ops.OpOverload,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: object,
        reads: Sequence[torch.Tensor],
        writes: Sequence[torch.Tensor],
    ) -> None:
        called = operators.name(func)
        product = operators.product(called, args, writes)
        count = (
            operators.product_flops(called, product, args)
            if product
            else operators.flops(func, args, kwargs, result)
        )
        if not (product or count or operators.is_a_pass(func)):
            self.uncounted.add(called)
        rows = operators.rows(called, args, writes)
        self.add(called, operators.kind(called), count, reads, writes, product, rows)

    def add(
        self,
        name: str,
        kind: Kind,
        flops: int,
        reads: Sequence[torch.Tensor],
        writes: Sequence[torch.Tensor],
        product: Product | None = None,
        rows: int = 0,
    ) -> None:
        """Adds an operation. `rows` are the bytes of the rows that an index names."""
        read = tuple(self.memories.buffer(each) for each in reads)
        written = tuple(self.memories.buffer(each) for each in writes)
        moved = operators.moved(
            name, [each.bytes for each in read], [each.bytes for each in written], rows
        )
        module, backward = self._place()
        self.operations.append(
            Operation(name, kind, module, backward, flops, moved, read, written, product)
        )

    def _place(self) -> tuple[str, bool]:
        """The module of the operation at work, and whether it belongs to the backward pass."""
        if torch._C._current_graph_task_id() == -1:
            number = torch.autograd._get_sequence_nr() - 1  # type: ignore[attr-defined]
            self._modules.setdefault(number, self.path[-1])
            return self.path[-1], False
        node = torch._C._current_autograd_node()
        if node is not None:
            self._last = self._modules.get(node._sequence_nr(), self._last)
        return self._last, True

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Notes the tensors that autograd keeps."""

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            memory = self.memories.number(tensor)
            self.saved_in.setdefault(len(self.operations), {})[self.path[-1]] = None
            if memory not in self.saved and not self.memories.parameter(tensor):
                whole = tensor.untyped_storage().nbytes()
                self.saved[memory] = SavedTensor(
                    memory, self.path[-1], tuple(tensor.shape), dtype(tensor), whole
                )
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            yield


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)
